// last_part.c -- see last_part.h.
#include "tests/last_part.h"
#include "tests/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A problem, and in how many equal parts it falls: heads, or tiles of 64 queries of one head.
static attn_problem whole_problem(int which, int64_t *parts) {
    const int64_t heads = ((int64_t)1 << 24) + 1, tiles = ((int64_t)1 << 18) + 1;
    attn_problem p = attn_problem_of(64, 64, 4); // 256 elements a head: 2^32 and one head's
    *parts = heads;
    p.heads = p.kv_heads = heads;
    if (which ==
        1) { // the same rows of one element, and four times as many: L has 2^32 and one head's
        *parts = 4 * (heads - 1) + 1;
        p.heads = p.kv_heads = *parts;
        p.head_dim = 1;
    }
    if (which == 2) { // a long head: 2^24 rows of 256 elements, and one tile's
        *parts = tiles;
        p.heads = p.kv_heads = 1;
        p.q_len = 64 * tiles, p.head_dim = 256;
    }
    p.scale = 1;
    return p;
}

enum { Q, K, V, O, LSE, TENSORS };
static const char *const names[TENSORS] = {"q", "k", "v", "o", "lse"};

// The last part on the device.
typedef struct last_part {
    const attn_loaded_stage *row;
    const attn_device *device;
    attn_problem whole, small; // small: of the last part alone
    int64_t parts;
    void *tensor[TENSORS], *buffer[ATTN_MAX_BUFFERS]; // what there is of each
    size_t bytes[TENSORS];
    attn_tensors tensors;            // where they would begin
    void *buffers[ATTN_MAX_BUFFERS]; // likewise
} last_part;

static void set_sizes(const attn_problem *p, size_t bytes[TENSORS]) {
    const size_t q = 4 * attn_q_elements(p), kv = 4 * attn_kv_elements(p);
    const size_t sizes[TENSORS] = {q, kv, kv, q, 4 * attn_rows(p)};
    memcpy(bytes, sizes, sizeof sizes);
}

// Allocates the last `bytes` of `whole`. *begin is where all of it would begin: nothing is there, and C
// knows no such pointer, so it goes through a number.
static attn_status allocate(const attn_device *device, const char *name, uint64_t whole,
                            uint64_t bytes, void **memory, void **begin) {
    ATTN_TRY(device->allocate(name, bytes, memory));
    *begin = (void *)((uintptr_t)*memory - (whole - bytes));
    return attn_ok();
}

static attn_status set_up(last_part *l, const attn_inputs *inputs) {
    const attn_stage *stage = l->row->stage;
    const float *const data[] = {inputs->q, inputs->k, inputs->v};
    size_t all[TENSORS];
    void *begin[TENSORS];
    attn_buffer need[ATTN_MAX_BUFFERS];
    set_sizes(&l->whole, all);
    set_sizes(&l->small, l->bytes);
    for (int i = 0; i < TENSORS; i++) {
        ATTN_TRY(allocate(l->device, names[i], all[i], l->bytes[i], &l->tensor[i], &begin[i]));
        if (i <= V) ATTN_TRY(l->device->upload(l->tensor[i], data[i], l->bytes[i]));
    }
    l->tensors.q = begin[Q], l->tensors.k = begin[K], l->tensors.v = begin[V];
    l->tensors.o = begin[O], l->tensors.lse = begin[LSE];
    const int count = stage->buffers ? stage->buffers(&l->whole, ATTN_FORWARD, need) : 0;
    for (int i = 0; i < count; i++)
        ATTN_TRY(allocate(l->device, need[i].name, need[i].bytes,
                          need[i].bytes / (uint64_t)l->parts, &l->buffer[i], &l->buffers[i]));
    return attn_ok();
}

static attn_status compute(last_part *l) {
    char text[24];
    attn_traffic traffic;
    snprintf(text, sizeof text, "%lld", (long long)l->parts);
    l->device->reset_traffic();
    setenv("EMULATED_LAST", text, 1);
    const attn_status status = l->row->stage->forward(&l->whole, &l->tensors, l->buffers);
    unsetenv("EMULATED_LAST");
    ATTN_TRY(status);
    l->device->traffic(&traffic);
    if (attn_traffic_total(&traffic).written > 0) return attn_ok();
    return attn_error(ATTN_UNSUPPORTED, "%s has fewer blocks than that", l->row->stage->name);
}

// Does tensor i hold what the same problem alone gave?
static attn_status compare(const last_part *l, int i, const float *expected) {
    float *got = malloc(l->bytes[i]);
    attn_status status = got ? l->device->download(got, l->tensor[i], l->bytes[i])
                             : attn_error(ATTN_NO_MEMORY, "no memory");
    for (size_t e = 0; e < l->bytes[i] / 4 && status.code == ATTN_OK; e++)
        if (!(fabsf(got[e] - expected[e]) <= 1e-5f * (1 + fabsf(expected[e]))))
            status = attn_error(ATTN_DEVICE, "%s: %s[%zu] of the last part is %g, and alone %g",
                                l->row->stage->name, names[i], e, got[e], expected[e]);
    free(got);
    return status;
}

static attn_status run(last_part *l, const attn_inputs *inputs, const attn_run *alone) {
    ATTN_TRY(set_up(l, inputs));
    ATTN_TRY(compute(l));
    ATTN_TRY(compare(l, O, alone->out.o));
    return compare(l, LSE, alone->out.lse);
}

attn_status last_part_run(const attn_loaded_stage *row, int which) {
    static last_part l; // large
    const char *kind = row->module->device->kind;
    if (strcmp(kind, "emulator") != 0 && strcmp(kind, "check") != 0)
        return attn_error(ATTN_UNSUPPORTED, "%s runs all of a launch", kind);
    memset(&l, 0, sizeof l);
    l.row = row, l.device = row->module->device;
    l.whole = whole_problem(which, &l.parts);
    // One slice of the keys, where there are slices: partial results of more would lie behind all heads'.
    if (row->stage->features & ATTN_HAS_TILE_SIZES) l.whole.bc = 64;
    ATTN_TRY(attn_stage_supports(row->stage, &l.whole, ATTN_FORWARD));
    l.small = l.whole;
    l.small.heads = l.small.kv_heads = 1, l.small.q_len = 64;

    const test_case c = {.problem = l.small, .kind = ATTN_INPUT_NORMAL, .seed = 5};
    test_input input = test_input_make(&c);
    attn_inputs inputs = test_inputs(&input);
    inputs.d_o = NULL;
    attn_run alone;
    attn_status status = attn_run_stage(row, &l.small, &inputs, 1, &alone);
    if (status.code == ATTN_OK) {
        status = run(&l, &inputs, &alone);
        attn_run_free(&alone);
    }
    for (int i = 0; i < TENSORS; i++) l.device->release(l.tensor[i]);
    for (int i = 0; i < ATTN_MAX_BUFFERS; i++) l.device->release(l.buffer[i]);
    test_input_free(&input);
    return status;
}
