// score_steps.h -- what a problem may ask for between Q K^T and softmax, and between softmax and V:
// each a small step of its own on a tile, called where it is on, and nowhere else.
//
//   true_scores      x = scale q . k, and with a softcap  softcap tanh(x / softcap)
//   add_bias         + bias_ij
//   subtract_alibi   - slope |i' - j|
//   hide             a chosen number where the mask's byte is 0
//   drop             P_ij times 0 or 1 / (1 - p), as cpu/dropout.h says
//
// That is their order. Softmax's sum l is taken before `drop`: L is that of all keys seen. Which lie in
// the lanes, queries (chapter 2) or keys (the backward pass of chapter 5), a tile says by two strides.
#ifndef ATTN_SCORE_STEPS_H
#define ATTN_SCORE_STEPS_H

#include "chapters/02-online-softmax/register_block.h"
#include "chapters/02-online-softmax/tanh.h"
#include "cpu/dropout.h"

// Those of one query head. Without variable lengths there is one sequence: bias and mask need not know.
typedef struct score_steps {
    int change_scores;  // 1: one of the next three is on
    float softcap;      // 0: off
    float slope;        // ALiBi's, 0: off
    const float *bias;  // of query 0 and key 0; NULL: off
    const uint8_t *mask; // likewise
    size_t row;         // of bias and mask, from one query to the next
    int shift;          // the query's own position i' is i + shift
    int drops;          // 1: there is dropout
    attn_dropout dropout;
    uint32_t head; // its number in dropout's counter
} score_steps;

// Queries [i0, i1), keys [j0, j1): a number for each pair, [.][BLOCK_QUERIES].
typedef struct pairs {
    float *x;
    int i0, i1, j0, j1;
    int i_stride, j_stride; // one is 1, the other BLOCK_QUERIES
} pairs;

VECTOR_INLINE float *pair_at(const pairs *t, int i, int j) {
    return t->x + (size_t)(i - t->i0) * (size_t)t->i_stride +
           (size_t)(j - t->j0) * (size_t)t->j_stride;
}

// Rows of vectors. Lanes beyond the last query or key hold anything, and keep it to themselves.
VECTOR_INLINE size_t rows_of_vectors(const pairs *t) {
    return (size_t)(t->j_stride == 1 ? t->i1 - t->i0 : t->j1 - t->j0);
}

// *cap_slope, where it is asked for, is what the softcap multiplies gradients with: 1 - tanh^2.
VECTOR_NOINLINE void true_scores(const score_steps *steps, const pairs *t, float scale,
                                 float *cap_slope) {
    const size_t end = rows_of_vectors(t) * BLOCK_QUERIES;
    for (size_t n = 0; n < end; n += LANES) {
        vfloat x = vector_load(t->x + n) * scale;
        if (steps->softcap != 0) {
            const vfloat capped = vector_tanh(x / steps->softcap);
            if (cap_slope) vector_store(cap_slope + n, 1.0f - capped * capped);
            x = capped * steps->softcap;
        }
        vector_store(t->x + n, x);
    }
}

VECTOR_NOINLINE void add_bias(const score_steps *steps, const pairs *t) {
    for (int i = t->i0; i < t->i1; i++) {
        const float *bias = steps->bias + (size_t)i * steps->row;
        for (int j = t->j0; j < t->j1; j++) *pair_at(t, i, j) += bias[j];
    }
}

VECTOR_NOINLINE void subtract_alibi(const score_steps *steps, const pairs *t) {
    const size_t rows = rows_of_vectors(t);
    // i' - j of the first pair; then it grows along i, and shrinks along j.
    const int first = t->i0 + steps->shift - t->j0, along_lanes = t->j_stride == 1 ? -1 : 1;
    for (size_t r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            float *x = t->x + r * BLOCK_QUERIES + v * LANES;
            const vint lanes = (vector_iota() + v * LANES) * along_lanes;
            const vfloat distance = vector_to_float(lanes + (first - along_lanes * (int)r));
            vector_store(x, vector_load(x) - vector_abs(distance) * steps->slope);
        }
}

static inline void change_scores(const score_steps *steps, const pairs *t, float scale,
                                 float *cap_slope) {
    true_scores(steps, t, scale, cap_slope);
    if (steps->bias) add_bias(steps, t);
    if (steps->slope != 0) subtract_alibi(steps, t);
}

// Chosen, not added or multiplied: what is hidden may be NaN.
VECTOR_NOINLINE void hide(const score_steps *steps, const pairs *t, float instead) {
    for (int i = t->i0; i < t->i1; i++) {
        const uint8_t *mask = steps->mask + (size_t)i * steps->row;
        for (int j = t->j0; j < t->j1; j++) {
            float *x = pair_at(t, i, j);
            *x = mask[j] ? *x : instead;
        }
    }
}

// Whether the mask leaves query i one of the keys [first, end).
static inline int leaves_a_key(const score_steps *steps, int i, int first, int end) {
    if (!steps->mask) return first < end;
    for (int j = first; j < end; j++)
        if (steps->mask[(size_t)i * steps->row + (size_t)j]) return 1;
    return 0;
}

// One call of Philox serves four keys side by side, those with the same j / 4.
VECTOR_NOINLINE void drop(const score_steps *steps, const pairs *t) {
    const attn_dropout dropout = steps->dropout;
    for (int four = t->j0 / 4 * 4; four < t->j1; four += 4)
        for (int i = t->i0; i < t->i1; i++) {
            const attn_philox_block words =
                attn_dropout_words(dropout, steps->head, (uint32_t)i, (uint32_t)four);
            for (int n = four < t->j0 ? t->j0 - four : 0; n < 4 && four + n < t->j1; n++)
                *pair_at(t, i, four + n) *=
                    words.word[n] < dropout.threshold ? 0 : dropout.factor;
        }
}

#endif
