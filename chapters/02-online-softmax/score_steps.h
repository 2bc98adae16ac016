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
// the lanes, queries (chapter 2) or keys (the backward pass of chapter 5), a tile says.
#ifndef ATTN_SCORE_STEPS_H
#define ATTN_SCORE_STEPS_H

#include "chapters/02-online-softmax/register_block.h"
#include "chapters/02-online-softmax/tanh.h"
#include "chapters/02-online-softmax/transpose.h"
#include "cpu/dropout.h"

// Those of one query head. Without variable lengths there is one sequence: bias and mask need not know.
typedef struct score_steps {
    int change_scores;   // 1: one of the next three is on
    float softcap;       // 0: off
    float slope;         // ALiBi's, 0: off
    const float *bias;   // of query 0 and key 0; NULL: off
    const uint8_t *mask; // likewise
    size_t row;          // of bias and mask, from one query to the next
    int shift;           // the query's own position i' is i + shift
    int drops;           // 1: there is dropout
    attn_dropout dropout;
    uint32_t head; // its number in dropout's counter
} score_steps;

// Queries [i0, i1), keys [j0, j1): a number for each pair, [.][BLOCK_QUERIES]. Passed by value: compilers
// then know that no store through x changes the rest, and make a loop for each of the two layouts.
typedef struct pairs {
    float *x;
    int i0, i1, j0, j1;
    enum { QUERIES_IN_LANES, KEYS_IN_LANES } lanes;
} pairs;

VECTOR_INLINE float *pair_at(pairs t, int i, int j) {
    const size_t row = (size_t)(t.lanes == KEYS_IN_LANES ? i - t.i0 : j - t.j0);
    return t.x + row * BLOCK_QUERIES + (t.lanes == KEYS_IN_LANES ? j - t.j0 : i - t.i0);
}

// Lanes beyond the last query or key hold anything, and keep it to themselves.
VECTOR_INLINE size_t rows_of_lanes(pairs t) {
    return (size_t)(t.lanes == KEYS_IN_LANES ? t.i1 - t.i0 : t.j1 - t.j0);
}

// *cap_slope, where it is asked for, is what the softcap multiplies gradients with: 1 - tanh^2.
VECTOR_NOINLINE void true_scores(const score_steps *steps, pairs t, float scale, float *cap_slope) {
    const size_t end = rows_of_lanes(t) * BLOCK_QUERIES;
    for (size_t n = 0; n < end; n += LANES) {
        vfloat x = vector_load(t.x + n) * scale;
        if (steps->softcap != 0) {
            const vfloat capped = vector_tanh(x / steps->softcap);
            if (cap_slope) vector_store(cap_slope + n, 1.0f - capped * capped);
            x = capped * steps->softcap;
        }
        vector_store(t.x + n, x);
    }
}

// Bias and mask lie in memory query by query: as they are needed with keys in the lanes, across with
// queries there. So they come into the lanes in blocks of up to BLOCK_QUERIES queries and keys.
enum { BLOCK_PAIRS = BLOCK_QUERIES * BLOCK_QUERIES };

// The block that begins at query i0 and key j0; its x, too.
VECTOR_INLINE pairs block_of(pairs t, int i0, int j0) {
    const int i1 = t.i1 - i0 > BLOCK_QUERIES ? i0 + BLOCK_QUERIES : t.i1;
    const int j1 = t.j1 - j0 > BLOCK_QUERIES ? j0 + BLOCK_QUERIES : t.j1;
    return (pairs){pair_at(t, i0, j0), i0, i1, j0, j1, t.lanes};
}

// out: the numbers at rows[i][j], `row` of them from a query to the next, where the block has its x.
VECTOR_INLINE void into_lanes(pairs block, const float *rows, size_t row, float *out) {
    const size_t queries = (size_t)(block.i1 - block.i0), keys = (size_t)(block.j1 - block.j0);
    if (block.lanes == QUERIES_IN_LANES)
        transpose(queries, keys, rows, row, out, BLOCK_QUERIES);
    else
        for (size_t i = 0; i < queries; i++)
            memcpy(out + i * BLOCK_QUERIES, rows + i * row, sizeof *rows * keys);
}

