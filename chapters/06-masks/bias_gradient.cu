// bias_gradient.cu -- dbias_ij, the sum of dS_ij over all heads and members of the batch that share the bias.
//
// S = t + bias, so dS is the bias' gradient as it is, before the softcap's derivative. It is as large as S,
// and there is no way around writing it; but the backward pass proper need not know. This kernel computes P
// and dP once more, 4 N^2 d FLOPs, and a tile's block adds up over the heads in shared memory: no atomic
// additions, so the same bits every time.
//
//   for each tile of Br queries and Bc keys of a bias, a block:
//       for each member and query head that reads it:
//           P  = e^(S - L_i), dP = r (dO_i V_j^T)
//           dbias += P (dP - D_i), 0 where i does not see j
//       dbias is written, once
//
// Grid: bias_batch * bias_heads * ceil(q_len / Br) * ceil(kv_len / Bc) blocks, 1-D. Block: as in backward_kv.cu.
// Shared memory: as there, and where the block's place is; P's place has the sum over the heads.
// Device bytes, of tiles in which someone sees someone:
//   read     the queries and keys of the tile * 2d * 4, queries * 2 * 4, for each head that shares it;
//            4 * pairs that see each other by the band (bias) + pairs (mask), for each head
//   written  4 * bias_batch * bias_heads * q_len * kv_len
#include "chapters/06-masks/score_steps.cuh"

template <class shape>
__global__ void __launch_bounds__(shape::THREADS, 1)
    bias_gradient(const float *q, const float *k, const float *v, const float *d_o,
                  const float *lse, const float *row_sum, float *dbias, unsigned key_tiles,
                  variant_shape sizes) {
    enum { D = shape::D, BR = shape::BR, BC = shape::BC, THREADS = shape::THREADS };
    enum { C = shape::SCORES };
    GPU_DYNAMIC_SHARED(float, shared);
    float *const k_tile = shared + shape::K, *const v_tile = shared + shape::V;
    float *const q_tile = shared + shape::Q, *const do_tile = shared + shape::DO;
    float *const lse_tile = shared + shape::L, *const sum_tile = shared + shape::SUMS;

    // Which bias, which tile of it, and the heads that share it.
    const unsigned tile = blockIdx.x % sizes.tiles, which = blockIdx.x / sizes.tiles;
    const int query = (int)(tile / key_tiles) * BR, key = (int)(tile % key_tiles) * BC;
    const bool own_batch = sizes.bias_stride.batch != 0, own_head = sizes.bias_stride.head != 0;
    const unsigned of_heads = own_head ? 1 : sizes.heads;
    const unsigned sharing = own_batch ? of_heads : sizes.members * of_heads;
    const attn_band band = attn_band_of_lengths(sizes.rule, sizes.q_len, sizes.kv_len);
    const band_range keys = band_keys(band, query, min(query + BR, band.q_len));
    const bool seen_by_some = keys.begin < key + BC && keys.end > key;
    const unsigned heads = seen_by_some ? sharing : 0;

    const backward_part<BR, C, shape::WARPS> mine;
    const int my_query = query + mine.row, my_key = key + mine.first_key;
    // The sum is in P's place, where this thread alone reads and writes it.
    float *const my_sum = shared + shape::P + tile_at<BC>(mine.row) + mine.first_key;
    float s[8][C], dp[8][C];
    tile_clear(s);
    backward_put<BC>(my_sum, s);
#pragma unroll 1
    for (unsigned n = 0; n < heads; n++) {
        const unsigned member = own_batch ? which / (own_head ? sizes.heads : 1) : n / of_heads;
        const unsigned head = own_head ? which % sizes.heads : n % of_heads;
        // Nobody reads the last head's tiles any more when this returns.
        const variant_place &place = variant_place_of(sizes, member, head / sizes.group);
        const attn_layout &stride = sizes.stride;
        const tile_matrix q_matrix = {q + variant_q_at(stride.q, place, head), band.q_len, sizes.d,
                                      sizes.vectors, (int)stride.q.row};
        const tile_matrix do_matrix = {d_o + variant_q_at(stride.o, place, head), band.q_len,
                                       sizes.d, sizes.vectors, (int)stride.o.row};
        const tile_matrix k_matrix = {k + place.k_at, band.kv_len, sizes.d, sizes.vectors,
                                      (int)stride.k.row};
        const tile_matrix v_matrix = {v + place.v_at, band.kv_len, sizes.d, sizes.vectors,
                                      (int)stride.v.row};
        const size_t row = variant_row_at(sizes, place, head);
        tile_load<BR, D, THREADS>(q_tile, q_matrix, query, 0);
        tile_load<BR, D, THREADS>(do_tile, do_matrix, query, 0);
        tile_load<BC, D, THREADS>(k_tile, k_matrix, key, 0);
        tile_load<BC, D, THREADS>(v_tile, v_matrix, key, 0);
        backward_load_rows<BR>(lse_tile, lse + row, query, band.q_len);
        backward_load_rows<BR>(sum_tile, row_sum + row, query, band.q_len);
        tile_arrived(); // all of them are there

        const backward_extent whatever = {true, 0, 0};
        const score_steps steps = score_steps_of(sizes, place, head);
        const bool in_band = band_whole(band, query, BR, key, BC);
        tile_clear(s);
        tile_scores<D, D>(s, q_tile + tile_at<D>(mine.row), k_tile + tile_at<D>(mine.first_key));
        scale_step(s, sizes.scale);
        score_steps_apply(s, steps, band, my_query, my_key, in_band);
        stepped_weights(s, lse_tile + mine.row);
        tile_clear(dp);
        tile_scores<D, D>(dp, do_tile + tile_at<D>(mine.row), v_tile + tile_at<D>(mine.first_key));
        if (steps.drops)
            dropout_step(dp, pairs_kept<C>(steps, my_query, my_key), steps.drop.factor);
        backward_softmax(dp, s, sum_tile + mine.row, whatever);
        if (!in_band || steps.mask)
            pairs_select(dp, pairs_seen<C>(steps, band, my_query, my_key), 0);
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < C; j++) my_sum[i * BC + j] += dp[i][j];
    }

    float *to = dbias + ((size_t)which * sizes.q_len + my_query) * sizes.kv_len + my_key;
