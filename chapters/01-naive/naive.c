// naive.c -- chapter 1 on the CPU: standard attention in three passes, S and P in memory.
//
//   1.  S = scale * Q K^T     every score is written
//   2.  P = softmax(S)        S is read three times: for the maximum, for the sum, to write P
//   3.  O = P V               P is read
//
// This is the yardstick of all other stages, so it does every problem and takes no shortcuts: one
// loop for one formula. Backward keeps what the forward pass wrote: see naive_backward.c.
//
// Extra memory, a head: S and P, 2 * q_len * kv_len floats.
// Model bytes, a head, for n visible pairs (query, key): the loops ask for each query row once, for
// a row of K and of V once a pair, and for S and P in full:
//   read     4 * (q_len*d + 2*n*d + 3*n + n)     written   4 * (2*q_len*kv_len + q_len*d + q_len)
// FLOPs of the two products: 4*n*d.
#include "chapters/01-naive/naive.h"

#include <math.h>

// Pass 1. A score that is masked is minus infinity.
static void scores(const attn_problem *problem, const float *q, const float *k, float *s) {
    const attn_band band = attn_band_of(problem);
    const int64_t rows = (int64_t)attn_rows(problem), d = problem->head_dim;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const naive_row at = naive_row_at(problem, band, row);
        float *s_row = s + row * problem->kv_len;
        for (int j = 0; j < band.kv_len; j++) s_row[j] = -INFINITY;
        for (int j = at.first; j < at.end; j++)
            s_row[j] = problem->scale * naive_dot(q + row * d, k + (at.kv_row + j) * d, d);
    }
}

// Pass 2, and the logsumexp L. Subtracting the row's maximum m leaves P as it is, since both sides
// of the fraction shrink by exp(-m), but no exponent is above 0 any more, so nothing overflows.
static void softmax(const attn_problem *problem, const float *s, float *p, float *lse) {
    const attn_band band = attn_band_of(problem);
    const int64_t rows = (int64_t)attn_rows(problem);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const naive_row at = naive_row_at(problem, band, row);
        const float *s_row = s + row * problem->kv_len;
        float *p_row = p + row * problem->kv_len;
        float m = -INFINITY, l = 0;
        for (int j = at.first; j < at.end; j++) m = fmaxf(m, s_row[j]);
        // Scores that are all minus infinity have no maximum to subtract: (-inf) - (-inf) is NaN.
        const float shift = m == -INFINITY ? 0 : m;
        for (int j = at.first; j < at.end; j++) l += expf(s_row[j] - shift);
        for (int j = 0; j < band.kv_len; j++) p_row[j] = 0;
        for (int j = at.first; j < at.end; j++) p_row[j] = expf(s_row[j] - shift) / l;
        lse[row] = at.first < at.end ? shift + logf(l) : -INFINITY;
    }
}

// Pass 3. The loop runs over the keys that the query sees: a masked key's P is 0, but 0 * NaN is
// NaN, so what must contribute nothing is left out, not multiplied.
static void weighted_sum(const attn_problem *problem, const float *p, const float *v, float *o) {
    const attn_band band = attn_band_of(problem);
    const int64_t rows = (int64_t)attn_rows(problem), d = problem->head_dim;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const naive_row at = naive_row_at(problem, band, row);
        const float *p_row = p + row * problem->kv_len;
        float *o_row = o + row * d;
        for (int64_t c = 0; c < d; c++) o_row[c] = 0;
        for (int j = at.first; j < at.end; j++)
            naive_add_multiple(o_row, p_row[j], v + (at.kv_row + j) * d, d);
    }
}

attn_status naive_forward(const attn_problem *problem, const attn_tensors *t, void *const *buffer) {
    float *s = buffer[0], *p = buffer[1]; // [B][H][q_len][kv_len] each
    scores(problem, t->q, t->k, s);
    softmax(problem, s, p, t->lse);
    weighted_sum(problem, p, t->v, t->o);
    return attn_ok();
}
