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

typedef struct part {
    void *there;     // on the device
    uint64_t before; // bytes that do not exist
} part;

static attn_status allocate(const attn_device *device, const char *name, uint64_t whole,
                            uint64_t bytes, part *p) {
    p->before = whole - bytes;
    return device->allocate(name, bytes, &p->there);
}

// Where the whole would begin. Nothing is there, so this is no pointer that C knows: it goes through a number.
static void *whole_of(const part *p) {
    return (void *)((uintptr_t)p->there - p->before);
}

static int is_near(const float *a, const float *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f * (1 + fabsf(b[i])))) return 0;
    return 1;
}

// Runs the last part: `small` is the problem of that alone, `expected` what comes out of it.
static attn_status run(const attn_loaded_stage *row, const attn_problem *whole, int64_t parts,
                       const attn_problem *small, const attn_inputs *inputs,
                       const attn_run *expected) {
    const attn_device *device = row->module->device;
    const uint64_t q = 4 * attn_q_elements(small), kv = 4 * attn_kv_elements(small);
    const uint64_t bytes[TENSORS] = {q, kv, kv, q, 4 * attn_rows(small)};
    const uint64_t all_q = 4 * attn_q_elements(whole), all_kv = 4 * attn_kv_elements(whole);
    const uint64_t all[TENSORS] = {all_q, all_kv, all_kv, all_q, 4 * attn_rows(whole)};
    part tensor[TENSORS], buffer[ATTN_MAX_BUFFERS];
    void *buffers[ATTN_MAX_BUFFERS];
    attn_buffer need[ATTN_MAX_BUFFERS];
    const int count = row->stage->buffers ? row->stage->buffers(whole, ATTN_FORWARD, need) : 0;
    for (int i = 0; i < TENSORS; i++)
        ATTN_TRY(allocate(device, names[i], all[i], bytes[i], &tensor[i]));
    for (int i = 0; i < count; i++) {
        ATTN_TRY(allocate(device, need[i].name, need[i].bytes, need[i].bytes / (uint64_t)parts,
                          &buffer[i]));
        buffers[i] = whole_of(&buffer[i]);
    }
    const float *const data[] = {inputs->q, inputs->k, inputs->v};
    for (int i = Q; i <= V; i++) ATTN_TRY(device->upload(tensor[i].there, data[i], bytes[i]));

    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)parts);
    const attn_tensors tensors = {.q = whole_of(&tensor[Q]),
                                  .k = whole_of(&tensor[K]),
                                  .v = whole_of(&tensor[V]),
                                  .o = whole_of(&tensor[O]),
                                  .lse = whole_of(&tensor[LSE])};
    setenv("EMULATED_LAST", text, 1);
    device->reset_traffic();
    attn_status status = row->stage->forward(whole, &tensors, buffers);
    unsetenv("EMULATED_LAST");
    ATTN_TRY(status);
    attn_traffic traffic;
    device->traffic(&traffic);
    if (attn_traffic_total(&traffic).written == 0)
        return attn_error(ATTN_UNSUPPORTED, "%s has fewer blocks than that", row->stage->name);

    float *o = malloc(bytes[O]), *lse = malloc(bytes[LSE]);
    status = o && lse ? attn_ok() : attn_error(ATTN_NO_MEMORY, "no memory for the results");
    if (status.code == ATTN_OK) status = device->download(o, tensor[O].there, bytes[O]);
    if (status.code == ATTN_OK) status = device->download(lse, tensor[LSE].there, bytes[LSE]);
    if (status.code == ATTN_OK && !(is_near(o, expected->out.o, attn_q_elements(small)) &&
                                    is_near(lse, expected->out.lse, attn_rows(small))))
        status = attn_error(ATTN_DEVICE, "%s: the last part of O or L is not what it is alone",
                            row->stage->name);
    free(o);
    free(lse);
    for (int i = 0; i < TENSORS; i++) device->release(tensor[i].there);
    for (int i = 0; i < count; i++) device->release(buffer[i].there);
    return status;
}

attn_status last_part_run(const attn_loaded_stage *row, int which) {
    const char *kind = row->module->device->kind;
    if (strcmp(kind, "emulator") != 0 && strcmp(kind, "check") != 0)
        return attn_error(ATTN_UNSUPPORTED, "%s runs all of a launch", kind);
    int64_t parts;
    attn_problem whole = whole_problem(which, &parts);
    if (row->stage->features & ATTN_HAS_TILE_SIZES)
        whole.bc = 64; // one slice: nothing lies behind all heads
    test_case c = {.problem = whole, .kind = ATTN_INPUT_NORMAL, .seed = 5};
    c.problem.heads = c.problem.kv_heads = 1, c.problem.q_len = 64;
    ATTN_TRY(attn_stage_supports(row->stage, &whole, ATTN_FORWARD));
    test_input input = test_input_make(&c);
    attn_inputs inputs = test_inputs(&input);
    inputs.d_o = NULL;
    attn_run alone;
    attn_status status = attn_run_stage(row, &c.problem, &inputs, 1, &alone);
    if (status.code == ATTN_OK) {
        status = run(row, &whole, parts, &c.problem, &inputs, &alone);
        attn_run_free(&alone);
    }
    test_input_free(&input);
    return status;
}
