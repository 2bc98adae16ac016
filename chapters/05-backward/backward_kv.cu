// backward_kv.cu -- the backward pass with KV outer: FlashAttention-2 (2307.08691), Algorithm 2; the order
// of FlashAttention's first paper (2205.14135), Algorithm 4, as well.
//
//   for each tile of Bc keys, a block:            K_j, V_j to shared memory; dK_j, dV_j in registers
//       for each tile of Br queries:              Q_i, dO_i, L_i, D_i to shared memory
//           S  = Q_i K_j^T                        forward: S = scale Q K^T
//           P  = e^(scale S - L_i)                forward: P = softmax(S), recomputed instead of kept
//           dV_j += P^T dO_i                      from O = P V
//           dP = dO_i V_j^T                       from O = P V
//           dS = P o (dP - D_i)                   from P = softmax(S)
//           dK_j += dS^T Q_i                      from S = scale Q K^T; times scale at the end
//           dQ_i += scale dS K_j                  from S = scale Q K^T: atomically, blocks share Q_i
//       dK_j and dV_j are written                 once
//
// With ADDS_DQ false the last product is left out, and backward_q.cu makes dQ.
//
// Query heads that read one head of K are one tall Q here: so dK and dV are summed over the group by the
// block that owns them, and no two blocks write the same.
//
// Grid: batch * kv_heads * ceil(kv_len / Bc) blocks, 1-D. Block: 256 threads (small tiles: 128).
// Shared memory: 2 Bc D + 2 Br D + Br Bc + 2 Br floats and gaps; tiles: backward.cuh.
// Device bytes, a head of K with `rows` rows of Q, Tc = ceil(kv_len / Bc):
//   read     4 * (2*kv_len*d + Tc * rows * (2*d + 2))    and with ADDS_DQ   4 * Tc * rows * d
//   written  4 * 2*kv_len*d                              and with ADDS_DQ   4 * Tc * rows * d
#include "chapters/05-backward/backward.cuh"

// dQ_i += scale * the thread's part. No two threads of a block have the same element, but two blocks may.
template <class shape>
__device__ __forceinline__ void add_dq(float *dq, const float (&part)[8][shape::ROW_COLUMNS],
                                       int first_row, int first_column,
                                       const backward_sizes &sizes) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (first_row + i >= sizes.rows) break;
#pragma unroll
        for (int c = 0; c < shape::ROW_COLUMNS; c += 4)
            backward_add4(dq + (size_t)(first_row + i) * sizes.d, first_column + c / 4 * 32,
                          sizes.d, sizes.scale, &part[i][c], sizes.vectors);
    }
}

