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

// In all kinds do is N(0,1), where N means attn_normal (random.h). Sizes of scores are meant at the
// default scale.
typedef enum attn_input_kind {
    ATTN_INPUT_NORMAL = 0, // "normal": all N(0,1)
    ATTN_INPUT_OUTLIERS,   // "outliers": N(0,1) + N(0,100) Bernoulli(0.001), FlashAttention-3,
                         // section 4.3: one entry in a thousand has a standard deviation of about
                         // 10
    ATTN_INPUT_WIDE,   // "wide": N(0,1), rows of q times 2^8, 2^7 ... 2^-8, 2^8 ... : the largest
                       // |score| of a row is between some hundredths and about a thousand
    ATTN_INPUT_EQUAL,  // "equal": q and k all 1, so that all scores are equal and O is the mean of
                       // V; v is N(0,1), or nobody could tell a wrong weight
    ATTN_INPUT_RISING, // "rising": N(0,1) with a ramp over the keys, so that the first keys' scores
                       // lie far below the last ones' and the running maximum keeps rising
    ATTN_INPUT_KINDS,  // how many there are
} attn_input_kind;

const char *attn_input_name(attn_input_kind kind); // "normal"; "?" when it is none of these

// The kind of that name; ATTN_BAD_INPUT with the names there are when it is none.
attn_status attn_input_parse(const char *text, attn_input_kind *kind);

// Fills the contiguous tensors (shapes: problem.h) of a problem that attn_problem_check accepts,
// each unless its pointer is NULL.
void attn_input_fill(attn_input_kind kind, uint64_t seed, const attn_problem *problem, float *q,
                     float *k, float *v, float *d_o);

#ifdef __cplusplus
}
#endif
#endif
