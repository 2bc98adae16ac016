// compare.h -- is a result "the same"? The comparison, and how far a right result may be off.
//
// With u = 2^-24, the unit roundoff of fp32, and E_naive the largest error of the naive version on
// the same input, a stage may differ from the reference by
//
//   O    2 E_naive + 4u (1 + c) max|V|
//   L    2 E_naive + 4u (1 + c)
//   dV   3 E_naive + 4u (1 + c) max|dO| P'
//   dQ   3 E_naive + 4u |scale| max|K| ((1 + c) max_i sum_j P_ij (|dP_ij| + |D_i|) + e)
//   dK   3 E_naive + 4u |scale| max|Q| ((1 + c) max_j sum_i P_ij (|dP_ij| + |D_i|) + e P')
//
//   c = r max |scale| sum_c |q_ic| |k_jc|    e = r max sum_c |dO_ic| |v_jc|    P' = max_j sum_i P_ij
//   r = max(1, sqrt(d) / 4), since a dot product rounds d times
//
// for dbias like dQ without its factor, and more where a softcap, ALiBi, a bias or dropout round more;
// and, small beside these unless the summands are nearly all equal, by what such sums drift
// (attn_magnitudes.drift) and by what is lost below 2^-126. The naive version must itself stay within
// attn_naive_bound, which no right naive version can exceed. Where all of this comes from:
// notes/precision.md.
#ifndef ATTN_COMPARE_H
#define ATTN_COMPARE_H

#include "cpu/reference.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attn_comparison {
    attn_result result;
    int pass; // no element beyond the allowance

    double worst;         // largest |got - expected|; infinity for a NaN or infinity out of place
    double allowed;       // what it is held against
    double got, expected; // at the worst element
    int rank;             // how many of index[] count: 4, for lse 3
    int64_t index[4];     // [batch][head][row][column] of the worst element
    uint64_t flat;        // its place in memory
    uint64_t over;        // elements beyond the allowance
    uint64_t elements;
} attn_comparison;

// Compares one contiguous result (shape: problem.h) with what the reference says.
//
// A finite value must be met within `allowed`; NaN or infinity there is wrong. Where NaN or
// infinity is expected, any value that is not finite will do, for which of them appears depends on
// the order of operations; but an lse of -infinity, a query that sees nothing, is exact. +0 and -0
// are equal. An allowance that is negative, NaN or infinite allows nothing.
attn_comparison attn_compare(attn_result result, const attn_problem *problem, const float *got,
                             const double *expected, double allowed);

// The same where the expected values have been rounded to fp32, as those of a .npy file have. Each
// may be off by u |expected| itself, so that much of a difference is not counted: not in `worst`
// either.
attn_comparison attn_compare_rounded(attn_result result, const attn_problem *problem,
                                     const float *got, const float *expected, double allowed);

// "o: worst 1.2e-07 at [0][3][17][5] (got 0.25, expected 0.2500001), allowed 2.4e-06, 0 of 131072
// beyond", on one line.
void attn_comparison_describe(const attn_comparison *comparison, char *text, size_t size);

// What a stage may be off by. naive_error: attn_comparison.worst of the naive version in the same
// precision, on the same input. It counts up to attn_naive_bound: a broken naive licenses nothing.
double attn_allowed(attn_result result, const attn_magnitudes *size, double naive_error);

// What the naive version may be off by: a bound that holds for every order of summation.
double attn_naive_bound(attn_result result, const attn_magnitudes *size);

#ifdef __cplusplus
}
#endif
#endif