// q, d_o, dq [heads][rows][d]; lse, row_sum [heads][rows]; k, v, dk, dv [heads][kv_len][d]
template <class shape, bool ADDS_DQ>
__global__ void __launch_bounds__(shape::THREADS, 1)
    backward_kv(const float *q, const float *k, const float *v, const float *d_o, const float *lse,
                const float *row_sum, float *dq, float *dk, float *dv, backward_sizes sizes) {
    enum { D = shape::D, BR = shape::BR, BC = shape::BC, THREADS = shape::THREADS };
    GPU_DYNAMIC_SHARED(float, shared);
    float *const k_tile = shared + shape::K, *const v_tile = shared + shape::V;
    float *const q_tile = shared + shape::Q, *const do_tile = shared + shape::DO;
    float *const p_tile = shared + shape::P; // P_ij, and then dS_ij
    float *const lse_tile = shared + shape::L, *const sum_tile = shared + shape::SUMS;

    const unsigned tiles = (sizes.kv_len + BC - 1) / BC;
    const size_t head = blockIdx.x / tiles;
    const int first_key = (int)(blockIdx.x % tiles) * BC;
    const size_t q_head = head * sizes.rows * sizes.d, k_head = head * sizes.kv_len * sizes.d;
    lse += head * sizes.rows, row_sum += head * sizes.rows;
    const tile_matrix q_matrix = {q + q_head, sizes.rows, sizes.d, sizes.vectors};
    const tile_matrix do_matrix = {d_o + q_head, sizes.rows, sizes.d, sizes.vectors};
    const tile_matrix k_matrix = {k + k_head, sizes.kv_len, sizes.d, sizes.vectors};
    const tile_matrix v_matrix = {v + k_head, sizes.kv_len, sizes.d, sizes.vectors};

    const backward_part<BR, shape::SCORES, shape::WARPS> of_s;
    const backward_part<BC, shape::KEY_COLUMNS, shape::WARPS> of_keys;
    const backward_part<BR, shape::ROW_COLUMNS, shape::WARPS> of_dq;
    float *const my_p = p_tile + tile_at<BC>(of_s.row) + of_s.first_key;
    const int keys = sizes.kv_len - first_key;

    float sum_dk[8][shape::KEY_COLUMNS], sum_dv[8][shape::KEY_COLUMNS];
    tile_clear(sum_dk);
    tile_clear(sum_dv);
    if (sizes.rows > 0) {
        tile_load<BC, D, THREADS>(k_tile, k_matrix, first_key, 0);
        tile_load<BC, D, THREADS>(v_tile, v_matrix, first_key, 0);
        tile_load<BR, D, THREADS>(q_tile, q_matrix, 0, 0);
        tile_load<BR, D, THREADS>(do_tile, do_matrix, 0, 0);
        backward_load_rows<BR>(lse_tile, lse, 0, sizes.rows);
        backward_load_rows<BR>(sum_tile, row_sum, 0, sizes.rows);
    }

#pragma unroll 1
    for (int row = 0; row < sizes.rows; row += BR) {
        const bool more = row + BR < sizes.rows;
        const backward_extent extent = {sizes.rows - row >= BR && keys >= BC,
                                        sizes.rows - row - of_s.row, keys - of_s.first_key};
        tile_arrived(); // all tiles are there; and nobody reads the last dS any more

        float s[8][shape::SCORES];
        tile_clear(s);
        tile_scores<D, D>(s, q_tile + tile_at<D>(of_s.row), k_tile + tile_at<D>(of_s.first_key));
        backward_weights(s, lse_tile + of_s.row, sizes.scale, extent);
        backward_put<BC>(my_p, s);
        __syncthreads(); // P is complete
        backward_key_sums<BC, BR, D>(sum_dv, p_tile + of_keys.row, do_tile + of_keys.first_column);

        float dp[8][shape::SCORES];
        tile_clear(dp);
        tile_scores<D, D>(dp, do_tile + tile_at<D>(of_s.row), v_tile + tile_at<D>(of_s.first_key));
        __syncthreads(); // nobody reads P or dO any more: dS, and the next dO, may overwrite them
        if (more) tile_load<BR, D, THREADS>(do_tile, do_matrix, row + BR, 0);
        backward_take<BC>(s, my_p); // P was kept there, to spare registers
        backward_softmax(dp, s, sum_tile + of_s.row, extent);
        backward_put<BC>(my_p, dp);
        __syncthreads(); // dS is complete
        backward_key_sums<BC, BR, D>(sum_dk, p_tile + of_keys.row, q_tile + of_keys.first_column);

        if (more) {
            __syncthreads(); // nobody reads Q, L or D any more: the next ones may overwrite them
            tile_load<BR, D, THREADS>(q_tile, q_matrix, row + BR, 0);
            backward_load_rows<BR>(lse_tile, lse, row + BR, sizes.rows);
            backward_load_rows<BR>(sum_tile, row_sum, row + BR, sizes.rows);
        }
        if (ADDS_DQ) {
            float part[8][shape::ROW_COLUMNS];
            tile_clear(part);
            tile_values<BC, BC, D, 32>(part, p_tile + tile_at<BC>(of_dq.row),
                                       k_tile + of_dq.first_column);
            add_dq<shape>(dq + q_head, part, row + of_dq.row, of_dq.first_column, sizes);
        }
    }

#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int key = first_key + of_keys.row + j;
        if (key >= sizes.kv_len) break;
#pragma unroll
        for (int c = 0; c < shape::KEY_COLUMNS; c++) sum_dk[j][c] *= sizes.scale;
        const size_t at = k_head + (size_t)key * sizes.d;
        tile_store_row<32>(dk + at, sum_dk[j], of_keys.first_column, sizes.d, sizes.vectors);
        tile_store_row<32>(dv + at, sum_dv[j], of_keys.first_column, sizes.d, sizes.vectors);
    }
}

template <class shape>
static attn_status launch(const attn_tensors *t, const float *row_sum, bool adds_dq,
                          uint64_t blocks, backward_sizes sizes) {
    const float *q = (const float *)t->q, *k = (const float *)t->k, *v = (const float *)t->v;
    const float *d_o = (const float *)t->d_o, *lse = t->lse;
    float *dq = (float *)t->dq, *dk = (float *)t->dk, *dv = (float *)t->dv;
    const size_t bytes = sizeof(float) * shape::FLOATS;
    if (adds_dq)
        return GPU_LAUNCH((backward_kv<shape, true>), (unsigned)blocks, shape::THREADS, bytes, q, k,
                          v, d_o, lse, row_sum, dq, dk, dv, sizes);
    return GPU_LAUNCH((backward_kv<shape, false>), (unsigned)blocks, shape::THREADS, bytes, q, k, v,
                      d_o, lse, row_sum, dq, dk, dv, sizes);
}

attn_status backward_kv_outer(const attn_problem *p, const attn_tensors *t, const float *row_sum,
                              bool adds_dq) {
    const backward_plan plan = backward_plan_of(p);
    const uint64_t blocks = plan.heads * plan.key_tiles;
    if (blocks == 0) return attn_ok();
    const backward_sizes sizes = backward_sizes_of(p, &plan, t);
    return BACKWARD_CALL(&plan, launch, t, row_sum, adds_dq, blocks, sizes);
}
