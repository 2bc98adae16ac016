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
#ifndef ATTN_SIMD_TILE_H
#define ATTN_SIMD_TILE_H

#include "chapters/02-online-softmax/exp2.h"
#include "chapters/02-online-softmax/register_block.h"
#include "chapters/05-backward/stages.h"

// What lies in the lanes of a register block: the keys of a tile, or as many columns of a row of dQ.
enum { TILE_KEYS = BLOCK_QUERIES, COLUMNS = BLOCK_QUERIES };

typedef struct tile {
    key_head head;
    attn_band band;
    int d;
    float scale;
    int j0, j1;             // keys [j0, j1)
    int i0, i1;             // queries [i0, i1) of a query head; the next five point at row i0
    const float *q, *d_o;   // [.][d]
    const float *lse, *sum; // [.], L and D
    float *dq;              // [.][COLUMNS], and further columns dq_panel floats on

    size_t dq_panel;
    // [d][TILE_KEYS]: key j0 + n is column n.
    float *k, *v;   // K^T and V^T
    float *dk, *dv; // dK^T and dV^T, summed so far
    // [columns / COLUMNS][TILE_KEYS][COLUMNS]
    float *k_rows; // K, row by row
    // [br][TILE_KEYS]: query i0 + n is row n.
    float *p, *ds; // P; dP, then scale dS
} tile;

static size_t queries(const tile *t) {
    return (size_t)(t->i1 - t->i0);
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
    const float scale = t->scale, *lse = t->lse;
    float *p = t->p;
    product(rows, d, t->q, d, 1, t->k, NULL, p); // S = Q K^T, unscaled
    for (size_t i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++, p += LANES) {
            const vfloat x = vector_load(p) * scale - lse[i];
            vector_store(p, vector_exp2(vector_select(x > 0, vector_of(0), x * 1.44269504f)));
        }
}

// dS = P o (dP - D), times scale, as dQ and dK need it.
VECTOR_NOINLINE void score_gradients(const tile *t) {
    const size_t d = (size_t)t->d, rows = queries(t);
    const float scale = t->scale, *sum = t->sum, *p = t->p;
    float *ds = t->ds;
    product(rows, d, t->d_o, d, 1, t->v, NULL, ds); // dP = dO V^T
    for (size_t i = 0; i < rows; i++)
        for (int v = 0; v < VECTORS; v++, p += LANES, ds += LANES)
            vector_store(ds, vector_load(p) * (vector_load(ds) - sum[i]) * scale);
}

// 0 where a query does not see the key: chosen, not multiplied, for P and dS may be anything there.
VECTOR_NOINLINE void mask(const tile *t) {
    const attn_band band = t->band;
    float *p = t->p, *ds = t->ds;
    for (int i = t->i0; i < t->i1; i++)
        for (int v = 0; v < VECTORS; v++, p += LANES, ds += LANES) {
            const vint distance = vector_iota() + (t->j0 + v * LANES - i);
            const vint seen = (distance >= band.first) & (distance < band.end);
            vector_store(p, vector_select(seen, vector_load(p), vector_of(0)));
            vector_store(ds, vector_select(seen, vector_load(ds), vector_of(0)));
        }
}

VECTOR_NOINLINE void value_gradients(const tile *t) { // dV^T += dO^T P
    const size_t d = (size_t)t->d;
    add_product(d, queries(t), t->d_o, 1, d, t->p, t->dv);
}

VECTOR_NOINLINE void key_gradients(const tile *t) { // dK^T += Q^T scale dS
    const size_t d = (size_t)t->d;
    add_product(d, queries(t), t->q, 1, d, t->ds, t->dk);
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
VECTOR_NOINLINE int all_finite(const float *x, size_t count) {
    vfloat zeros = vector_of(0);
    float zero = 0;
    size_t n = 0;
    for (; n + LANES <= count; n += LANES) zeros += vector_load(x + n) * 0.0f;
    for (; n < count; n++) zero += x[n] * 0.0f;
    for (int lane = 0; lane < LANES; lane++) zero += zeros[lane];
    return zero == 0;
}

// The last three products give a masked pair the factor 0. That leaves no trace, unless the other
// factor is infinite or NaN: a row of Q or dO whose query does not see all keys of the tile, or a row
// of K that not all its queries see.
static int products_would_leak(const tile *t) {
    const size_t d = (size_t)t->d, keys = (size_t)(t->j1 - t->j0);
    return !all_finite(t->q, queries(t) * d) || !all_finite(t->d_o, queries(t) * d) ||
           !all_finite(t->head.k + (size_t)t->j0 * d, keys * d);
}

// The same three, where they would leak: slow, and hardly ever needed. Each sum has the order it has
// there, so that the results are the same bits, whatever the masked rows hold.
static void gradients_pair_by_pair(const tile *t) {
    const size_t d = (size_t)t->d;
    for (int i = t->i0; i < t->i1; i++) {
        const size_t row = (size_t)(i - t->i0);
        const float *q = t->q + row * d, *d_o = t->d_o + row * d;
        for (int j = t->j0; j < t->j1; j++) {
            if (j < attn_first_key(t->band, i) || j >= attn_end_key(t->band, i)) continue;
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
    const int edge =
        t->j0 < attn_first_key(t->band, t->i1 - 1) || t->j1 > attn_end_key(t->band, t->i0);
    weights(t);
    score_gradients(t);
    if (edge) mask(t);
    if (edge && products_would_leak(t)) {
        gradients_pair_by_pair(t);
    } else {
        value_gradients(t);
        key_gradients(t);
        query_gradients(t);
    }
}

#endif
