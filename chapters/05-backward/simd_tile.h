// simd_tile.h -- what queries [i0, i1) and keys [j0, j1) give each other, in vectors.
//
// Chapter 2's form (c), turned around: keys lie in the lanes, since keys are the outer loop, and what
// stays close, K^T, V^T, dK^T and dV^T of the tile, is transposed once. All five products are one
// routine, register_block.h's, and in none of them does a sum run across lanes:
//
//   S     = Q K^T        a row of it for each query, as deep as d
//   dP    = dO V^T       likewise
//   dV^T += dO^T P       a row for each column of dO, as deep as there are queries
//   dK^T += Q^T dS       likewise
//   dQ   += dS K         a row for each query, as deep as there are keys: columns are in the lanes
//
// Each of them is a function of its own, or their loops would compete for registers.
//
// What else a problem may ask for stands between them, as chapter 2's steps (score_steps.h): S is changed
// before P = e^(S - L); dropout goes into dP, and into P for dV; masks choose 0 in P and dS; dbias takes
// dS as it then is, and a softcap's slope, 1 - tanh^2, multiplies it for dQ and dK.
#ifndef ATTN_SIMD_TILE_H
#define ATTN_SIMD_TILE_H

#include "chapters/02-online-softmax/exp2.h"
#include "chapters/02-online-softmax/part.h"
#include "chapters/02-online-softmax/register_block.h"
#include "chapters/05-backward/stages.h"

// What lies in the lanes of a register block: the keys of a tile, or as many columns of a row of dQ.
enum { TILE_KEYS = BLOCK_QUERIES, COLUMNS = BLOCK_QUERIES };

typedef struct tile {
    part head; // a query head, and the key head that it reads
    int d;
    float scale;
    int j0, j1;             // keys [j0, j1)
    int i0, i1;             // queries [i0, i1) of the head; the next five point at row i0
    const float *q, *d_o;   // rows are head.q_row and head.o_row apart
    const float *lse, *sum; // [.], L and D
    float *dq;              // [.][COLUMNS], and further columns dq_panel floats on
    float *dbias;           // of the head's query 0 and key 0; NULL: not asked for

    size_t dq_panel;
    // [d][TILE_KEYS]: key j0 + n is column n.
    float *k, *v;   // K^T and V^T
    float *dk, *dv; // dK^T and dV^T, summed so far
    // [columns / COLUMNS][TILE_KEYS][COLUMNS]
    float *k_rows; // K, row by row
    // [br][TILE_KEYS]: query i0 + n is row n.
    float *p, *ds;    // P; dP, then scale dS
    float *cap_slope; // 1 - tanh^2; NULL: no softcap
} tile;

static size_t queries(const tile *t) {
    return (size_t)(t->i1 - t->i0);
}

// One of the last three, for the steps.
static pairs pairs_of(const tile *t, float *x) {
    return (pairs){x, t->i0, t->i1, t->j0, t->j1, KEYS_IN_LANES};
}

// out += a b, otherwise as product() in register_block.h. The multiplication by 1 costs nothing: it is
// exact, and compilers leave it out.
VECTOR_INLINE void add_product(size_t rows, size_t depth, const float *a, size_t a_row, size_t a_k,
                               const float *b, float *out) {
    vfloat one[VECTORS];
    VECTOR_UNROLL
    for (int v = 0; v < VECTORS; v++) one[v] = vector_of(1);
    product(rows, depth, a, a_row, a_k, b, one, out);
}

// P = e^(scale S - L). The difference is taken before it is multiplied by log2(e): it is small where P
// is not, and then so is what rounding does to it. No score is above L. If it seems so, both are
// rounded; and far off, if they are large: such a P is 1.
VECTOR_NOINLINE void weights(const tile *t) {
    const size_t d = (size_t)t->d, rows = queries(t);
    const float scale = t->head.steps.change_scores ? 1 : t->scale, *lse = t->lse;
    float *p = t->p;
    const pairs s = pairs_of(t, p);
    product(rows, d, t->q, t->head.q_row, 1, t->k, NULL, p); // S = Q K^T, unscaled
    if (t->head.steps.change_scores) change_scores(&t->head.steps, s, t->scale, t->cap_slope);
    for (size_t i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++, p += LANES) {
            const vfloat x = vector_load(p) * scale - lse[i];
            vector_store(p, vector_exp2(vector_select(x > 0, vector_of(0), x * 1.44269504f)));
        }
}

// dS = P o (dP - D), times scale, as dQ and dK need it: but not yet where dbias is asked for.
VECTOR_NOINLINE void score_gradients(const tile *t) {
    const size_t d = (size_t)t->d, rows = queries(t);
    const float scale = t->dbias ? 1 : t->scale, *sum = t->sum, *p = t->p;
    float *ds = t->ds;
    const pairs dp = pairs_of(t, ds);
    product(rows, d, t->d_o, t->head.o_row, 1, t->v, NULL, ds); // dP = dO V^T
    if (t->head.steps.drops) drop(&t->head.steps, dp);
    for (size_t i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++, p += LANES, ds += LANES)
            vector_store(ds, vector_load(p) * (vector_load(ds) - sum[i]) * scale);
}

// 0 where a query does not see the key: chosen, not multiplied, for what was computed there may be
// anything.
VECTOR_NOINLINE void mask_band(const tile *t, float *x) {
    const attn_band band = t->head.band;
    for (int i = t->i0; i < t->i1; i++)
        for (int v = 0; v < VECTORS; v++, x += LANES) {
            const vint distance = vector_iota() + (t->j0 + v * LANES - i);
            const vint seen = (distance >= band.first) & (distance < band.end);
            vector_store(x, vector_select(seen, vector_load(x), vector_of(0)));
        }
}

