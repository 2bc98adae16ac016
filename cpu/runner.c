// runner.c -- see runner.h.
#include "cpu/runner.h"
#include "cpu/median.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// From D_O on: of the backward pass.
enum { Q, K, V, O, LSE, BIAS, MASK, Q_CUMULATIVE, KV_CUMULATIVE, D_O, DQ, DK, DV, DBIAS, TENSORS };
enum { MAX_REPEATS = 64 };
static const char *const tensor_name[TENSORS] = {
    [Q] = "q",
    [K] = "k",
    [V] = "v",
    [O] = "o",
    [LSE] = "lse",
    [BIAS] = "bias",
    [MASK] = "mask",
    [D_O] = "do",
    [DQ] = "dq",
    [DK] = "dk",
    [DV] = "dv",
    [DBIAS] = "dbias",
    [Q_CUMULATIVE] = "q_cumulative",
    [KV_CUMULATIVE] = "kv_cumulative",
};

// Everything of one call that lives on the device.
typedef struct device_side {
    const attn_device *device;
    const attn_problem *problem;
    size_t bytes[TENSORS]; // with what lies between the elements of a strided one
    void *tensor[TENSORS];
    void *buffer[2 * ATTN_MAX_BUFFERS]; // the forward pass' buffers, then the backward pass'
    int buffers;
    attn_tensors tensors;
} device_side;

static void set_sizes(size_t bytes[TENSORS], const attn_problem *p) {
    const attn_layout layout = attn_layout_of(p);
    memset(bytes, 0, TENSORS * sizeof bytes[0]);
    bytes[Q] = bytes[DQ] = sizeof(float) * attn_q_extent(p, layout.q);
    bytes[K] = bytes[DK] = sizeof(float) * attn_kv_extent(p, layout.k);
    bytes[V] = bytes[DV] = sizeof(float) * attn_kv_extent(p, layout.v);
    bytes[O] = bytes[D_O] = sizeof(float) * attn_q_extent(p, layout.o);
    bytes[LSE] = sizeof(float) * attn_rows(p);
    bytes[BIAS] = sizeof(float) * attn_bias_elements(p);
    bytes[DBIAS] = p->bias_gradient ? bytes[BIAS] : 0;
    bytes[MASK] = attn_mask_elements(p);
    if (p->sequences != 0)
        bytes[Q_CUMULATIVE] = bytes[KV_CUMULATIVE] = sizeof(int32_t) * (size_t)(p->sequences + 1);
}

static int has_tensor(const attn_problem *p, int tensor, int passes) {
    if (tensor == BIAS || tensor == DBIAS)
        return p->bias_heads != 0 && (tensor == BIAS || (p->bias_gradient && passes == 2));
    if (tensor == MASK) return p->mask_heads != 0;
    if (tensor == Q_CUMULATIVE || tensor == KV_CUMULATIVE) return p->sequences != 0;
    return tensor < D_O || passes == 2;
}

uint64_t attn_extra_bytes(const attn_stage *stage, const attn_problem *problem, attn_pass pass,
                          uint64_t *kept) {
    attn_buffer need[ATTN_MAX_BUFFERS];
    const int count = stage->buffers ? stage->buffers(problem, pass, need) : 0;
    uint64_t total = 0;
    if (kept) *kept = 0;
    for (int i = 0; i < count; i++) {
        if (need[i].bytes > UINT64_MAX - total) return UINT64_MAX;
        total += need[i].bytes;
        if (kept && need[i].kept) *kept += need[i].bytes;
    }
    return total;
}

static int is_on_gpu(const attn_loaded_stage *row) {
    const char *kind = row->module->device->kind;
    return strcmp(kind, "gpu") == 0 || strcmp(kind, "count") == 0;
}

