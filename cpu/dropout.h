// dropout.h -- which weights of P are dropped, and what the others are multiplied with: the one
// definition for every stage, on the CPU and in kernels.
//
// Philox' counter is the place of the weight and nothing else, so that forward and backward, tiles of
// any size and in any order, threads and devices all drop the same ones:
//
//   key       dropout_seed
//   counter   [ j / 4 ][ i ][ batch * heads + head ][ dropout_offset ]    32 bits each, low first
//   word      j % 4 of that block: one call serves four keys side by side
//
// i and j are the query and the key, with variable lengths counted within their sequence, whose
// number then takes the batch's place. A weight is dropped when its word is below p 2^32, an integer:
// no rounding can make two devices disagree.
#ifndef ATTN_DROPOUT_H
#define ATTN_DROPOUT_H

#include "cpu/philox.h"
#include "cpu/problem.h"

typedef struct attn_dropout { // small: goes to a kernel by value
    uint64_t seed;
    uint32_t offset, threshold;
    float factor; // 1 / (1 - p); 1 when nothing is dropped
} attn_dropout;

// On the host. p 2^32 is exact in double for every float, and below 2^32 - 255.
ATTN_INLINE attn_dropout attn_dropout_of(const attn_problem *problem) {
    attn_dropout drop;
    drop.seed = problem->dropout_seed, drop.offset = (uint32_t)problem->dropout_offset;
    drop.threshold = (uint32_t)((double)problem->dropout * 4294967296.0);
    drop.factor = (float)(1 / (1 - (double)problem->dropout));
    return drop;
}

// The four words of the keys 4 (j / 4) to 4 (j / 4) + 3; `head` counts through [batch][heads].
ATTN_INLINE attn_philox_block attn_dropout_words(attn_dropout drop, uint32_t head, uint32_t i,
                                                 uint32_t j) {
    const attn_philox_block counter = {{j / 4, i, head, drop.offset}};
    return attn_philox_of(drop.seed, counter);
}

// What P_ij is multiplied with: 0 or drop.factor.
ATTN_INLINE float attn_dropout_factor(attn_dropout drop, uint32_t head, uint32_t i, uint32_t j) {
    return attn_dropout_words(drop, head, i, j).word[j % 4] < drop.threshold ? 0 : drop.factor;
}

#endif