static void mask(const tile *t, int edge) {
    float *const all[] = {t->p, t->ds, t->cap_slope};
    for (int n = 0; n < (t->cap_slope ? 3 : 2); n++) {
        const pairs x = pairs_of(t, all[n]);
        if (edge) mask_band(t, all[n]);
        if (t->head.steps.mask) hide(&t->head.steps, x, 0);
    }
}

// dbias += dS, which then gets its scale.
VECTOR_NOINLINE void bias_gradients(const tile *t) {
    const int keys = t->j1 - t->j0;
    for (int i = t->i0; i < t->i1; i++) {
        float *ds = t->ds + (size_t)(i - t->i0) * TILE_KEYS;
        float *dbias = t->dbias + (size_t)i * t->head.steps.row + t->j0;
        for (int j = 0; j < keys; j++) dbias[j] += ds[j], ds[j] *= t->scale;
    }
}

// From the gradient of the capped score to that of scale q . k.
VECTOR_NOINLINE void through_softcap(const tile *t) {
    for (size_t n = 0; n < queries(t) * TILE_KEYS; n += LANES)
        vector_store(t->ds + n, vector_load(t->ds + n) * vector_load(t->cap_slope + n));
}

VECTOR_NOINLINE void value_gradients(const tile *t) { // dV^T += dO^T P
    const size_t d = (size_t)t->d;
    add_product(d, queries(t), t->d_o, 1, t->head.o_row, t->p, t->dv);
}

VECTOR_NOINLINE void key_gradients(const tile *t) { // dK^T += Q^T scale dS
    const size_t d = (size_t)t->d;
    add_product(d, queries(t), t->q, 1, t->head.q_row, t->ds, t->dk);
}

// dQ += scale dS K. The depth ends with the last key: lanes beyond it hold anything.
VECTOR_NOINLINE void query_gradients(const tile *t) {
    const size_t keys = (size_t)(t->j1 - t->j0);
    const float *k = t->k_rows;
    float *dq = t->dq;
    for (int c = 0; c < t->d; c += COLUMNS, k += TILE_KEYS * COLUMNS, dq += t->dq_panel)
        add_product(queries(t), keys, t->ds, TILE_KEYS, 1, k, dq);
}

// x * 0 is 0 for every number, but NaN for infinity and NaN.
VECTOR_NOINLINE int all_finite(const float *x, size_t rows, size_t columns, size_t row) {
    vfloat zeros = vector_of(0);
    float zero = 0;
    for (size_t r = 0; r < rows; r++, x += row) {
        size_t n = 0;
        for (; n + LANES <= columns; n += LANES) zeros += vector_load(x + n) * 0.0f;
        for (; n < columns; n++) zero += x[n] * 0.0f;
    }
    for (int lane = 0; lane < LANES; lane++) zero += zeros[lane];
    return zero == 0;
}

// The last three products give a masked pair the factor 0. That leaves no trace, unless the other
// factor is infinite or NaN: a row of Q or dO whose query does not see all keys of the tile, or a row
// of K that not all its queries see.
static int products_would_leak(const tile *t) {
    const size_t d = (size_t)t->d, keys = (size_t)(t->j1 - t->j0);
    return !all_finite(t->q, queries(t), d, t->head.q_row) ||
           !all_finite(t->d_o, queries(t), d, t->head.o_row) ||
           !all_finite(t->head.k + (size_t)t->j0 * t->head.k_row, keys, d, t->head.k_row);
}

// The same three, where they would leak: slow, and hardly ever needed. Each sum has the order it has
// there, so that the results are the same bits, whatever the masked rows hold.
static void gradients_pair_by_pair(const tile *t) {
    const size_t d = (size_t)t->d;
    for (int i = t->i0; i < t->i1; i++) {
        const size_t row = (size_t)(i - t->i0);
        const float *q = t->q + row * t->head.q_row, *d_o = t->d_o + row * t->head.o_row;
        for (int j = t->j0; j < t->j1; j++) {
            if (j < attn_first_key(t->head.band, i) || j >= attn_end_key(t->head.band, i)) continue;
            if (!shows(&t->head.steps, i, j)) continue;
            const size_t n = (size_t)(j - t->j0);
            const float p = t->p[row * TILE_KEYS + n], ds = t->ds[row * TILE_KEYS + n];
            for (size_t c = 0; c < d; c++) {
                const size_t panel = c / COLUMNS, column = c % COLUMNS;
                const float k = t->k_rows[(panel * TILE_KEYS + n) * COLUMNS + column];
                t->dv[c * TILE_KEYS + n] += p * d_o[c];
                t->dk[c * TILE_KEYS + n] += ds * q[c];
                t->dq[panel * t->dq_panel + row * COLUMNS + column] += ds * k;
            }
        }
    }
}

static void tile_gradients(const tile *t) {
    const score_steps *steps = &t->head.steps;
    const attn_band band = t->head.band;
    const int edge = t->j0 < attn_first_key(band, t->i1 - 1) || t->j1 > attn_end_key(band, t->i0);
    const int masked = edge || steps->mask;
    const pairs p = pairs_of(t, t->p);
    weights(t);
    score_gradients(t);
    if (steps->drops) drop(steps, p);
    if (masked) mask(t, edge);
    if (t->dbias) bias_gradients(t);
    if (t->cap_slope) through_softcap(t);
    if (masked && products_would_leak(t)) {
        gradients_pair_by_pair(t);
    } else {
        value_gradients(t);
        key_gradients(t);
        query_gradients(t);
    }
}

#endif
