// score_steps.cuh -- what may happen to a score between the product and the softmax, and to a weight after
// it. For query i, standing at key position i', and key j, in this order:
//
//   x = scale q_i . k_j
//   t = softcap tanh(x / softcap)     softcap: no score is larger than it
//   S = t + bias_ij                   additive bias
//   S = S - slope |i' - j|            ALiBi
//   S = -infinity                     where i does not see j, by the band or by the mask of bytes
//   P = e^(S - L)                     the softmax, as ever; L is of all keys seen
//   P = 0, or P / (1 - p)             dropout
//
// Each is a loop of its own over a thread's 8 x C scores, behind one comparison that all threads agree on.
#ifndef SCORE_STEPS_CUH
#define SCORE_STEPS_CUH

#include "chapters/06-masks/places.cuh"

// The steps of one head. `bias` and `mask` begin at query 0, key 0, and have `pitch` keys a query.
typedef struct score_steps {
    float softcap, slope; // 0: none
    const float *bias;    // NULL: none
    const unsigned char *mask;
    size_t pitch;
    int shift;       // i' is i + shift
    bool drops;      // weights
    uint32_t number; // of the head, counted through the batch or the sequences: dropout's
    attn_dropout drop;
} score_steps;

__device__ __forceinline__ score_steps score_steps_of(const variant_shape &shape,
                                                      const variant_place &place, unsigned head) {
    score_steps steps;
    steps.softcap = shape.softcap;
    steps.slope = shape.alibi ? exp2f(-8.0f * (float)(head + 1) / (float)shape.heads) : 0;
    const variant_pairs b = shape.bias_stride, m = shape.mask_stride;
    steps.bias = shape.bias ? shape.bias + place.batch * b.batch + head * b.head : NULL;
    steps.mask = shape.mask ? shape.mask + place.batch * m.batch + head * m.head : NULL;
    steps.pitch = (size_t)shape.kv_len;
    steps.shift = place.shift;
    steps.drops = shape.drops;
    steps.number = place.member * (unsigned)shape.heads + head;
    steps.drop = shape.drop;
    return steps;
}

__device__ __forceinline__ bool score_steps_any(const score_steps &steps) {
    return steps.softcap != 0 || steps.slope != 0 || steps.bias;
}

// ---- scores ----
constexpr float LARGEST_SCORE = 2.3e38f; // FLT_MAX / log2(e), and a little less

// x becomes t.
template <int C> __device__ __forceinline__ void softcap_step(float (&s)[8][C], float softcap) {
    const float inverse = 1 / softcap;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) s[i][j] = softcap * tanhf(s[i][j] * inverse);
}
// Where the band hides a pair its bias is not read: it is masked anyway. What is beyond LARGEST_SCORE and no
// infinity stops there, for the softmax multiplies it by log2(e); some write -FLT_MAX where they mean a mask.
//   query, key   of s[0][0]; whole: the band hides no pair of the tile
template <int C>
__device__ __forceinline__ void bias_step(float (&s)[8][C], const score_steps &steps,
                                          attn_band band, int query, int key, bool whole) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float *row = steps.bias + (size_t)(query + i) * steps.pitch + key;
#pragma unroll
        for (int j = 0; j < C; j++)
            if (whole || band_sees(band, query + i, key + j)) {
                const float sum = s[i][j] + hbm_load(&row[j]);
                const bool beyond = fabsf(sum) > LARGEST_SCORE && fabsf(sum) < INFINITY;
                s[i][j] = beyond ? copysignf(LARGEST_SCORE, sum) : sum;
            }
    }
}

template <int C>
__device__ __forceinline__ void alibi_step(float (&s)[8][C], float slope, int distance) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) s[i][j] -= slope * fabsf((float)(distance + i - j));
}

// All that are on. s: true scores, scale * q . k.
template <int C>
__device__ __forceinline__ void score_steps_apply(float (&s)[8][C], const score_steps &steps,
                                                  attn_band band, int query, int key, bool whole) {
    if (steps.softcap != 0) softcap_step(s, steps.softcap);
    if (steps.bias) bias_step(s, steps, band, query, key, whole);
    if (steps.slope != 0) alibi_step(s, steps.slope, query + steps.shift - key);
}

template <int C> __device__ __forceinline__ void scale_step(float (&s)[8][C], float scale) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) s[i][j] *= scale;
}

// s, true scores, becomes P = e^(S - L), as backward_weights has it, but with the difference taken first:
// large scores, a bias of -1e9 and the like, would lose it in the product's rounding.
template <int C>
__device__ __forceinline__ void stepped_weights(float (&s)[8][C], const float *lse) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) {
            const float exponent = (s[i][j] - lse[i]) * TILE_LOG2_E;
            s[i][j] = tile_exp2(exponent > 0 ? 0 : exponent);
        }
}

// ---- masks ----
// A bit for each of the thread's pairs, i * C + j: whether the query sees the key. The byte of a pair that
// the band hides is not read.
template <int C>
__device__ __forceinline__ uint64_t pairs_seen(const score_steps &steps, attn_band band, int query,
                                               int key) {
    uint64_t seen = 0;
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
        const size_t row = (size_t)(query + i) * steps.pitch + key;
#pragma unroll
        for (int j = 0; j < C; j++) {
            bool sees = band_sees(band, query + i, key + j);
            if (sees && steps.mask) sees = hbm_load(&steps.mask[row + j]) != 0;
            if (sees) seen |= (uint64_t)1 << (i * C + j);
        }
    }
    return seen;
}

// Chosen, not added: what stands there may be NaN.
template <int C>
__device__ __forceinline__ void pairs_select(float (&s)[8][C], uint64_t seen, float masked) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++)
            if (!(seen >> (i * C + j) & 1)) s[i][j] = masked;
}

// The weight and the gradient of a masked pair are -0: in a sum that is 0, and yet it can be told from
// those of a pair that is seen, which are never -0. So what must not leak is known where it is multiplied,
// without asking the mask again.
constexpr float MASKED = -0.0f;

__device__ __forceinline__ bool is_masked(float weight) {
    return weight == 0 && signbit(weight);
}

// ---- dropout ----
// A bit for each of the thread's pairs, as above: whether dropout.h keeps the weight. One call of Philox
// serves four keys; key is a multiple of 4, unless C is 1.
template <int C>
__device__ __forceinline__ uint64_t pairs_kept(const score_steps &steps, int query, int key) {
    const attn_dropout drop = steps.drop;
    uint64_t kept = 0;
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int j = 0; j < C; j += 4) {
            const attn_philox_block words =
                attn_dropout_words(drop, steps.number, query + i, key + j);
#pragma unroll
            for (int u = 0; u < 4; u++) {
                const int bit =
                    C == 1 ? u - key % 4 : u; // of the one key: 0, the others are not asked
                if (bit >= 0 && bit < C && words.word[u] >= drop.threshold)
                    kept |= (uint64_t)1 << (i * C + j + bit);
            }
        }
    }
    return kept;
}

// s, weights or their gradients, times 0 or 1 / (1 - p).
template <int C>
__device__ __forceinline__ void dropout_step(float (&s)[8][C], uint64_t kept, float factor) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) s[i][j] *= kept >> (i * C + j) & 1 ? factor : 0;
}

#endif
