// naive_backward.cu -- chapter 1's backward pass on the GPU: P is kept, dP and dS are stored too.
//
//   from O = P V             weighted_rows, transposed   dV = P^T dO
//                            score_product               dP = dO V^T
//   from P = softmax(S)      softmax_gradient            dS = P o (dP - D),  D_i = sum_j P_ij dP_ij
//   from S = scale * Q K^T   weighted_rows               dQ = scale dS K
//                            weighted_rows, transposed   dK = scale dS^T Q
//
// Device bytes, a query head, tq = ceil(q_len / 64), tk = ceil(kv_len / 64), n = ceil(d / 128), and
// with g query heads sharing a key head:
//   read     4 * (2*q_len*d*tk + q_len*d*tk + 2*kv_len*d*tq + (4 + 3*n) * q_len*kv_len)
//   written  4 * (2*q_len*kv_len + q_len*d + 2*kv_len*d/g)
#include "chapters/01-naive/naive.cuh"

// dS from P and dP, all [rows][kv_len]. Grid: a block a row. P and dP are read twice: for D, for dS.
__global__ void softmax_gradient(const float *p, const float *dp, float *ds, naive_shape shape) {
    const int kv_len = shape.band.kv_len;
    const size_t row = blockIdx.x;
    const int i = (int)(row % shape.band.q_len);
    const int first = attn_first_key(shape.band, i), end = attn_end_key(shape.band, i);
    p += row * kv_len;
    dp += row * kv_len;
    ds += row * kv_len;

    float row_sum = 0; // D
    for (int j = threadIdx.x; j < kv_len; j += ROW_THREADS) {
        const float term = hbm_load(&p[j]) * hbm_load(&dp[j]);
        if (j >= first && j < end) row_sum += term; // dP of a masked key may hold anything
    }
    row_sum = block_combine<false>(row_sum);
    for (int j = threadIdx.x; j < kv_len; j += ROW_THREADS) {
        const float gradient = hbm_load(&p[j]) * (hbm_load(&dp[j]) - row_sum);
        hbm_store(&ds[j], j >= first && j < end ? gradient : 0);
    }
}

template <int COLUMNS>
static attn_status launch_backward(const attn_problem *problem, const attn_tensors *t,
                                   const float *p, float *dp, float *ds) {
    const float *q = (const float *)t->q, *k = (const float *)t->k, *v = (const float *)t->v;
    const float *d_o = (const float *)t->d_o;
    float *dq = (float *)t->dq, *dk = (float *)t->dk, *dv = (float *)t->dv;
    const naive_shape shape = naive_shape_of(problem);
    const size_t rows = attn_rows(problem);
    const uint64_t heads = (uint64_t)(problem->batch * problem->heads);
    const uint64_t kv_heads = (uint64_t)(problem->batch * problem->kv_heads);
    const uint64_t query_tiles = naive_tiles(problem->q_len),
                   key_tiles = naive_tiles(problem->kv_len);
    const uint64_t columns = naive_column_tiles(problem);
    const uint64_t q_blocks = heads * query_tiles * columns,
                   kv_blocks = kv_heads * key_tiles * columns;

    if (kv_blocks > 0) // without queries the sums are empty, and zeros are written
        ATTN_TRY(GPU_LAUNCH((weighted_rows<COLUMNS, true>), kv_blocks, THREADS, 0, p, d_o, dv,
                            shape, 1.0f));
    if (heads * query_tiles * key_tiles > 0) {
        ATTN_TRY(GPU_LAUNCH((score_product<false>), heads * query_tiles * key_tiles, THREADS, 0,
                            d_o, v, dp, shape, 1.0f));
        ATTN_TRY(GPU_LAUNCH(softmax_gradient, rows, ROW_THREADS, 0, p, dp, ds, shape));
    }
    if (q_blocks > 0)
        ATTN_TRY(GPU_LAUNCH((weighted_rows<COLUMNS, false>), q_blocks, THREADS, 0, ds, k, dq, shape,
                            problem->scale));
    if (kv_blocks > 0)
        ATTN_TRY(GPU_LAUNCH((weighted_rows<COLUMNS, true>), kv_blocks, THREADS, 0, ds, q, dk, shape,
                            problem->scale));
    return attn_ok();
}

attn_status naive_gpu_backward(const attn_problem *problem, const attn_tensors *t,
                               void *const *buffer) {
    const float *p = (const float *)buffer[1];
    float *dp = (float *)buffer[2], *ds = (float *)buffer[3];
    return naive_columns(problem) == 64 ? launch_backward<64>(problem, t, p, dp, ds)
                                        : launch_backward<128>(problem, t, p, dp, ds);
}
