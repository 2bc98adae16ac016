// rounding.h -- attention in fp32, twice over and broken in many ways: what the allowances of
// cpu/compare.h are calibrated on.
//
// The two right versions share no order of operations: one stores P and sums in sequence; the other
// goes through tiles of keys once, in powers of two, and recomputes P from L. Whatever two right
// versions may differ by, these do. They are independent of the chapters, like the reference.
#ifndef ATTN_TESTS_ROUNDING_H
#define ATTN_TESTS_ROUNDING_H

#include "cpu/compare.h"

typedef enum bug {
    BUG_NONE = 0,
    BUG_SCALE_LEFT_OUT,
    BUG_MASK_OFF_BY_ONE, // the last key of a row is dropped
    BUG_TAIL_SCORE_ZERO, // a padded key takes part, with score 0
    BUG_O_NOT_RESCALED,  // when the running maximum grows
    BUG_L_NOT_RESCALED,
    BUG_LSE_IN_POWERS_OF_TWO,
    BUG_WRONG_KV_HEAD, // h % kv_heads
    BUG_D_LEFT_OUT,    // dS = P dP
    BUG_DK_WITHOUT_SCALE,
    BUG_DV_OF_FIRST_HEAD,   // the other heads of the group do not add to dV
    BUG_LAST_QUERY_DROPPED, // from dK and dV
} bug;
enum { BUGS = 12 };
const char *bug_name(bug which);

typedef struct fp32_result {
    float *tensor[ATTN_RESULTS]; // o, lse, dq, dk, dv
} fp32_result;

typedef struct inputs {
    float *q, *k, *v, *d_o;
} inputs;

typedef enum input_kind {
    KIND_NORMAL = 0,
    KIND_OUTLIERS, // N(0,1) + N(0,100) with probability 0.001: FlashAttention-3, section 4.3
    KIND_WIDE,     // logits up to about 1000
    KIND_EQUAL,    // every element the same
    KIND_TINY,     // around 1e-20
    KIND_RISING,   // later keys have larger scores: every tile moves the maximum
} input_kind;
enum { KINDS = 6 };
const char *kind_name(input_kind kind);

inputs inputs_make(const attn_problem *problem, input_kind kind, uint64_t seed);
void inputs_free(inputs *in);

fp32_result fp32_naive(const attn_problem *problem, const inputs *in);
fp32_result fp32_online(const attn_problem *problem, const inputs *in, bug broken);
void fp32_result_free(fp32_result *result);

// The i-th of a list of small problems with every feature among them.
enum { PROBLEMS = 20 };
attn_problem problem_of(int i);

// How the two versions do on one input: errors in parts of what they may be.
typedef struct ratios {
    double naive[ATTN_RESULTS];  // naive's error / attn_naive_bound
    double bound[ATTN_RESULTS];  // online's error / attn_naive_bound
    double online[ATTN_RESULTS]; // online's error / attn_allowed
} ratios;
ratios measure(const attn_problem *problem, input_kind kind, uint64_t seed, bug broken);

#endif
