// runner.c -- see runner.h.
#include "cpu/runner.h"
#include "cpu/median.h"
#include "cpu/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, O, LSE, D_O, DQ, DK, DV, TENSORS };
static const char *const tensor_name[TENSORS] = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"};
static const int result_tensor[ATTN_RESULTS] = {O, LSE, DQ, DK, DV}; // by attn_result

// Everything of one call that lives on the device.
typedef struct device_side {
    const attn_device *device;
    size_t bytes[TENSORS];
    void *tensor[TENSORS];
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

static void set_sizes(size_t bytes[TENSORS], const attn_problem *problem) {
    const size_t q = sizeof(float) * attn_q_elements(problem);
    const size_t kv = sizeof(float) * attn_kv_elements(problem);
    const size_t sizes[TENSORS] = {q, kv, kv, q, sizeof(float) * attn_rows(problem), q, q, kv, kv};
    memcpy(bytes, sizes, sizeof sizes);
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

static attn_status fill_device(device_side *side, const attn_stage *stage,
                               const attn_problem *problem, const attn_inputs *inputs) {
    const int passes = inputs->d_o ? 2 : 1;
    const float *source[TENSORS] = {inputs->q, inputs->k, inputs->v};
    source[D_O] = inputs->d_o;
    for (int i = 0; i < (passes == 2 ? TENSORS : D_O); i++) {
        ATTN_TRY(side->device->allocate(tensor_name[i], side->bytes[i], &side->tensor[i]));
        if (source[i]) ATTN_TRY(side->device->upload(side->tensor[i], source[i], side->bytes[i]));
    }
    for (int pass = 0; pass < passes; pass++)
        ATTN_TRY(allocate_buffers(side, stage, problem, (attn_pass)pass));
    void **t = side->tensor;
    attn_tensors tensors = {t[Q], t[K], t[V], t[O], t[LSE], t[D_O], t[DQ], t[DK], t[DV]};
    side->tensors = tensors;
    return attn_ok();
}

static void release_device(device_side *side) {
    for (int i = 0; i < TENSORS; i++)
        if (side->tensor[i]) side->device->release(side->tensor[i]);
    for (int i = 0; i < side->buffers; i++)
        if (side->buffer[i]) side->device->release(side->buffer[i]);
    for (int r = 0; r < ATTN_RESULTS; r++) attn_variation_free(&side->watch[r]);
}

static attn_status fetch(device_side *side, int tensor, float **host) {
    *host = malloc(side->bytes[tensor] + 1); // + 1: an empty tensor is not NULL
    if (!*host)
        return attn_error(ATTN_NO_MEMORY, "%s needs %.1f MB of memory", tensor_name[tensor],
                          (double)side->bytes[tensor] / 1e6);
    return side->device->download(*host, side->tensor[tensor], side->bytes[tensor]);
}

static attn_status watch_outputs(device_side *side, attn_pass pass) {
    const int end = pass == ATTN_FORWARD ? ATTN_RESULT_DQ : ATTN_RESULTS;
    for (int r = pass == ATTN_FORWARD ? ATTN_RESULT_O : ATTN_RESULT_DQ; r < end; r++) {
        const int tensor = result_tensor[r];
        float *values = NULL;
        attn_status status = fetch(side, tensor, &values);
        if (status.code == ATTN_OK)
            status = attn_variation_add(&side->watch[r], values, side->bytes[tensor] / 4);
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
    ATTN_TRY(fetch(side, O, &run->out.o));
    ATTN_TRY(fetch(side, LSE, &run->out.lse));
    if (passes == 1) return attn_ok();
    ATTN_TRY(fetch(side, DQ, &run->out.dq));
    ATTN_TRY(fetch(side, DK, &run->out.dk));
    return fetch(side, DV, &run->out.dv);
}

static attn_status run_stage(const attn_loaded_stage *row, const attn_problem *problem,
                             const attn_inputs *inputs, manner how, attn_run *run) {
    memset(run, 0, sizeof *run);
    ATTN_TRY(attn_stage_supports(row->stage, problem, inputs->d_o ? ATTN_BACKWARD : ATTN_FORWARD));
    device_side side;
    memset(&side, 0, sizeof side);
    side.device = row->module->device;
    set_sizes(side.bytes, problem);
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
    memset(run, 0, sizeof *run);
}
