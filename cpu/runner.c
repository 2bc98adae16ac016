// runner.c -- see runner.h.
#include "cpu/runner.h"
#include "cpu/median.h"
#include "cpu/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const tensor_name[ATTN_RUN_TENSORS] = {
    [ATTN_TENSOR_Q] = "q",
    [ATTN_TENSOR_K] = "k",
    [ATTN_TENSOR_V] = "v",
    [ATTN_TENSOR_O] = "o",
    [ATTN_TENSOR_LSE] = "lse",
    [ATTN_TENSOR_BIAS] = "bias",
    [ATTN_TENSOR_MASK] = "mask",
    [ATTN_TENSOR_Q_CUMULATIVE] = "q_cumulative",
    [ATTN_TENSOR_KV_CUMULATIVE] = "kv_cumulative",
    [ATTN_TENSOR_D_O] = "do",
    [ATTN_TENSOR_DQ] = "dq",
    [ATTN_TENSOR_DK] = "dk",
    [ATTN_TENSOR_DV] = "dv",
    [ATTN_TENSOR_DBIAS] = "dbias",
};
static const attn_run_tensor result_tensor[ATTN_RESULTS] = {
    [ATTN_RESULT_O] = ATTN_TENSOR_O,   [ATTN_RESULT_LSE] = ATTN_TENSOR_LSE,
    [ATTN_RESULT_DQ] = ATTN_TENSOR_DQ, [ATTN_RESULT_DK] = ATTN_TENSOR_DK,
    [ATTN_RESULT_DV] = ATTN_TENSOR_DV, [ATTN_RESULT_DBIAS] = ATTN_TENSOR_DBIAS,
};

// Everything of one call that lives on the device.
typedef struct device_side {
    const attn_device *device;
    const attn_problem *problem;
    size_t bytes[ATTN_RUN_TENSORS]; // with what lies between the elements of a strided one
    void *tensor[ATTN_RUN_TENSORS];
    void *buffer[2 * ATTN_MAX_BUFFERS]; // the forward pass' buffers, then the backward pass'
    int buffers;
    attn_tensors tensors;
    attn_variation_watch watch[ATTN_RESULTS]; // where runs are compared
} device_side;

// How the passes are run.
enum { NO_PASS = -1 };
typedef struct manner {
    int repeats;
    int compared; // 1: every run with the first
    int cold;     // the pass that starts with an empty L2, or NO_PASS
} manner;

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

