// random.h -- random numbers that are a function of their position, the same bits everywhere.
//
// Made of Philox' blocks (philox.h), which have no state. What is made of their bits is integer
// arithmetic with one exact conversion and one rounding at the end: the same on every platform,
// compiler and optimisation level.
#ifndef ATTN_RANDOM_H
#define ATTN_RANDOM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The block at `counter` of stream `stream`: 128 random bits. The seed is Philox' key, `counter`
// the lower and `stream` the upper half of its counter, low words first.
void attn_philox(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t block[4]);

// Uniform in [0, 1): one of the 2^24 multiples of 2^-24, from the block's first word.
float attn_uniform(uint64_t seed, uint64_t stream, uint64_t counter);

// Nearly normal, mean 0, variance 1: the sum of the block's eight 16-bit pieces, centred and
// scaled. That is an Irwin-Hall distribution, and it differs from the normal one: excess kurtosis
// -0.15; |x| > 3 in 0.17% of draws (normal 0.27%), |x| > 4 in 0.0004% (0.0063%), and never above
// sqrt(24) = 4.90. It is symmetric, and its values are multiples of ATTN_NORMAL_STEP, rounded once.
float attn_normal(uint64_t seed, uint64_t stream, uint64_t counter);

// The same as an integer, in steps: attn_normal is attn_normal_steps times ATTN_NORMAL_STEP. Sums
// of normals are formed of these, since a compiler may or may not fuse a float product with a sum.
int32_t attn_normal_steps(uint64_t seed, uint64_t stream, uint64_t counter); // within +-262140
#define ATTN_NORMAL_STEP 1.86881237e-05f // 1/sqrt(8 (2^32 - 1) / 12), a sum of 8 has that variance

#ifdef __cplusplus
}
#endif
#endif
