// masked_backward.cu -- chapter 5's backward pass with KV outer under a causal mask, a sliding window, or both.
//
//   for each tile of Bc keys, a block:            K_j, V_j to shared memory; dK_j, dV_j in registers
//       for each query head that reads them:
//           for each tile of Br queries that see one of the keys:        step 1: the others are not visited
//               P  = e^(scale Q_i K_j^T - L_i), 0 where i does not see j step 2: on an edge only
//               dV_j += P^T dO_i, leaving out what must not leak         step 3: on an edge only
//               dS = P o (dO_i V_j^T - D_i), 0 likewise
//               dK_j += dS^T Q_i, dQ_i += scale dS K_j, leaving out likewise
//
// The loops, the copies and the products are backward_kv.cu's, except that the heads of a group are visited
// one by one: a tile that lay across two heads would have two diagonals. Blocks with most queries come
// first (masked.cuh): under a causal mask those of the first keys.
//
// A row that sees no key has L = -infinity and e^(s + infinity) for a weight; all its pairs are masked, and
// get 0 in step 2.
//
// Grid: batch * kv_heads * ceil(kv_len / Bc) blocks, 1-D. Block, shared memory: as in backward_kv.cu.
// Device bytes, a head of K; queries(t): how many queries see a key of tile t, from the first to the last;
// only tiles with queries(t) > 0 read their keys:
//   read     4 * sum over t (2 * keys of t * d + group * queries(t) * (3*d + 2))
//   written  4 * (2*kv_len*d + sum over t (group * queries(t) * d))
#include "chapters/06-masks/leaks.cuh"
#include "chapters/06-masks/masked.cuh"

// dQ_i += scale * the thread's part, atomically: two blocks may have the same element.
//   dq   [rows][d], from the tile's first row on
template <class shape>
__device__ __forceinline__ void add_dq(float *dq, const float (&part)[8][shape::ROW_COLUMNS],
                                       int first_row, int rows, int first_column, int d,
                                       float scale, bool vectors) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (first_row + i >= rows) break;
#pragma unroll
        for (int c = 0; c < shape::ROW_COLUMNS; c += 4)
            backward_add4(dq + (size_t)(first_row + i) * d, first_column + c / 4 * 32, d, scale,
                          &part[i][c], vectors);
    }
}