// Refuses before anything is allocated, so that the sentence can say how much it would be in all.
attn_status attn_run_fits(const attn_loaded_stage *row, const attn_problem *problem, int backward) {
    size_t bytes[TENSORS];
    const int passes = backward ? 2 : 1;
    set_sizes(bytes, problem);
    double need = 0, extra = 0;
    for (int i = 0; i < TENSORS; i++)
        if (has_tensor(problem, i, passes)) need += (double)bytes[i];
    for (int pass = 0; pass < passes; pass++)
        extra += (double)attn_extra_bytes(row->stage, problem, (attn_pass)pass, NULL);
    const uint64_t free_bytes = row->module->device->free_bytes();
    // On the host side every tensor lies in memory a second time.
    const double copies = is_on_gpu(row) ? 1 : 2;
    if (free_bytes == 0 || copies * need + extra <= (double)free_bytes) return attn_ok();
    char tensors[32], besides[32], available[32];
    attn_bytes_text(copies * need, tensors, sizeof tensors);
    attn_bytes_text(extra, besides, sizeof besides);
    attn_bytes_text((double)free_bytes, available, sizeof available);
    return attn_error(ATTN_NO_MEMORY,
                      "%s needs %s for the tensors and %s besides, but %s are free; %s",
                      row->stage->name, tensors, besides, available,
                      row->stage->too_large ? row->stage->too_large
                                            : "try fewer queries, keys, heads or a smaller batch");
}

static attn_status allocate_buffers(device_side *side, const attn_stage *stage,
                                    const attn_problem *problem, attn_pass pass) {
    attn_buffer need[ATTN_MAX_BUFFERS];
    const int count = stage->buffers ? stage->buffers(problem, pass, need) : 0;
    for (int i = 0; i < count; i++) {
        if (need[i].bytes > SIZE_MAX)
            return attn_error(ATTN_NO_MEMORY, "%s has more bytes than an address can say",
                              need[i].name);
        ATTN_TRY(side->device->allocate(need[i].name, (size_t)need[i].bytes,
                                        &side->buffer[side->buffers]));
        side->buffers++;
    }
    return attn_ok();
}

// ---- strides: between a contiguous array on the host and a tensor's memory ----

typedef struct view {
    attn_stride stride;
    int64_t heads, rows;
    int strided; // 0: the memory is the array
} view;

static view view_of(const attn_problem *p, int tensor) {
    const attn_layout layout = attn_layout_of(p);
    const int strided =
        (attn_problem_features(p) & (ATTN_HAS_STRIDES | ATTN_HAS_VARIABLE_LENGTHS)) != 0;
    switch (tensor) {
    case Q:
    case DQ:
        return (view){layout.q, p->heads, p->q_len, strided};
    case K:
    case DK:
        return (view){layout.k, p->kv_heads, p->kv_len, strided};
    case V:
    case DV:
        return (view){layout.v, p->kv_heads, p->kv_len, strided};
    case O:
    case D_O:
        return (view){layout.o, p->heads, p->q_len, strided};
    default:
        return (view){.strided = 0};
    }
}

// Row number `row` of [batch][heads][rows], in elements from the memory's start.
static size_t row_at(view v, size_t row) {
    const size_t rows = (size_t)v.rows, heads = (size_t)v.heads;
    return row / rows / heads * (size_t)v.stride.batch +
           row / rows % heads * (size_t)v.stride.head + row % rows * (size_t)v.stride.row;
}

static attn_status upload(const device_side *side, int tensor, const void *host) {
    const view v = view_of(side->problem, tensor);
    const size_t bytes = side->bytes[tensor], d = (size_t)side->problem->head_dim;
    if (!v.strided) return side->device->upload(side->tensor[tensor], host, bytes);
    float *memory = malloc(bytes + 1);
    if (!memory)
        return attn_error(ATTN_NO_MEMORY, "%s needs %.1f MB of memory", tensor_name[tensor],
                          (double)bytes / 1e6);
    memset(memory, 0xff, bytes); // NaN
    const size_t rows = (size_t)side->problem->batch * (size_t)v.heads * (size_t)v.rows;
    for (size_t row = 0; row < rows; row++)
        memcpy(memory + row_at(v, row), (const float *)host + row * d, sizeof(float) * d);
    const attn_status status = side->device->upload(side->tensor[tensor], memory, bytes);
    free(memory);
    return status;
}

