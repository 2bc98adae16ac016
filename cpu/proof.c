// proof.c -- see proof.h.
#include "cpu/plain.h"
#include "cpu/proof.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float *output_of(const attn_outputs *out, int result) {
    const float *const outputs[ATTN_RESULTS] = {
        [ATTN_RESULT_O] = out->o,   [ATTN_RESULT_LSE] = out->lse, [ATTN_RESULT_DQ] = out->dq,
        [ATTN_RESULT_DK] = out->dk, [ATTN_RESULT_DV] = out->dv,   [ATTN_RESULT_DBIAS] = out->dbias,
    };
    return outputs[result];
}

static attn_comparison compare(const attn_trial *trial, attn_result result, const float *got,
                               double allowed) {
    if (trial->expected[result])
        return attn_compare_rounded(result, &trial->problem, got, trial->expected[result], allowed);
    return attn_compare(result, &trial->problem, got,
                        attn_reference_result(&trial->reference, result), allowed);
}

static int is_expected(const attn_trial *trial, int result) {
    return trial->expected[result] != NULL ||
           attn_reference_result(&trial->reference, (attn_result)result) != NULL;
}

// On tensors that lie as on the host, whatever the strides and sequences.
static attn_status run_plain(const attn_problem *problem, const attn_inputs *in,
                             attn_outputs *out) {
    const int64_t d = problem->head_dim, q_head = problem->q_len * d, kv_head = problem->kv_len * d;
    const size_t q = attn_q_elements(problem), kv = attn_kv_elements(problem);
    attn_problem p = *problem;
    p.q_stride = p.o_stride = (attn_stride){p.heads * q_head, q_head, d};
    p.k_stride = p.v_stride = (attn_stride){p.kv_heads * kv_head, kv_head, d};
    out->o = malloc(4 * q + 1), out->lse = malloc(4 * attn_rows(problem) + 1);
    int complete = out->o && out->lse;
    if (in->d_o) {
        out->dq = malloc(4 * q + 1), out->dk = malloc(4 * kv + 1), out->dv = malloc(4 * kv + 1);
        if (p.bias_gradient) out->dbias = malloc(4 * attn_bias_elements(problem) + 1);
        complete &= out->dq && out->dk && out->dv && (out->dbias || !p.bias_gradient);
    }
    if (!complete) return attn_error(ATTN_NO_MEMORY, "no memory for the results");
    const attn_tensors tensors = {.q = in->q,
                                  .k = in->k,
                                  .v = in->v,
                                  .o = out->o,
                                  .lse = out->lse,
                                  .d_o = in->d_o,
                                  .dq = out->dq,
                                  .dk = out->dk,
                                  .dv = out->dv,
                                  .bias = in->bias,
                                  .mask = in->mask,
                                  .dbias = out->dbias};
    ATTN_TRY(attn_plain_forward(&p, &tensors, NULL));
    return in->d_o ? attn_plain_backward(&p, &tensors, NULL) : attn_ok();
}

static attn_status measure_naive(const attn_modules *modules, attn_trial *trial) {
    const attn_loaded_stage *naive = attn_find_yardstick(modules, "host");
    if (!naive)
        return attn_error(ATTN_DEVICE, "the naive stage, by which all others are measured, is not "
                                       "built for the host: run make chapter1");
    attn_problem problem = trial->problem;
    problem.br = problem.bc = 0; // tile sizes are another stage's business
    attn_run run;
    for (int r = 0; r < ATTN_RESULTS; r++) trial->naive_error[r] = NAN;
    attn_status status = attn_run_stage(naive, &problem, &trial->inputs, 1, &run);
    if (status.code == ATTN_UNSUPPORTED) // chapter 1 has few features; plain.c has all
        status = run_plain(&problem, &trial->inputs, &run.out);
    for (int r = 0; r < ATTN_RESULTS && status.code == ATTN_OK; r++)
        if (output_of(&run.out, r) && is_expected(trial, r))
            trial->naive_error[r] = compare(trial, (attn_result)r, output_of(&run.out, r), 0).worst;
    attn_run_free(&run);
    if (status.code == ATTN_NO_MEMORY) return attn_ok(); // the derived bound takes E_naive's place
    return status;
}

