// bias_gradient.cu -- dbias_ij, the sum of dS_ij over all heads and members of the batch that share the bias.
//
// S = t + bias, so dS is the bias' gradient as it is, before the softcap's derivative. It is as large as S,
// and there is no way around writing it; but the backward pass proper need not know. This kernel computes P
// and dP once more, 4 N^2 d FLOPs, and a tile's block adds up over the heads in its registers: no atomic
// additions, so the same bits every time.
//
// Grid: bias_batch * bias_heads * ceil(q_len / Br) * ceil(kv_len / Bc) blocks, 1-D. Block: as in backward_kv.cu.
// Shared memory: as there, the place of P unused.
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

    // Which bias, and which tile of it.
    const unsigned tile = blockIdx.x % sizes.tiles, which = blockIdx.x / sizes.tiles;
    const unsigned bias_heads = sizes.bias_stride.head ? sizes.heads : 1;
    const int query = (int)(tile / key_tiles) * BR, key = (int)(tile % key_tiles) * BC;
    const unsigned first_member = sizes.bias_stride.batch ? which / bias_heads : 0;
    const unsigned end_member = sizes.bias_stride.batch ? first_member + 1 : sizes.members;
    const unsigned first_head = sizes.bias_stride.head ? which % bias_heads : 0;
    const unsigned end_head = sizes.bias_stride.head ? first_head + 1 : sizes.heads;

    const backward_part<BR, C, shape::WARPS> mine;
    const int my_query = query + mine.row, my_key = key + mine.first_key;
    const attn_layout &stride = sizes.stride;
    float sum[8][C];
    tile_clear(sum);
#pragma unroll 1
    for (unsigned member = first_member; member < end_member; member++)
#pragma unroll 1
        for (unsigned head = first_head; head < end_head; head++) {
            const variant_place place = variant_place_of(sizes, member);
            const attn_band band = place.band;
            const band_range keys = band_keys(band, query, min(query + BR, band.q_len));
            if (keys.begin >= key + BC || keys.end <= key)
                break; // nobody sees anybody: all heads alike
            const score_steps steps = score_steps_of(sizes, place, member, head);
            const bool in_band = band_whole(band, query, BR, key, BC);
            const size_t q_at = variant_q_at(stride.q, place, head);
            const size_t o_at = variant_q_at(stride.o, place, head);
            const size_t k_at = variant_kv_at(stride.k, place, head / sizes.group);
            const size_t v_at = variant_kv_at(stride.v, place, head / sizes.group);
            const size_t row = variant_row_at(sizes, place, head);
            const tile_matrix q_m = {q + q_at, band.q_len, sizes.d, sizes.vectors,
                                     (int)stride.q.row};
            const tile_matrix do_m = {d_o + o_at, band.q_len, sizes.d, sizes.vectors,
                                      (int)stride.o.row};
            const tile_matrix k_m = {k + k_at, band.kv_len, sizes.d, sizes.vectors,
                                     (int)stride.k.row};
            const tile_matrix v_m = {v + v_at, band.kv_len, sizes.d, sizes.vectors,
                                     (int)stride.v.row};
            __syncthreads(); // nobody reads the last head's tiles any more
            tile_load<BR, D, THREADS>(q_tile, q_m, query, 0);
            tile_load<BR, D, THREADS>(do_tile, do_m, query, 0);
            tile_load<BC, D, THREADS>(k_tile, k_m, key, 0);
            tile_load<BC, D, THREADS>(v_tile, v_m, key, 0);
            backward_load_rows<BR>(lse_tile, lse + row, query, band.q_len);
            backward_load_rows<BR>(sum_tile, row_sum + row, query, band.q_len);
            tile_arrived(); // all of them are there

            const backward_extent whatever = {true, 0, 0};
            float s[8][C], dp[8][C];
            tile_clear(s);
            tile_scores<D, D>(s, q_tile + tile_at<D>(mine.row),
                              k_tile + tile_at<D>(mine.first_key));
            scale_step(s, sizes.scale);
            score_steps_apply(s, steps, band, my_query, my_key, in_band);
            backward_weights(s, lse_tile + mine.row, 1, whatever);
            tile_clear(dp);
            tile_scores<D, D>(dp, do_tile + tile_at<D>(mine.row),
                              v_tile + tile_at<D>(mine.first_key));
            if (steps.drops) dropout_step(dp, steps, my_query, my_key);
            backward_softmax(dp, s, sum_tile + mine.row, whatever);
            if (!in_band || steps.mask)
                pairs_select(dp, pairs_seen<C>(steps, band, my_query, my_key), 0);
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < C; j++) sum[i][j] += dp[i][j];
        }

    float *to = dbias + ((size_t)which * sizes.q_len + my_query) * sizes.kv_len + my_key;
#pragma unroll
    for (int i = 0; i < 8; i++, to += sizes.kv_len)
#pragma unroll
        for (int j = 0; j < C; j++)
            if (my_query + i < sizes.q_len && my_key + j < sizes.kv_len)
                hbm_store(&to[j], sum[i][j]);
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
    const backward_plan plan = backward_plan_of(p);
    return BACKWARD_CALL(&plan, launch, p, t, row_sum);
}