VECTOR_NOINLINE void add_bias(const score_steps *steps, pairs t) {
    float bias[BLOCK_PAIRS] = {0};
    for (int i0 = t.i0; i0 < t.i1; i0 += BLOCK_QUERIES)
        for (int j0 = t.j0; j0 < t.j1; j0 += BLOCK_QUERIES) {
            const pairs b = block_of(t, i0, j0);
            into_lanes(b, steps->bias + (size_t)i0 * steps->row + j0, steps->row, bias);
            for (size_t n = 0; n < rows_of_lanes(b) * BLOCK_QUERIES; n += LANES)
                vector_store(b.x + n, vector_load(b.x + n) + vector_load(bias + n));
        }
}

VECTOR_NOINLINE void subtract_alibi(const score_steps *steps, pairs t) {
    const size_t rows = rows_of_lanes(t);
    // i' - j of the first pair; then it grows along i, and shrinks along j.
    const int first = t.i0 + steps->shift - t.j0;
    const int along_lanes = t.lanes == KEYS_IN_LANES ? -1 : 1;
    for (size_t r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++) {
            float *x = t.x + r * BLOCK_QUERIES + v * LANES;
            const vint lanes = (vector_iota() + v * LANES) * along_lanes;
            const vfloat distance = vector_to_float(lanes + (first - along_lanes * (int)r));
            vector_store(x, vector_load(x) - vector_abs(distance) * steps->slope);
        }
}

static inline void change_scores(const score_steps *steps, pairs t, float scale, float *cap_slope) {
    true_scores(steps, t, scale, cap_slope);
    if (steps->bias) add_bias(steps, t);
    if (steps->slope != 0) subtract_alibi(steps, t);
}

// Chosen, not added or multiplied: what is hidden may be NaN.
VECTOR_NOINLINE void hide(const score_steps *steps, pairs t, float instead) {
    float bytes[BLOCK_PAIRS], seen[BLOCK_PAIRS] = {0};
    for (int i0 = t.i0; i0 < t.i1; i0 += BLOCK_QUERIES)
        for (int j0 = t.j0; j0 < t.j1; j0 += BLOCK_QUERIES) {
            const pairs b = block_of(t, i0, j0);
            for (int i = i0; i < b.i1; i++)
                for (int j = j0; j < b.j1; j++)
                    bytes[(i - i0) * BLOCK_QUERIES + j - j0] =
                        steps->mask[(size_t)i * steps->row + (size_t)j];
            into_lanes(b, bytes, BLOCK_QUERIES, seen);
            for (size_t n = 0; n < rows_of_lanes(b) * BLOCK_QUERIES; n += LANES)
                vector_store(b.x + n, vector_select(vector_load(seen + n) != 0,
                                                    vector_load(b.x + n), vector_of(instead)));
        }
}

// Whether the mask shows query i key j; and whether it shows it one of the keys [first, end).
static inline int shows(const score_steps *steps, int i, int j) {
    return !steps->mask || steps->mask[(size_t)i * steps->row + (size_t)j] != 0;
}
static inline int shows_a_key(const score_steps *steps, int i, int first, int end) {
    for (int j = first; j < end; j++)
        if (shows(steps, i, j)) return 1;
    return 0;
}

// One call of Philox serves four keys side by side, those with the same j / 4. Many queries are asked for
// at once, in a loop that compilers make vectors of; those beyond the last query in vain.
VECTOR_NOINLINE void drop(const score_steps *steps, pairs t) {
    const attn_dropout dropout = steps->dropout;
    uint32_t word[4][BLOCK_QUERIES];
    for (int i0 = t.i0; i0 < t.i1; i0 += BLOCK_QUERIES)
        for (int four = t.j0 / 4 * 4; four < t.j1; four += 4) {
            for (int n = 0; n < BLOCK_QUERIES; n++) {
                const attn_philox_block block =
                    attn_dropout_words(dropout, steps->head, (uint32_t)(i0 + n), (uint32_t)four);
                for (int k = 0; k < 4; k++) word[k][n] = block.word[k];
            }
            const int i1 = t.i1 - i0 < BLOCK_QUERIES ? t.i1 : i0 + BLOCK_QUERIES;
            for (int j = four < t.j0 ? t.j0 : four; j < four + 4 && j < t.j1; j++)
                for (int i = i0; i < i1; i++)
                    *pair_at(t, i, j) *=
                        word[j - four][i - i0] < dropout.threshold ? 0 : dropout.factor;
        }
}

#endif
