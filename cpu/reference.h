// reference.h -- what every stage is compared with: attention in double precision, written plainly.
//
// It knows no chapter and does not ask cpu/mask.h: it writes the mask down from problem.h's
// definition itself, so that a mistake shared with the chapters cannot hide. Its own proof is in
// tests/test_reference.c: finite differences, and PyTorch's float64 results.
//
// Rows are recomputed rather than stored, so memory is O(N) a thread. The numbers are the same for
// any number of threads.
#ifndef ATTN_REFERENCE_H
#define ATTN_REFERENCE_H

#include "cpu/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a call computes, one tensor each.
typedef enum attn_result {
    ATTN_RESULT_O = 0,
    ATTN_RESULT_LSE,
    ATTN_RESULT_DQ,
    ATTN_RESULT_DK,
    ATTN_RESULT_DV,
    ATTN_RESULT_DBIAS,
} attn_result;
enum { ATTN_RESULTS = 6 };

// How large the numbers of a problem are: what a rounding error is in proportion to (cpu/compare.h,
// notes/precision.md). Maxima are over what some query really sees, and over finite values only, so
// that one infinity in the input does not excuse every error. What needs d_o is zero without it.
typedef struct attn_magnitudes {
    double scale;     // |scale|
    int64_t head_dim; // d
    int64_t keys;     // most keys that a query sees
    int64_t queries;  // most queries that see a key, in all the heads that share it
    double s;         // max |S_ij|, S scaled
    double s_terms;   // max |scale| sum_c |q_ic| |k_jc|: S_ij before anything cancels; with
                      // a bias or ALiBi, and their sizes
    double s_steps;   // roundings in a score besides those of its dot product and scale
    double softcap;   // 0: none
    double factor;    // 1 / (1 - dropout)
    double lse;       // max |L_i|
    double q, k, v;   // max |q_ic|, |k_jc|, factor |v_jc|
    double d_o;       // max |dO_ic|
    double dp_terms;  // max factor sum_c |dO_ic| |v_jc|: dP_ij before anything cancels
    double column_p;  // max_j factor sum_i P_ij
    double row_ds;    // max_i sum_j P_ij (|dP_ij| + |D_i|)
    double column_ds; // max_j sum_i P_ij (|dP_ij| + |D_i|)
    double drift[ATTN_RESULTS]; // max (terms in the sum) |sum|, of the elements of O, dQ, dK, dV
    double d_drift;             // max_i (keys seen) |D_i|
    double bias_terms;          // heads and batches that share a bias
    double bias_p, bias_ds;     // max of the sum over these of P_ij, of P_ij (|dP_ij| + |D_i|)
} attn_magnitudes;

typedef struct attn_reference {
    double *o, *lse;      // shapes: problem.h
    double *dq, *dk, *dv; // NULL when no d_o was given
    double *dbias;        // likewise, and without bias_gradient
    attn_magnitudes size;
} attn_reference;

// Fills *out with O and L and, when there is d_o, with the gradients of sum(O * d_o). All tensors are
// contiguous (shapes: problem.h), whatever the problem's strides. Scores, weights and sums are
// double; the inputs, scale, softcap and dropout are taken as the floats they are. Which weights are
// dropped is asked of cpu/dropout.h: there is but one definition.
//
// A query that sees no key has O = 0, L = -inf and gives no gradient, whatever d_o holds there. A
// key that a query does not see contributes nothing to it, whatever it holds. NaN and infinity that
// are seen propagate, through a dropped weight too: it is 0, and 0 times NaN is NaN. A query that
// sees only scores of -inf has O = NaN, L = -inf.
//
// Refuses what attn_problem_check refuses and a bias or mask that is missing (ATTN_BAD_INPUT), and
// says ATTN_NO_MEMORY; *out then holds NULLs. Free with attn_reference_free.
attn_status attn_reference_compute(const attn_problem *problem, const attn_inputs *inputs,
                                   attn_reference *out);
void attn_reference_free(attn_reference *reference);

const double *attn_reference_result(const attn_reference *reference, attn_result result);
const char *attn_result_name(attn_result result); // "o", "lse", "dq", "dk", "dv", "dbias"

#ifdef __cplusplus
}
#endif
#endif