static attn_status gather(const device_side *side, int tensor, float *memory, float *host) {
    const view v = view_of(side->problem, tensor);
    const size_t d = (size_t)side->problem->head_dim;
    const size_t rows = (size_t)side->problem->batch * (size_t)v.heads * (size_t)v.rows;
    for (size_t row = 0; row < rows; row++) {
        memcpy(host + row * d, memory + row_at(v, row), sizeof(float) * d);
        memset(memory + row_at(v, row), 0xff, sizeof(float) * d);
    }
    for (size_t at = 0; at < side->bytes[tensor]; at++) // fresh memory is 0xff, and nobody's
        if (((const unsigned char *)memory)[at] != 0xff)
            return attn_error(ATTN_DEVICE, "%s was written between its rows, at element %zu",
                              tensor_name[tensor], at / sizeof(float));
    return attn_ok();
}

static attn_status fetch(const device_side *side, int tensor, float **host) {
    const size_t bytes = side->bytes[tensor]; // at least those of the contiguous array
    const attn_status no_memory = attn_error(ATTN_NO_MEMORY, "%s needs %.1f MB of memory",
                                             tensor_name[tensor], (double)bytes / 1e6);
    float *memory = *host = malloc(bytes + 1); // + 1: an empty tensor is not NULL
    if (!memory) return no_memory;
    ATTN_TRY(side->device->download(memory, side->tensor[tensor], bytes));
    if (!view_of(side->problem, tensor).strided) return attn_ok();
    *host = malloc(bytes + 1);
    const attn_status status = *host ? gather(side, tensor, memory, *host) : no_memory;
    free(memory);
    return status;
}

static attn_status fill_device(device_side *side, const attn_stage *stage,
                               const attn_problem *problem, const attn_inputs *inputs) {
    const int passes = inputs->d_o ? 2 : 1;
    const void *const source[TENSORS] = {[Q] = inputs->q,
                                         [K] = inputs->k,
                                         [V] = inputs->v,
                                         [BIAS] = inputs->bias,
                                         [MASK] = inputs->mask,
                                         [Q_CUMULATIVE] = problem->q_cumulative,
                                         [KV_CUMULATIVE] = problem->kv_cumulative,
                                         [D_O] = inputs->d_o};
    for (int i = 0; i < TENSORS; i++) {
        if (!has_tensor(problem, i, passes)) continue;
        ATTN_TRY(side->device->allocate(tensor_name[i], side->bytes[i], &side->tensor[i]));
        if (source[i]) ATTN_TRY(upload(side, i, source[i]));
    }
    for (int pass = 0; pass < passes; pass++)
        ATTN_TRY(allocate_buffers(side, stage, problem, (attn_pass)pass));
    void **t = side->tensor;
    side->tensors = (attn_tensors){.q = t[Q],
                                   .k = t[K],
                                   .v = t[V],
                                   .o = t[O],
                                   .lse = t[LSE],
                                   .d_o = t[D_O],
                                   .dq = t[DQ],
                                   .dk = t[DK],
                                   .dv = t[DV],
                                   .bias = t[BIAS],
                                   .mask = t[MASK],
                                   .q_cumulative = t[Q_CUMULATIVE],
                                   .kv_cumulative = t[KV_CUMULATIVE],
                                   .dbias = t[DBIAS]};
    return attn_ok();
}

static void release_device(device_side *side) {
    for (int i = 0; i < TENSORS; i++)
        if (side->tensor[i]) side->device->release(side->tensor[i]);
    for (int i = 0; i < side->buffers; i++)
        if (side->buffer[i]) side->device->release(side->buffer[i]);
}

static attn_status run_pass(device_side *side, const attn_stage *stage, const attn_problem *problem,
                            attn_pass pass, int repeats, attn_run *run) {
    const attn_device *device = side->device;
    const int timed = device->timer_start != NULL;
    const int count = !timed || repeats < 1 ? 1 : repeats > MAX_REPEATS ? MAX_REPEATS : repeats;
    double seconds[MAX_REPEATS];
    if (device->reset_traffic) device->reset_traffic();
    for (int i = 0; i < count; i++) {
        if (timed) device->timer_start();
        ATTN_TRY(pass == ATTN_FORWARD ? stage->forward(problem, &side->tensors, side->buffer)
                                      : stage->backward(problem, &side->tensors, side->buffer));
        seconds[i] = timed ? device->timer_stop() : 0;
        ATTN_TRY(device->synchronize());
    }
    run->seconds[pass] = attn_median(seconds, count);
    if (device->traffic) {
        run->counted = 1;
        device->traffic(&run->traffic[pass]);
    }
    return attn_ok();
}

