// proof.h -- one stage on one case: does it give what is expected, within what it is allowed?
#ifndef ATTN_PROOF_H
#define ATTN_PROOF_H

#include "cpu/case.h"
#include "cpu/compare.h"
#include "cpu/runner.h"

// A problem with its input, what is expected of it, and how far a stage may be off.
typedef struct attn_trial {
    attn_problem problem;
    attn_inputs inputs;
    attn_reference reference;            // in double precision: magnitudes, and the expected values
    const float *expected[ATTN_RESULTS]; // of a case folder; NULL: the reference's are expected
    double naive_error[ATTN_RESULTS];    // E_naive, of the yardstick stage on the host
} attn_trial;

// Computes the reference and E_naive of contiguous inputs. With a loaded case (or NULL), its o, lse, dq,
// dk, dv are what is expected. `modules` must have the host's stages. Free with attn_trial_free.
attn_status attn_trial_begin(const attn_modules *modules, const attn_problem *problem,
                             const attn_inputs *inputs, const attn_case *expected,
                             attn_trial *trial);
void attn_trial_free(attn_trial *trial);

typedef struct attn_proof {
    attn_comparison comparison[ATTN_RESULTS];
    int compared[ATTN_RESULTS];      // 1: this result was computed and compared
    int bytes_compared, bytes_equal; // counted against the closed form, where the device counts
    int pass;
    attn_run run; // outputs, traffic, time
} attn_proof;

// Runs the stage (backward too, when the trial has d_o and the stage a backward pass) and compares.
// A status other than ATTN_OK means that there is no verdict. Free with attn_proof_free.
attn_status attn_prove(const attn_loaded_stage *row, const attn_trial *trial, int repeats,
                       attn_proof *proof);
void attn_proof_free(attn_proof *proof);

// The comparison of o and lse (first pass) or the gradients that uses most of its allowance.
const attn_comparison *attn_proof_worst(const attn_proof *proof, attn_pass pass);

#endif
