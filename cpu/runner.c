// runner.c -- see runner.h.
#include "cpu/runner.h"
#include "cpu/median.h"
#include "cpu/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q, K, V, O, LSE, D_O, DQ, DK, DV, TENSORS };
enum { MAX_REPEATS = 64 };
static const char *const tensor_name[TENSORS] = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"};

// Everything of one call that lives on the device.
typedef struct device_side {
    const attn_device *device;
    size_t bytes[TENSORS];
    void *tensor[TENSORS];
    void *buffer[2 * ATTN_MAX_BUFFERS]; // the forward pass' buffers, then the backward pass'
    int buffers;
    attn_tensors tensors;
} device_side;

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

static attn_status fetch(device_side *side, int tensor, float **host) {
    *host = malloc(side->bytes[tensor] + 1); // + 1: an empty tensor is not NULL
    if (!*host)
        return attn_error(ATTN_NO_MEMORY, "%s needs %.1f MB of memory", tensor_name[tensor],
                          (double)side->bytes[tensor] / 1e6);
    return side->device->download(*host, side->tensor[tensor], side->bytes[tensor]);
}

enum { NO_PASS = -1 };

static attn_status run_all(device_side *side, const attn_loaded_stage *row,
                           const attn_problem *problem, const attn_inputs *inputs, int repeats,
                           int cold, attn_run *run) {
    const attn_stage *stage = row->stage;
    const int passes = inputs->d_o ? 2 : 1;
    // Refused before anything is allocated, so that the sentence can say how much it would be in all.
    ATTN_TRY(attn_run_fits(row, problem, passes == 2));
    ATTN_TRY(fill_device(side, stage, problem, inputs));
    for (int pass = 0; pass < passes; pass++) {
        run->extra_bytes[pass] = attn_extra_bytes(stage, problem, (attn_pass)pass, NULL);
        ATTN_TRY(pass == cold ? run_pass_cold(side, stage, problem, (attn_pass)pass, run)
                              : run_pass(side, stage, problem, (attn_pass)pass, repeats, run));
    }
    ATTN_TRY(fetch(side, O, &run->out.o));
    ATTN_TRY(fetch(side, LSE, &run->out.lse));
    if (passes == 1) return attn_ok();
    ATTN_TRY(fetch(side, DQ, &run->out.dq));
    ATTN_TRY(fetch(side, DK, &run->out.dk));
    return fetch(side, DV, &run->out.dv);
}

static attn_status run_stage(const attn_loaded_stage *row, const attn_problem *problem,
                             const attn_inputs *inputs, int repeats, int cold, attn_run *run) {
    memset(run, 0, sizeof *run);
    ATTN_TRY(attn_stage_supports(row->stage, problem, inputs->d_o ? ATTN_BACKWARD : ATTN_FORWARD));
    device_side side;
    memset(&side, 0, sizeof side);
    side.device = row->module->device;
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
    memset(run, 0, sizeof *run);
}