#pragma unroll
    for (int i = 0; i < 8; i++, to += sizes.kv_len)
#pragma unroll
        for (int j = 0; j < C; j++)
            if (my_query + i < sizes.q_len && my_key + j < sizes.kv_len)
                hbm_store(&to[j], my_sum[i * BC + j]);
}

template <class shape>
static attn_status launch(const attn_problem *p, const attn_tensors *t, const float *row_sum) {
    const uint64_t key_tiles = variant_key_tiles(p, shape::BC);
    const variant_shape sizes =
        variant_shape_of(p, t, 1, variant_query_tiles(p, shape::BR) * key_tiles);
    const uint64_t blocks = (uint64_t)(p->bias_batch * p->bias_heads) * sizes.tiles;
    if (blocks == 0) return attn_ok();
    return GPU_LAUNCH((bias_gradient<shape>), (unsigned)blocks, shape::THREADS,
                      sizeof(float) * shape::FLOATS, (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, (const float *)t->d_o, t->lse, row_sum, t->dbias,
                      (unsigned)key_tiles, sizes);
}

attn_status variants_bias_gradient(const attn_problem *p, const attn_tensors *t,
                                   const float *row_sum) {
    const backward_plan plan = bias_gradient_plan(p);
    return plan.dim == 64   ? launch<backward_64_small>(p, t, row_sum)
           : plan.dim > 128 ? launch<backward_256_large>(p, t, row_sum)
           : plan.large     ? launch<backward_128_large>(p, t, row_sum)
                            : launch<backward_128_small>(p, t, row_sum);
}