static attn_status run_pass_cold(device_side *side, const attn_stage *stage,
                                 const attn_problem *problem, attn_pass pass, attn_run *run) {
    const attn_device *device = side->device;
    ATTN_TRY(device->empty_l2());
    const attn_status status = run_pass(side, stage, problem, pass, 1, run);
    run->modelled = device->dram != NULL;
    if (run->modelled) device->dram(&run->dram[pass]); // ends the model, whatever the pass said
    return status;
}

enum { NO_PASS = -1 };

static attn_status run_all(device_side *side, const attn_loaded_stage *row,
                           const attn_problem *problem, const attn_inputs *inputs, int repeats,
                           int cold, attn_run *run) {
    const attn_stage *stage = row->stage;
    const int passes = inputs->d_o ? 2 : 1;
    ATTN_TRY(attn_run_fits(row, problem, passes == 2));
    ATTN_TRY(fill_device(side, stage, problem, inputs));
    for (int pass = 0; pass < passes; pass++) {
        run->extra_bytes[pass] = attn_extra_bytes(stage, problem, (attn_pass)pass,
                                                  pass == ATTN_FORWARD ? &run->kept_bytes : NULL);
        ATTN_TRY(pass == cold ? run_pass_cold(side, stage, problem, (attn_pass)pass, run)
                              : run_pass(side, stage, problem, (attn_pass)pass, repeats, run));
    }
    ATTN_TRY(fetch(side, O, &run->out.o));
    ATTN_TRY(fetch(side, LSE, &run->out.lse));
    if (passes == 1) return attn_ok();
    ATTN_TRY(fetch(side, DQ, &run->out.dq));
    ATTN_TRY(fetch(side, DK, &run->out.dk));
    ATTN_TRY(fetch(side, DV, &run->out.dv));
    return problem->bias_gradient ? fetch(side, DBIAS, &run->out.dbias) : attn_ok();
}

static attn_status run_stage(const attn_loaded_stage *row, const attn_problem *problem,
                             const attn_inputs *inputs, int repeats, int cold, attn_run *run) {
    memset(run, 0, sizeof *run);
    ATTN_TRY(attn_stage_supports(row->stage, problem, inputs->d_o ? ATTN_BACKWARD : ATTN_FORWARD));
    device_side side;
    memset(&side, 0, sizeof side);
    side.device = row->module->device, side.problem = problem;
    set_sizes(side.bytes, problem);
    attn_status status = run_all(&side, row, problem, inputs, repeats, cold, run);
    release_device(&side);
    if (status.code != ATTN_OK) attn_run_free(run);
    return status;
}

attn_status attn_run_stage(const attn_loaded_stage *row, const attn_problem *problem,
                           const attn_inputs *inputs, int repeats, attn_run *run) {
    return run_stage(row, problem, inputs, repeats, NO_PASS, run);
}

attn_status attn_run_cold(const attn_loaded_stage *row, const attn_problem *problem,
                          const attn_inputs *inputs, attn_pass pass, attn_run *run) {
    memset(run, 0, sizeof *run);
    if (!row->module->device->empty_l2)
        return attn_error(ATTN_UNSUPPORTED, "the device %s has no L2 cache to measure or to model",
                          row->module->device->kind);
    attn_inputs needed = *inputs;
    if (pass == ATTN_FORWARD) needed.d_o = NULL;
    return run_stage(row, problem, &needed, 1, (int)pass, run);
}

void attn_run_free(attn_run *run) {
    free(run->out.o);
    free(run->out.lse);
    free(run->out.dq);
    free(run->out.dk);
    free(run->out.dv);
    free(run->out.dbias);
    memset(run, 0, sizeof *run);
}
