// naive.cu -- chapter 1 on the GPU: standard attention as three kernels, S and P in device memory.
//
//   1.  score_product   S = scale * Q K^T, masked   64 x 64 tiles   writes S
//   2.  softmax_rows    P = softmax(S), L           a block a row   reads S three times, writes P
//   3.  weighted_rows   O = P V                     64 x 64 tiles   reads P
//
// FlashAttention's paper calls this standard attention (2205.14135, Algorithm 0).
//
// Device bytes, a head, tq = ceil(q_len / 64), tk = ceil(kv_len / 64), n = ceil(d / 128):
//   read     4 * (q_len*d*tk + 2*kv_len*d*tq + 3*q_len*kv_len + n*q_len*kv_len)
//   written  4 * (2*q_len*kv_len + q_len*d + q_len)
// A mask saves nothing: masked scores are computed, written and read like all others.
#include "chapters/01-naive/naive.cuh"

// P and L from S, both [rows][kv_len], rows = batch * heads * q_len. Grid: a block a row. A score is
// read three times, since a row need not fit on the chip.
__global__ void softmax_rows(const float *s, float *p, float *lse, naive_shape shape) {
    const int kv_len = shape.band.kv_len;
    const size_t row = blockIdx.x;
    const int i = (int)(row % shape.band.q_len);
    const int first = attn_first_key(shape.band, i), end = attn_end_key(shape.band, i);
    s += row * kv_len;
    p += row * kv_len;

    float m = -INFINITY, l = 0;
    for (int j = threadIdx.x; j < kv_len; j += ROW_THREADS) m = fmaxf(m, hbm_load(&s[j]));
    m = block_combine<true>(m);
    // Scores that are all minus infinity have no maximum to subtract: (-inf) - (-inf) is NaN.
    const float shift = m == -INFINITY ? 0 : m;
    for (int j = threadIdx.x; j < kv_len; j += ROW_THREADS) l += expf(hbm_load(&s[j]) - shift);
    l = block_combine<false>(l);
    for (int j = threadIdx.x; j < kv_len; j += ROW_THREADS) {
        const float weight = expf(hbm_load(&s[j]) - shift) / l;
        // In a row that sees no key the quotient is 0/0; the P of a pair that is masked is 0.
        hbm_store(&p[j], j >= first && j < end ? weight : 0);
    }
    if (threadIdx.x == 0) hbm_store(&lse[row], first < end ? shift + logf(l) : -INFINITY);
}

attn_status naive_gpu_forward(const attn_problem *problem, const attn_tensors *t,
                              void *const *buffer) {
    const float *q = (const float *)t->q, *k = (const float *)t->k, *v = (const float *)t->v;
    float *s = (float *)buffer[0], *p = (float *)buffer[1], *o = (float *)t->o;
    const naive_shape shape = naive_shape_of(problem);
    const size_t rows = attn_rows(problem);
    const uint64_t heads = (uint64_t)(problem->batch * problem->heads);
    const uint64_t query_tiles = naive_tiles(problem->q_len),
                   key_tiles = naive_tiles(problem->kv_len);
    if (rows == 0) return attn_ok(); // no query, nothing to write

    if (key_tiles > 0) // without keys S is empty, but O and L still have rows
        ATTN_TRY(GPU_LAUNCH((score_product<true>), heads * query_tiles * key_tiles, THREADS, 0, q,
                            k, s, shape, problem->scale));
    ATTN_TRY(GPU_LAUNCH(softmax_rows, rows, ROW_THREADS, 0, s, p, t->lse, shape));
    const uint64_t blocks = heads * query_tiles * naive_column_tiles(problem);
    if (naive_columns(problem) == 64)
        return GPU_LAUNCH((weighted_rows<64, false>), blocks, THREADS, 0, p, v, o, shape, 1.0f);
    return GPU_LAUNCH((weighted_rows<128, false>), blocks, THREADS, 0, p, v, o, shape, 1.0f);
}