// q, d_o, dq [heads][q_len][d]; lse, row_sum [heads][q_len]; k, v, dk, dv [kv_heads][kv_len][d]
template <class shape>
__global__ void __launch_bounds__(shape::THREADS, 1)
    masked_backward(const float *q, const float *k, const float *v, const float *d_o,
                    const float *lse, const float *row_sum, float *dq, float *dk, float *dv,
                    masked_shape sizes) {
    enum { D = shape::D, BR = shape::BR, BC = shape::BC, THREADS = shape::THREADS };
    GPU_DYNAMIC_SHARED(float, shared);
    float *const k_tile = shared + shape::K, *const v_tile = shared + shape::V;
    float *const q_tile = shared + shape::Q, *const do_tile = shared + shape::DO;
    float *const p_tile = shared + shape::P; // P_ij, and then dS_ij
    float *const lse_tile = shared + shape::L, *const sum_tile = shared + shape::SUMS;

    const attn_band band = sizes.band;
    const int d = sizes.d;
    const unsigned tiles = (band.kv_len + BC - 1) / BC;
    const masked_block block = masked_block_here(sizes.together, sizes.heads / sizes.group, tiles);
    const size_t kv_head = block.head;
    const int first_key = (int)block.rank * BC;
    const band_range queries =
        band_queries(band, first_key, min(first_key + BC, band.kv_len)); // step 1
    const size_t k_head = kv_head * band.kv_len * d;
    const tile_matrix k_matrix = {k + k_head, band.kv_len, d, sizes.vectors};
    const tile_matrix v_matrix = {v + k_head, band.kv_len, d, sizes.vectors};

    const backward_part<BR, shape::SCORES, shape::WARPS> of_s;
    const backward_part<BC, shape::KEY_COLUMNS, shape::WARPS> of_keys;
    const backward_part<BR, shape::ROW_COLUMNS, shape::WARPS> of_dq;
    float *const my_p = p_tile + tile_at<BC>(of_s.row) + of_s.first_key;

    // Starts to copy what belongs to the queries from `query` on of a query head: dO alone, or the rest.
    const auto load_do = [&](size_t head, int query) {
        const tile_matrix m = {d_o + head * band.q_len * d, queries.end, d, sizes.vectors};
        tile_load<BR, D, THREADS>(do_tile, m, query, 0);
    };
    const auto load_q = [&](size_t head, int query) {
        const tile_matrix m = {q + head * band.q_len * d, queries.end, d, sizes.vectors};
        tile_load<BR, D, THREADS>(q_tile, m, query, 0);
        backward_load_rows<BR>(lse_tile, lse + head * band.q_len, query, queries.end);
        backward_load_rows<BR>(sum_tile, row_sum + head * band.q_len, query, queries.end);
    };

    float sum_dk[8][shape::KEY_COLUMNS], sum_dv[8][shape::KEY_COLUMNS];
    tile_clear(sum_dk);
    tile_clear(sum_dv);
    size_t head = kv_head * sizes.group;
    const size_t end_head = head + sizes.group;
    int query = queries.begin;
    if (query >= queries.end)
        head = end_head; // nobody sees these keys
    else {
        tile_load<BC, D, THREADS>(k_tile, k_matrix, first_key, 0);
        tile_load<BC, D, THREADS>(v_tile, v_matrix, first_key, 0);
        load_q(head, query);
        load_do(head, query);
    }

#pragma unroll 1
    while (head < end_head) {
        const bool head_ends = query + BR >= queries.end;
        const size_t next_head = head_ends ? head + 1 : head;
        const int next_query = head_ends ? queries.begin : query + BR;
        const bool whole = band_whole(band, query, BR, first_key, BC);
        const int s_query = query + of_s.row, s_key = first_key + of_s.first_key;
        tile_arrived(); // all tiles are there; and nobody reads the last dS any more

        float s[8][shape::SCORES];
        const backward_extent whatever = {true, 0, 0}; // what does not exist is masked, too
        tile_clear(s);
        tile_scores<D, D>(s, q_tile + tile_at<D>(of_s.row), k_tile + tile_at<D>(of_s.first_key));
        backward_weights(s, lse_tile + of_s.row, sizes.scale, whatever);
        if (!whole) band_select(s, band, s_query, s_key, 0); // step 2
        backward_put<BC>(my_p, s);
        __syncthreads(); // P is complete
        const float *p_column = p_tile + of_keys.row;
        const auto key_sees = [&](int i, int j, float) {
            return band_sees(band, query + i, first_key + of_keys.row + j);
        };
        if (!whole && tile_would_leak<BR, D>(do_tile)) // step 3
            key_sums_seen<BC, BR, D>(sum_dv, p_column, do_tile + of_keys.first_column, key_sees);
        else
            backward_key_sums<BC, BR, D>(sum_dv, p_column, do_tile + of_keys.first_column);

        float dp[8][shape::SCORES];
        tile_clear(dp);
        tile_scores<D, D>(dp, do_tile + tile_at<D>(of_s.row), v_tile + tile_at<D>(of_s.first_key));
        __syncthreads(); // nobody reads P or dO any more: dS, and the next dO, may overwrite them
        if (next_head < end_head) load_do(next_head, next_query);
        backward_take<BC>(s, my_p); // P was kept there, to spare registers
        backward_softmax(dp, s, sum_tile + of_s.row, whatever);
        if (!whole) band_select(dp, band, s_query, s_key, 0);
        backward_put<BC>(my_p, dp);
        __syncthreads(); // dS is complete
        if (!whole && tile_would_leak<BR, D>(q_tile))
            key_sums_seen<BC, BR, D>(sum_dk, p_column, q_tile + of_keys.first_column, key_sees);
        else
            backward_key_sums<BC, BR, D>(sum_dk, p_column, q_tile + of_keys.first_column);

        if (next_head < end_head) {
            __syncthreads(); // nobody reads Q, L or D any more: the next ones may overwrite them
            load_q(next_head, next_query);
        }
        float part[8][shape::ROW_COLUMNS];
        tile_clear(part);
        const float *ds_row = p_tile + tile_at<BC>(of_dq.row);
        if (!whole && tile_would_leak<BC, D>(k_tile))
            tile_values_seen<BC, BC, D, 32>(part, ds_row, k_tile + of_dq.first_column,
                                            [&](int i, int j, float) {
                                                return band_sees(band, query + of_dq.row + i,
                                                                 first_key + j);
                                            });
        else
            tile_values<BC, BC, D, 32>(part, ds_row, k_tile + of_dq.first_column);
        add_dq<shape>(dq + (head * band.q_len + query) * d, part, of_dq.row, queries.end - query,
                      of_dq.first_column, d, sizes.scale, sizes.vectors);
        head = next_head, query = next_query;
    }

#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int key = first_key + of_keys.row + j;
        if (key >= band.kv_len) break;
#pragma unroll
        for (int c = 0; c < shape::KEY_COLUMNS; c++) sum_dk[j][c] *= sizes.scale;
        const size_t at = k_head + (size_t)key * d;
        tile_store_row<32>(dk + at, sum_dk[j], of_keys.first_column, d, sizes.vectors);
        tile_store_row<32>(dv + at, sum_dv[j], of_keys.first_column, d, sizes.vectors);
    }
}

template <class shape>
static attn_status launch(const attn_tensors *t, const float *row_sum, uint64_t blocks,
                          masked_shape sizes) {
    return GPU_LAUNCH((masked_backward<shape>), (unsigned)blocks, shape::THREADS,
                      sizeof(float) * shape::FLOATS, (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, (const float *)t->d_o, t->lse, row_sum, (float *)t->dq,
                      (float *)t->dk, (float *)t->dv, sizes);
}

attn_status masked_backward_kv(const attn_problem *p, const attn_tensors *t, const float *row_sum) {
    if (!masked_has_mask(p))
        return backward_kv_outer(p, t, row_sum, true); // chapter 5, as it stands
    const backward_plan plan = backward_plan_of(p);
    const uint64_t blocks = plan.heads * plan.key_tiles;
    if (blocks == 0) return attn_ok();
    const masked_shape sizes =
        masked_shape_of(p, plan.heads, plan.key_tiles, backward_sizes_of(p, &plan, t).vectors);
    return BACKWARD_CALL(&plan, launch, t, row_sum, blocks, sizes);
}
