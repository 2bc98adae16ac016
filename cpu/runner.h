// runner.h -- runs one stage on host arrays: to the device, the passes, and back.
#ifndef ATTN_RUNNER_H
#define ATTN_RUNNER_H

#include "cpu/modules.h"
#include "cpu/reference.h"
#include "cpu/variation.h"

typedef struct attn_outputs {
    float *o, *lse;
    float *dq, *dk, *dv; // NULL after a forward pass alone
    float *dbias;        // likewise, and without bias_gradient
} attn_outputs;

typedef struct attn_run {
    attn_outputs out;        // on the host
    uint64_t extra_bytes[2]; // by pass: buffers asked for besides the tensors
    int counted;             // 1: the device counts bytes
    attn_traffic traffic[2]; // by pass, when counted
    int modelled;            // 1: the device models its L2, and dram holds something
    attn_dram dram[2];       // by pass, each from an empty L2
    double seconds[2];       // by pass, median of `repeats`; 0 where time means nothing
    attn_variation variation[ATTN_RESULTS]; // by attn_run_repeated; else zeros
} attn_run;

enum { ATTN_MAX_REPEATS = 1000 };

// Puts the inputs where the problem's strides say and takes the outputs back from there: on the host
// both are contiguous. What lies between a tensor's elements holds NaN, and a stage that writes there
// has failed (ATTN_DEVICE).
//
// Runs the forward pass and, with d_o, the backward pass; each `repeats` times when timed.
// Outputs are poisoned with NaN before, so that what a stage leaves unwritten shows. On any error *run
// is zero and nothing is left allocated. Free with attn_run_free.
attn_status attn_run_stage(const attn_loaded_stage *row, const attn_problem *problem,
                           const attn_inputs *inputs, int repeats, attn_run *run);
void attn_run_free(attn_run *run);

// The same with each pass run `repeats` times, timed or not, and the outputs of every run compared with
// the first run's, bit by bit. They are copied to the host between two runs, which therefore don't follow
// each other as closely.
attn_status attn_run_repeated(const attn_loaded_stage *row, const attn_problem *problem,
                              const attn_inputs *inputs, int repeats, attn_run *run);

// The same for one pass, run once from an empty L2 cache (attn_device.empty_l2); a backward pass comes
// after a forward pass that is not measured. ATTN_UNSUPPORTED where the device cannot empty its L2.
attn_status attn_run_cold(const attn_loaded_stage *row, const attn_problem *problem,
                          const attn_inputs *inputs, attn_pass pass, attn_run *run);

#endif
