// input.h -- random q, k, v and do of several kinds, the same numbers on every machine.
//
// Element e of a tensor depends on the kind, the seed, the tensor and e (and, where the kind says
// so, on its row and the problem's lengths): not on the platform, the compiler or the number of
// threads.
#ifndef ATTN_INPUT_H
#define ATTN_INPUT_H

#include "cpu/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

// N means attn_normal (random.h). In all kinds do is N(0,1), and what is not mentioned is, too.
// Sizes of scores are meant at the default scale.
//
//   normal     all N(0,1)
//   outliers   q, k, v: N(0,1) + N(0,100) Bernoulli(0.001), so one entry in a thousand has a
//              standard deviation of about 10 (FlashAttention-3, section 4.3)
//   wide       rows of q times 2^8, 2^7 ... 2^-8, 2^8 ... : the largest |score| of a row is between
//              some hundredths and about a thousand
//   equal      q and k all 1: all scores are equal, and O is the mean of V. v is not equal, or
//              nobody could tell a wrong weight
//   rising     a ramp over the keys: the first ones' scores lie far below the last ones', and the
//              running maximum keeps rising
typedef enum attn_input_kind {
    ATTN_INPUT_NORMAL = 0,
    ATTN_INPUT_OUTLIERS,
    ATTN_INPUT_WIDE,
    ATTN_INPUT_EQUAL,
    ATTN_INPUT_RISING,
    ATTN_INPUT_KINDS, // how many there are
} attn_input_kind;

const char *attn_input_name(attn_input_kind kind); // "normal"; "?" when it is none of these

// The kind of that name; ATTN_BAD_INPUT with the names there are when it is none.
attn_status attn_input_parse(const char *text, attn_input_kind *kind);

// Fills the contiguous tensors (shapes: problem.h) of a problem that attn_problem_check accepts,
// each unless its pointer is NULL.
void attn_input_fill(attn_input_kind kind, uint64_t seed, const attn_problem *problem, float *q,
                     float *k, float *v, float *d_o);

// Likewise a bias of N(0,1), and a mask through which each key is seen with probability 3/4.
void attn_input_fill_scores(uint64_t seed, const attn_problem *problem, float *bias,
                            unsigned char *mask);

#ifdef __cplusplus
}
#endif
#endif
