// backward_q.cu -- dQ without atomics: a second pass over all pairs, with Q outer.
//
//   for each tile of Br queries, a block:         Q_i, dO_i, L_i, D_i to shared memory; dQ_i in registers
//       for each tile of Bc keys:
//           dP = dO_i V_j^T,  S = Q_i K_j^T       both are computed again:
//           P  = e^(scale S - L_i)                4 N^2 d FLOPs more than adding dQ in backward_kv.cu,
//           dS = P o (dP - D_i)                   for a dQ that is the same bits in every run
//           dQ_i += scale dS K_j                  from S = scale Q K^T
//       dQ_i is written                           once
//
// dP comes first: while it is computed from V_j, K_j arrives; during the rest, the next V.
//
// Grid: batch * kv_heads * ceil(rows / Br) blocks, 1-D (rows: of all query heads that read one head of K).
// Block, shared memory: as in backward_kv.cu.
// Device bytes, a head of K, Tr = ceil(rows / Br):
//   read     4 * (rows * (2*d + 2) + 2*kv_len*d*Tr)         written   4 * rows*d
#include "chapters/05-backward/backward.cuh"

// q, d_o, dq [heads][rows][d]; lse, row_sum [heads][rows]; k, v [heads][kv_len][d]
template <class shape>
__global__ void __launch_bounds__(shape::THREADS, 1)
    backward_q(const float *q, const float *k, const float *v, const float *d_o, const float *lse,
               const float *row_sum, float *dq, backward_sizes sizes) {
    enum { D = shape::D, BR = shape::BR, BC = shape::BC, THREADS = shape::THREADS };
    GPU_DYNAMIC_SHARED(float, shared);
    float *const k_tile = shared + shape::K, *const v_tile = shared + shape::V;
    float *const q_tile = shared + shape::Q, *const do_tile = shared + shape::DO;
    float *const ds_tile = shared + shape::P;
    float *const lse_tile = shared + shape::L, *const sum_tile = shared + shape::SUMS;

    const unsigned tiles = (sizes.rows + BR - 1) / BR;
    const size_t head = blockIdx.x / tiles;
    const int first_row = (int)(blockIdx.x % tiles) * BR;
    const size_t q_head = head * sizes.rows * sizes.d, k_head = head * sizes.kv_len * sizes.d;
    const tile_matrix q_matrix = {q + q_head, sizes.rows, sizes.d, sizes.vectors};
    const tile_matrix do_matrix = {d_o + q_head, sizes.rows, sizes.d, sizes.vectors};
    const tile_matrix k_matrix = {k + k_head, sizes.kv_len, sizes.d, sizes.vectors};
    const tile_matrix v_matrix = {v + k_head, sizes.kv_len, sizes.d, sizes.vectors};

    const backward_part<BR, shape::SCORES, shape::WARPS> of_s;
    const backward_part<BR, shape::ROW_COLUMNS, shape::WARPS> of_dq;

    float *const my_ds = ds_tile + tile_at<BC>(of_s.row) + of_s.first_key;

    float sum_dq[8][shape::ROW_COLUMNS];
    tile_clear(sum_dq);
    if (sizes.kv_len > 0) {
        tile_load<BR, D, THREADS>(q_tile, q_matrix, first_row, 0);
        tile_load<BR, D, THREADS>(do_tile, do_matrix, first_row, 0);
        backward_load_rows<BR>(lse_tile, lse + head * sizes.rows, first_row, sizes.rows);
        backward_load_rows<BR>(sum_tile, row_sum + head * sizes.rows, first_row, sizes.rows);
        tile_load<BC, D, THREADS>(v_tile, v_matrix, 0, 0);
    }

#pragma unroll 1
    for (int key = 0; key < sizes.kv_len; key += BC) {
        const int rows = sizes.rows - first_row, keys = sizes.kv_len - key;
        const backward_extent extent = {rows >= BR && keys >= BC, rows - of_s.row,
                                        keys - of_s.first_key};
        tile_arrived(); // V_j is there (and Q, dO, L, D); nobody reads K_j-1 and its dS any more
        tile_load<BC, D, THREADS>(k_tile, k_matrix, key, 0);
        float dp[8][shape::SCORES], s[8][shape::SCORES];
        tile_clear(dp);
        tile_scores<D, D>(dp, do_tile + tile_at<D>(of_s.row), v_tile + tile_at<D>(of_s.first_key));
        backward_put<BC>(my_ds, dp); // kept there, to spare registers: nobody else reads it yet

        tile_arrived(); // K_j is there; nobody reads V_j any more
        if (key + BC < sizes.kv_len) tile_load<BC, D, THREADS>(v_tile, v_matrix, key + BC, 0);
        tile_clear(s);
        tile_scores<D, D>(s, q_tile + tile_at<D>(of_s.row), k_tile + tile_at<D>(of_s.first_key));
        backward_weights(s, lse_tile + of_s.row, sizes.scale, extent);
        backward_take<BC>(dp, my_ds);
        backward_softmax(dp, s, sum_tile + of_s.row, extent);
        backward_put<BC>(my_ds, dp);
        __syncthreads(); // dS is complete
        tile_values<BC, BC, D, 32>(sum_dq, ds_tile + tile_at<BC>(of_dq.row),
                                   k_tile + of_dq.first_column);
    }

#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int row = first_row + of_dq.row + i;
        if (row >= sizes.rows) break;
#pragma unroll
        for (int c = 0; c < shape::ROW_COLUMNS; c++) sum_dq[i][c] *= sizes.scale;
        tile_store_row<32>(dq + q_head + (size_t)row * sizes.d, sum_dq[i], of_dq.first_column,
                           sizes.d, sizes.vectors);
    }
}

template <class shape>
static attn_status launch(const attn_tensors *t, const float *row_sum, uint64_t blocks,
                          backward_sizes sizes) {
    return GPU_LAUNCH((backward_q<shape>), (unsigned)blocks, shape::THREADS,
                      sizeof(float) * shape::FLOATS, (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, (const float *)t->d_o, t->lse, row_sum, (float *)t->dq,
                      sizes);
}

attn_status backward_q_outer(const attn_problem *p, const attn_tensors *t, const float *row_sum) {
    const backward_plan plan = backward_plan_of(p);
    const uint64_t blocks = plan.heads * plan.query_tiles;
    if (blocks == 0) return attn_ok();
    const backward_sizes sizes = backward_sizes_of(p, &plan, t);
    return BACKWARD_CALL(&plan, launch, t, row_sum, blocks, sizes);
}
