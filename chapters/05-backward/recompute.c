// recompute.c -- the backward pass in plain form: P is not kept, but computed again, pair by pair.
//
// Chapter 1 keeps the N x N matrix P for this. But an element of it is no more than q_i, k_j and one
// number of its row: with the row's maximum m and sum l, and L = m + log l,
//
//   P_ij = e^(S_ij - m) / l = e^(S_ij - L_i)
//
// So the forward pass leaves L, and here a fifth product, Q K^T, takes the place of P: 10 d FLOPs a
// pair instead of 8 d, and N numbers instead of N^2.
//
//   loops         each (batch, key head), spread over the threads; within it each tile of keys;
//                 within that each query head that shares them, and each tile of its queries that
//                 sees one of the keys. Keys are outside, as in the backward passes of FlashAttention
//                 and FlashAttention-2: two gradients of three, dK and dV, are then close by until
//                 they are complete. A row of dQ is fetched for each tile of keys, to add its share.
//   tiles         br, bc: any; 64 x 64 when not asked for
//   extra memory  "d": D, 4 bytes a row of queries
//   bytes         r: the sum over key tiles of the queries that see a key of the tile, over all heads
//                 q, do: r * d * 4 read, each;  lse, d: r * 4 read, each;  k, v: read once;
//                 dk, dv: written once;  dq: cleared, then r * d * 4 read and written;
//                 and what D takes (row_sums.c)
//   FLOPs         10 * pairs * d: only pairs that see each other are computed
#include "chapters/01-naive/naive.h"
#include "chapters/05-backward/stages.h"
#include "cpu/trace/hooks.h"

#include <math.h>
#include <string.h>

// What queries [i0, i1) of the g-th query head and keys [j0, j1) give each other.
static void tile_gradients(const attn_problem *problem, const key_head *head, int g, int i0, int i1,
                           int j0, int j1) {
    const attn_band band = attn_band_of(problem);
    const float scale = problem->scale;
    const int64_t d = problem->head_dim;
    TRACE_TILE(i0, j0, j1 - j0);
    for (int i = i0; i < i1; i++) {
        const int64_t row = g * problem->q_len + i;
        const float *q = head->q + row * d, *d_o = head->d_o + row * d;
        const key_range keys = keys_of_tile(band, i, i + 1);
        const float L = head->lse[row];
        const float D = head->sum[row];
        float *dq = head->dq + row * d;
        const int first = keys.first > j0 ? keys.first : j0, end = keys.end < j1 ? keys.end : j1;
        for (int j = first; j < end; j++) {
            const float *k = head->k + j * d, *v = head->v + j * d;
            float *dk = head->dk + j * d, *dv = head->dv + j * d;

            // Forward again:                               S = scale Q K^T    P = softmax(S)
            // No s is above L. If it seems so, both are rounded; and far off, if they are large.
            const float s = scale * naive_dot(q, k, d);
            const float p = s > L ? 1 : expf(s - L);

            // O = P V           o_i += p v_j               dV = P^T dO        dP = dO V^T
            naive_add_multiple(dv, p, d_o, d);
            const float dp = naive_dot(d_o, v, d);

            // P = softmax(S)    p = e^(s - L)              dS = P o (dP - D)
            const float ds = p * (dp - D);
            TRACE_PAIR(i - i0, j - j0, s, p, dp, ds);

            // S = scale Q K^T   s = scale q_i . k_j        dQ = scale dS K    dK = scale dS^T Q
            naive_add_multiple(dq, scale * ds, k, d);
            naive_add_multiple(dk, scale * ds, q, d);
        }
    }
    TRACE_GRADIENTS(head->dq, head->dk, head->dv);
}

static int tile_queries(const attn_problem *p) {
    return clamp_tile(p->br > 0 ? p->br : 64, p->q_len);
}
int recompute_tile_keys(const attn_problem *p) {
    return clamp_tile(p->bc > 0 ? p->bc : 64, p->kv_len);
}

static void head_gradients(const attn_problem *p, const key_head *head) {
    const attn_band band = attn_band_of(p);
    const int group = (int)(p->heads / p->kv_heads);
    const int br = tile_queries(p), bc = recompute_tile_keys(p);
    const size_t row = sizeof(float) * (size_t)p->head_dim;
    memset(head->dq, 0, (size_t)group * (size_t)p->q_len * row);
    for (int j0 = 0, j1; j0 < band.kv_len; j0 = j1) {
        j1 = tile_end(j0, bc, band.kv_len);
        TRACE_KEYS_STAY(j0, bc);
        memset(head->dk + j0 * p->head_dim, 0, (size_t)(j1 - j0) * row);
        memset(head->dv + j0 * p->head_dim, 0, (size_t)(j1 - j0) * row);
        const query_range queries = queries_of_tile(band, j0, j1);
        for (int g = 0; g < group; g++)
            for (int i0 = queries.first, i1; i0 < queries.end; i0 = i1) {
                i1 = tile_end(i0, br, queries.end);
                tile_gradients(p, head, g, i0, i1, j0, j1);
            }
    }
}

// Threads share nothing that is written: dK and dV of a key head, and dQ of its query heads, are
// one thread's.
attn_status recompute_backward(const attn_problem *p, const attn_tensors *tensors,
                               void *const *buffer) {
    float *d = buffer[1]; // after the forward pass' "tile"
    row_sums(p, tensors, d);
    TRACE_SUMS(d, tensors->lse);
#pragma omp parallel for schedule(dynamic)
    for (int64_t n = 0; n < p->batch * p->kv_heads; n++) {
        const key_head head = key_head_of(p, tensors, d, n);
        head_gradients(p, &head);
    }
    return attn_ok();
}