attn_status attn_trial_begin(const attn_modules *modules, const attn_problem *problem,
                             const attn_inputs *inputs, const attn_case *expected,
                             attn_trial *trial) {
    memset(trial, 0, sizeof *trial);
    trial->problem = *problem;
    trial->inputs = *inputs;
    if (expected) {
        const float *const values[ATTN_RESULTS] = {
            [ATTN_RESULT_O] = expected->o,   [ATTN_RESULT_LSE] = expected->lse,
            [ATTN_RESULT_DQ] = expected->dq, [ATTN_RESULT_DK] = expected->dk,
            [ATTN_RESULT_DV] = expected->dv, [ATTN_RESULT_DBIAS] = expected->dbias,
        };
        memcpy(trial->expected, values, sizeof values);
    }
    ATTN_TRY(attn_reference_compute(problem, inputs, &trial->reference));
    attn_status status = measure_naive(modules, trial);
    if (status.code != ATTN_OK) attn_trial_free(trial);
    return status;
}

void attn_trial_free(attn_trial *trial) {
    attn_reference_free(&trial->reference);
}

static double allowance(const attn_loaded_stage *row, const attn_trial *trial, attn_result result) {
    const attn_magnitudes *size = &trial->reference.size;
    // The yardstick cannot be measured by itself: it answers to the bound that is derived in writing.
    if (row->stage->yardstick) return attn_naive_bound(result, size);
    return attn_allowed(result, size, trial->naive_error[result]);
}

static void compare_bytes(const attn_loaded_stage *row, const attn_problem *problem, int passes,
                          attn_proof *proof) {
    if (!proof->run.counted) return;
    proof->bytes_compared = proof->bytes_equal = 1;
    for (int pass = 0; pass < passes; pass++) {
        const attn_traffic model = attn_model_bytes(row->stage, problem, (attn_pass)pass);
        if (!attn_traffic_equal(&model, &proof->run.traffic[pass])) proof->bytes_equal = 0;
    }
}

attn_status attn_prove(const attn_loaded_stage *row, const attn_trial *trial, int repeats,
                       attn_proof *proof) {
    memset(proof, 0, sizeof *proof);
    attn_inputs inputs = trial->inputs;
    if (!row->stage->backward) inputs.d_o = NULL;
    ATTN_TRY(attn_run_stage(row, &trial->problem, &inputs, repeats, &proof->run));
    proof->pass = 1;
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const float *got = output_of(&proof->run.out, r);
        if (!got || !is_expected(trial, r)) continue;
        proof->compared[r] = 1;
        proof->comparison[r] =
            compare(trial, (attn_result)r, got, allowance(row, trial, (attn_result)r));
        if (!proof->comparison[r].pass) proof->pass = 0;
    }
    compare_bytes(row, &trial->problem, inputs.d_o ? 2 : 1, proof);
    if (proof->bytes_compared && !proof->bytes_equal) proof->pass = 0;
    return attn_ok();
}

void attn_proof_free(attn_proof *proof) {
    attn_run_free(&proof->run);
}

const attn_comparison *attn_proof_worst(const attn_proof *proof, attn_pass pass) {
    const int first = pass == ATTN_FORWARD ? ATTN_RESULT_O : ATTN_RESULT_DQ;
    const int last = pass == ATTN_FORWARD ? ATTN_RESULT_LSE : ATTN_RESULTS - 1;
    const attn_comparison *worst = NULL;
    for (int r = first; r <= last; r++) {
        const attn_comparison *c = &proof->comparison[r];
        if (!proof->compared[r]) continue;
        // worst / allowed, without dividing by an allowance of 0
        if (!worst || c->worst * worst->allowed > worst->worst * c->allowed) worst = c;
    }
    return worst;
}
