// naive_backward.c -- chapter 1's backward pass on the CPU: P is kept, dP and dS are stored too.
//
//   from O = P V             dV = P^T dO          dP = dO V^T
//   from P = softmax(S)      dS = P o (dP - D)    D_i = sum_j P_ij dP_ij, one number a row
//   from S = scale * Q K^T   dQ = scale dS K      dK = scale dS^T Q
//
// Extra memory, a head: P from the forward pass, dP and dS: 3 * q_len * kv_len floats (and S, which
// the forward pass leaves behind). FLOPs of the four products, n visible pairs: 8*n*d.
#include "chapters/01-naive/naive.h"

// dP = dO V^T, then dS = P o (dP - D). Only pairs that see each other have either.
static void score_gradients(const attn_problem *problem, const float *d_o, const float *v,
                            const float *p, float *dp, float *ds) {
    const attn_band band = attn_band_of(problem);
    const int64_t rows = (int64_t)attn_rows(problem), d = problem->head_dim;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const naive_row at = naive_row_at(problem, band, row);
        const float *p_row = p + row * problem->kv_len;
        float *dp_row = dp + row * problem->kv_len, *ds_row = ds + row * problem->kv_len;
        float row_sum = 0; // D
        for (int j = at.first; j < at.end; j++) {
            dp_row[j] = naive_dot(d_o + row * d, v + (at.kv_row + j) * d, d);
            row_sum += p_row[j] * dp_row[j];
        }
        for (int j = at.first; j < at.end; j++) ds_row[j] = p_row[j] * (dp_row[j] - row_sum);
    }
}

// dQ = scale dS K: a sum over keys, like O = P V.
static void query_gradients(const attn_problem *problem, const float *ds, const float *k,
                            float *dq) {
    const attn_band band = attn_band_of(problem);
    const int64_t rows = (int64_t)attn_rows(problem), d = problem->head_dim;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const naive_row at = naive_row_at(problem, band, row);
        const float *ds_row = ds + row * problem->kv_len;
        float *dq_row = dq + row * d;
        for (int64_t c = 0; c < d; c++) dq_row[c] = 0;
        for (int j = at.first; j < at.end; j++)
            naive_add_multiple(dq_row, problem->scale * ds_row[j], k + (at.kv_row + j) * d, d);
    }
}

// dV = P^T dO and dK = scale dS^T Q: sums over the queries that see a key, in all its group's heads.
static void key_gradients(const attn_problem *problem, const float *p, const float *ds,
                          const float *q, const float *d_o, float *dk, float *dv) {
    const attn_band band = attn_band_of(problem);
    const int64_t d = problem->head_dim, group = problem->heads / problem->kv_heads;
    const int64_t kv_rows = problem->batch * problem->kv_heads * problem->kv_len;
#pragma omp parallel for schedule(static)
    for (int64_t kv_row = 0; kv_row < kv_rows; kv_row++) {
        const int64_t kv_head = kv_row / problem->kv_len;
        const int j = (int)(kv_row % problem->kv_len);
        float *dk_row = dk + kv_row * d, *dv_row = dv + kv_row * d;
        for (int64_t c = 0; c < d; c++) dk_row[c] = dv_row[c] = 0;
        const int64_t first_row = kv_head * group * problem->q_len;
        for (int64_t row = first_row; row < first_row + group * problem->q_len; row++) {
            const naive_row at = naive_row_at(problem, band, row);
            if (j < at.first || j >= at.end) continue;
            const int64_t pair = row * problem->kv_len + j;
            naive_add_multiple(dv_row, p[pair], d_o + row * d, d);
            naive_add_multiple(dk_row, problem->scale * ds[pair], q + row * d, d);
        }
    }
}

attn_status naive_backward(const attn_problem *problem, const attn_tensors *t,
                           void *const *buffer) {
    const float *p = buffer[1];
    float *dp = buffer[2], *ds = buffer[3];
    score_gradients(problem, t->d_o, t->v, p, dp, ds);
    query_gradients(problem, ds, t->k, t->dq);
    key_gradients(problem, p, ds, t->q, t->d_o, t->dk, t->dv);
    return attn_ok();
}