static view view_of(const attn_problem *p, attn_run_tensor tensor) {
    const attn_layout layout = attn_layout_of(p);
    const int strided =
        (attn_problem_features(p) & (ATTN_HAS_STRIDES | ATTN_HAS_VARIABLE_LENGTHS)) != 0;
    switch (tensor) {
    case ATTN_TENSOR_Q:
    case ATTN_TENSOR_DQ:
        return (view){layout.q, p->heads, p->q_len, strided};
    case ATTN_TENSOR_K:
    case ATTN_TENSOR_DK:
        return (view){layout.k, p->kv_heads, p->kv_len, strided};
    case ATTN_TENSOR_V:
    case ATTN_TENSOR_DV:
        return (view){layout.v, p->kv_heads, p->kv_len, strided};
    case ATTN_TENSOR_O:
    case ATTN_TENSOR_D_O:
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

static attn_status upload(const device_side *side, attn_run_tensor tensor, const void *host) {
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

// Of the contiguous array.
static size_t host_elements(const device_side *side, attn_run_tensor tensor) {
    const view v = view_of(side->problem, tensor);
    if (!v.strided) return side->bytes[tensor] / sizeof(float);
    return (size_t)side->problem->batch * (size_t)v.heads * (size_t)v.rows *
           (size_t)side->problem->head_dim;
}

static attn_status gather(const device_side *side, attn_run_tensor tensor, float *memory,
                          float *host) {
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

static attn_status fetch(const device_side *side, attn_run_tensor tensor, float **host) {
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
    const void *const source[ATTN_RUN_TENSORS] = {[ATTN_TENSOR_Q] = inputs->q,
                                                  [ATTN_TENSOR_K] = inputs->k,
                                                  [ATTN_TENSOR_V] = inputs->v,
                                                  [ATTN_TENSOR_BIAS] = inputs->bias,
                                                  [ATTN_TENSOR_MASK] = inputs->mask,
                                                  [ATTN_TENSOR_Q_CUMULATIVE] =
                                                      problem->q_cumulative,
                                                  [ATTN_TENSOR_KV_CUMULATIVE] =
                                                      problem->kv_cumulative,
                                                  [ATTN_TENSOR_D_O] = inputs->d_o};
    for (int i = 0; i < ATTN_RUN_TENSORS; i++) {
        const attn_run_tensor tensor = (attn_run_tensor)i;
        if (!attn_run_has_tensor(problem, tensor, passes == 2)) continue;
        ATTN_TRY(side->device->allocate(tensor_name[i], side->bytes[i], &side->tensor[i]));
        if (source[i]) ATTN_TRY(upload(side, tensor, source[i]));
    }
    for (int pass = 0; pass < passes; pass++)
        ATTN_TRY(allocate_buffers(side, stage, problem, (attn_pass)pass));
    void **t = side->tensor;
    side->tensors = (attn_tensors){.q = t[ATTN_TENSOR_Q],
                                   .k = t[ATTN_TENSOR_K],
                                   .v = t[ATTN_TENSOR_V],
                                   .o = t[ATTN_TENSOR_O],
                                   .lse = t[ATTN_TENSOR_LSE],
                                   .d_o = t[ATTN_TENSOR_D_O],
                                   .dq = t[ATTN_TENSOR_DQ],
                                   .dk = t[ATTN_TENSOR_DK],
                                   .dv = t[ATTN_TENSOR_DV],
                                   .bias = t[ATTN_TENSOR_BIAS],
                                   .mask = t[ATTN_TENSOR_MASK],
                                   .q_cumulative = t[ATTN_TENSOR_Q_CUMULATIVE],
                                   .kv_cumulative = t[ATTN_TENSOR_KV_CUMULATIVE],
                                   .dbias = t[ATTN_TENSOR_DBIAS]};
    return attn_ok();
}

static void release_device(device_side *side) {
    for (int i = 0; i < ATTN_RUN_TENSORS; i++)
        if (side->tensor[i]) side->device->release(side->tensor[i]);
    for (int i = 0; i < side->buffers; i++)
        if (side->buffer[i]) side->device->release(side->buffer[i]);
    for (int r = 0; r < ATTN_RESULTS; r++) attn_variation_free(&side->watch[r]);
}

static attn_status watch_outputs(device_side *side, attn_pass pass) {
    const int end = pass == ATTN_FORWARD ? ATTN_RESULT_DQ : ATTN_RESULTS;
    for (int r = pass == ATTN_FORWARD ? ATTN_RESULT_O : ATTN_RESULT_DQ; r < end; r++) {
        const attn_run_tensor tensor = result_tensor[r];
        float *values = NULL;
        if (!side->tensor[tensor]) continue;
        attn_status status = fetch(side, tensor, &values);
        if (status.code == ATTN_OK)
            status = attn_variation_add(&side->watch[r], values, host_elements(side, tensor));
        free(values);
        ATTN_TRY(status);
    }
    return attn_ok();
}

static attn_status run_pass(device_side *side, const attn_stage *stage, const attn_problem *problem,
                            attn_pass pass, manner how, attn_run *run) {
    const attn_device *device = side->device;
    const int timed = device->timer_start != NULL, many = timed || how.compared;
    const int most = how.repeats < ATTN_MAX_REPEATS ? how.repeats : ATTN_MAX_REPEATS;
    const int count = many && most > 1 ? most : 1;
    double seconds[ATTN_MAX_REPEATS];
    if (device->reset_traffic) device->reset_traffic();
    for (int i = 0; i < count; i++) {
        if (timed) device->timer_start();
        ATTN_TRY(pass == ATTN_FORWARD ? stage->forward(problem, &side->tensors, side->buffer)
                                      : stage->backward(problem, &side->tensors, side->buffer));
        seconds[i] = timed ? device->timer_stop() : 0;
        ATTN_TRY(device->synchronize());
        run->counted = device->traffic != NULL;
        if (run->counted && i == 0) device->traffic(&run->traffic[pass]);
        if (how.compared) ATTN_TRY(watch_outputs(side, pass));
    }
    run->seconds[pass] = attn_median(seconds, count);
    return attn_ok();
}

static attn_status run_pass_cold(device_side *side, const attn_stage *stage,
                                 const attn_problem *problem, attn_pass pass, manner how,
                                 attn_run *run) {
    const attn_device *device = side->device;
    ATTN_TRY(device->empty_l2());
    const attn_status status = run_pass(side, stage, problem, pass, how, run);
    run->modelled = device->dram != NULL;
    if (run->modelled) device->dram(&run->dram[pass]); // ends the model, whatever the pass said
    return status;
}

static attn_status run_all(device_side *side, const attn_loaded_stage *row,
                           const attn_problem *problem, const attn_inputs *inputs, manner how,
                           attn_run *run) {
    const attn_stage *stage = row->stage;
    const int passes = inputs->d_o ? 2 : 1;
    // Refused before anything is allocated, so that the sentence can say how much it would be in all.
    ATTN_TRY(attn_run_fits(row, problem, passes == 2));
    ATTN_TRY(fill_device(side, stage, problem, inputs));
    for (int pass = 0; pass < passes; pass++) {
        run->extra_bytes[pass] = attn_extra_bytes(stage, problem, (attn_pass)pass, NULL);
        ATTN_TRY(pass == how.cold ? run_pass_cold(side, stage, problem, (attn_pass)pass, how, run)
                                  : run_pass(side, stage, problem, (attn_pass)pass, how, run));
    }
    for (int r = 0; r < ATTN_RESULTS; r++) run->variation[r] = attn_variation_of(&side->watch[r]);
    ATTN_TRY(fetch(side, ATTN_TENSOR_O, &run->out.o));
    ATTN_TRY(fetch(side, ATTN_TENSOR_LSE, &run->out.lse));
    if (passes == 1) return attn_ok();
    ATTN_TRY(fetch(side, ATTN_TENSOR_DQ, &run->out.dq));
    ATTN_TRY(fetch(side, ATTN_TENSOR_DK, &run->out.dk));
    ATTN_TRY(fetch(side, ATTN_TENSOR_DV, &run->out.dv));
    return problem->bias_gradient ? fetch(side, ATTN_TENSOR_DBIAS, &run->out.dbias) : attn_ok();
}

static attn_status run_stage(const attn_loaded_stage *row, const attn_problem *problem,
                             const attn_inputs *inputs, manner how, attn_run *run) {
    memset(run, 0, sizeof *run);
    ATTN_TRY(attn_stage_supports(row->stage, problem, inputs->d_o ? ATTN_BACKWARD : ATTN_FORWARD));
    device_side side;
    memset(&side, 0, sizeof side);
    side.device = row->module->device, side.problem = problem;
    for (int i = 0; i < ATTN_RUN_TENSORS; i++)
        side.bytes[i] = attn_run_tensor_bytes(problem, (attn_run_tensor)i);
    attn_status status = run_all(&side, row, problem, inputs, how, run);
    release_device(&side);
    if (status.code != ATTN_OK) attn_run_free(run);
    return status;
}

attn_status attn_run_stage(const attn_loaded_stage *row, const attn_problem *problem,
                           const attn_inputs *inputs, int repeats, attn_run *run) {
    const manner how = {repeats, 0, NO_PASS};
    return run_stage(row, problem, inputs, how, run);
}

attn_status attn_run_repeated(const attn_loaded_stage *row, const attn_problem *problem,
                              const attn_inputs *inputs, int repeats, attn_run *run) {
    const manner how = {repeats, 1, NO_PASS};
    return run_stage(row, problem, inputs, how, run);
}

attn_status attn_run_cold(const attn_loaded_stage *row, const attn_problem *problem,
                          const attn_inputs *inputs, attn_pass pass, attn_run *run) {
    memset(run, 0, sizeof *run);
    if (!row->module->device->empty_l2)
        return attn_error(ATTN_UNSUPPORTED, "the device %s has no L2 cache to measure or to model",
                          row->module->device->kind);
    attn_inputs needed = *inputs;
    if (pass == ATTN_FORWARD) needed.d_o = NULL;
    const manner how = {1, 0, (int)pass};
    return run_stage(row, problem, &needed, how, run);
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
