// variants_backward.cu -- the masked backward kernel, for rows that lie anywhere, with steps between product
// and softmax.
//
//   the block's member or sequence, its lengths and its band                          places.cuh
//   for each tile of Bc keys, a block:            K_j, V_j to shared memory; dK_j, dV_j in registers
//       for each query head that reads them:
//           for each tile of Br queries that see one of the keys:
//               S  = scale Q_i K_j^T, softcap, + bias, - ALiBi                        score_steps.cuh
//               P  = e^(S - L_i); masked where i does not see j, by the band or by a byte
//               dV_j += (r P)^T dO_i                 r: 0 or 1 / (1 - p), dropout
//               P again, with softcap and dropout    what dS needs is not what dV needed
//               dP = r (dO_i V_j^T)
//               dS = P (dP - D_i), with softcap times 1 - (t / softcap)^2
//               dK_j += dS^T Q_i, dQ_i += scale dS K_j
//
// P goes through shared memory to the warps that make dV of it, and there is no room for a second tile, nor
// are there registers. So P is computed twice where dropout or a softcap makes it differ: a sixth product,
// 12 N^2 d instead of 10. Everything else is masked_backward.cu's.
//
// Grid: batch or sequences * kv_heads * ceil(longest kv_len / Bc) blocks, 1-D. Block, shared memory: as in
// backward_kv.cu, and the block's place.
// Device bytes, a head of K of a member; queries(t): as in masked_backward.cu, where only tiles with
// queries(t) > 0 read their keys; pairs: how many see each other, by the band:
//   read     4 * sum over t (2 * keys of t * d + group * queries(t) * (3*d + 2)) + 16 a block (lengths)
//            + group * pairs * (4 (bias; 8 where P is computed twice) + 1 (mask))
//   written  4 * (2*kv_len*d + sum over t (group * queries(t) * d))
#include "chapters/06-masks/leaks.cuh"
#include "chapters/06-masks/score_steps.cuh"

// As in masked_backward.cu, but that rows are `pitch` apart.
template <class shape>
__device__ __forceinline__ void add_dq(float *dq, const float (&part)[8][shape::ROW_COLUMNS],
                                       int first_row, int rows, int first_column,
                                       const variant_shape &sizes) {
    const int pitch = (int)sizes.stride.q.row;
    float *row = dq + (size_t)first_row * pitch;
#pragma unroll
    for (int i = 0; i < 8; i++, row += pitch)
        if (first_row + i < rows)
#pragma unroll
            for (int c = 0; c < shape::ROW_COLUMNS; c += 4)
                backward_add4(row, first_column + c / 4 * 32, sizes.d, sizes.scale, &part[i][c],
                              sizes.vectors);
}

// s, Q_i K_j^T, becomes P, without dropout. Where nothing is seen it may be anything. A bias or a softcap
// may make scores so large that S and L have no bit behind the point: then their difference is taken first.
template <int C>
__device__ __forceinline__ void weights_of(float (&s)[8][C], const score_steps &steps, float scale,
                                           const float *lse, attn_band band, int query, int key,
                                           bool in_band) {
    if (score_steps_any(steps)) {
        scale_step(s, scale);
        score_steps_apply(s, steps, band, query, key, in_band);
        stepped_weights(s, lse);
        return;
    }
    const backward_extent whatever = {true, 0, 0}; // what does not exist is masked, too
    backward_weights(s, lse, scale, whatever);
}

// dt/dx = 1 - (t / softcap)^2 of products s, to the thread's place in a tile of WIDTH keys; and a product with
// what stands there.
template <int WIDTH, int C>
__device__ __forceinline__ void softcap_slopes(float *tile, const float (&s)[8][C], float scale,
                                               float softcap) {
    const float inverse = 1 / softcap;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) {
            const float t = tanhf(s[i][j] * scale * inverse);
            tile[i * WIDTH + j] = 1 - t * t;
        }
}
template <int WIDTH, int C>
__device__ __forceinline__ void multiply(float (&s)[8][C], const float *tile) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) s[i][j] *= tile[i * WIDTH + j];
}

// q, d_o, dq; k, v, dk, dv: strides in sizes; lse, row_sum [B][H][q_len]
template <class shape>
__global__ void __launch_bounds__(shape::THREADS, 1)
    variants_kv(const float *q, const float *k, const float *v, const float *d_o, const float *lse,
                const float *row_sum, float *dq, float *dk, float *dv, variant_shape sizes) {
    enum { D = shape::D, BR = shape::BR, BC = shape::BC, THREADS = shape::THREADS };
    enum { C = shape::SCORES };
    GPU_DYNAMIC_SHARED(float, shared);
    float *const k_tile = shared + shape::K, *const v_tile = shared + shape::V;
    float *const q_tile = shared + shape::Q, *const do_tile = shared + shape::DO;
    float *const p_tile = shared + shape::P; // P_ij, and then dS_ij
    float *const lse_tile = shared + shape::L, *const sum_tile = shared + shape::SUMS;

    const unsigned kv_heads = sizes.heads / sizes.group;
    const masked_block block = masked_block_here(sizes.together, sizes.heads_in_all, sizes.tiles);
    const unsigned member = block.head / kv_heads, kv_head = block.head % kv_heads;
    const variant_place &place = variant_place_of(sizes, member, kv_head);
    const attn_band band = place.band;
    const int first_key = (int)block.rank * BC;
    if (first_key >= band.kv_len) return; // the whole block: a shorter sequence
    const band_range queries = band_queries(band, first_key, min(first_key + BC, band.kv_len));
    const attn_layout &stride = sizes.stride;
    const tile_matrix k_matrix = {k + place.k_at, band.kv_len, sizes.d, sizes.vectors,
                                  (int)stride.k.row};
    const tile_matrix v_matrix = {v + place.v_at, band.kv_len, sizes.d, sizes.vectors,
                                  (int)stride.v.row};

    const backward_part<BR, C, shape::WARPS> of_s;
    const backward_part<BC, shape::KEY_COLUMNS, shape::WARPS> of_keys;
    const backward_part<BR, shape::ROW_COLUMNS, shape::WARPS> of_dq;
    float *const my_p = p_tile + tile_at<BC>(of_s.row) + of_s.first_key;
    const int my_key = first_key + of_s.first_key;
    const auto seen_weight = [](int, int, float weight) { return !is_masked(weight); };

    // Starts to copy what belongs to the queries from `query` on of a query head: dO alone, or the rest.
    const auto load_do = [&](unsigned head, int query) {
        const tile_matrix m = {d_o + variant_q_at(stride.o, place, head), queries.end, sizes.d,
                               sizes.vectors, (int)stride.o.row};
        tile_load<BR, D, THREADS>(do_tile, m, query, 0);
    };
    const auto load_q = [&](unsigned head, int query) {
        const tile_matrix m = {q + variant_q_at(stride.q, place, head), queries.end, sizes.d,
                               sizes.vectors, (int)stride.q.row};
        const size_t row = variant_row_at(sizes, place, head);
        tile_load<BR, D, THREADS>(q_tile, m, query, 0);
        backward_load_rows<BR>(lse_tile, lse + row, query, queries.end);
        backward_load_rows<BR>(sum_tile, row_sum + row, query, queries.end);
    };

    float sum_dk[8][shape::KEY_COLUMNS], sum_dv[8][shape::KEY_COLUMNS];
    tile_clear(sum_dk);
    tile_clear(sum_dv);
    // All tiles of queries that see one of the keys, of one head after the other: tile n is of head_of(n).
    const int a_head =
        queries.begin < queries.end ? (queries.end - queries.begin + BR - 1) / BR : 0;
    const int tiles = a_head * sizes.group;
    const auto head_of = [&](int n) { return kv_head * sizes.group + (unsigned)(n / a_head); };
    const auto query_of = [&](int n) { return queries.begin + n % a_head * BR; };
    if (tiles > 0) {
        tile_load<BC, D, THREADS>(k_tile, k_matrix, first_key, 0);
        tile_load<BC, D, THREADS>(v_tile, v_matrix, first_key, 0);
        load_q(head_of(0), query_of(0));
        load_do(head_of(0), query_of(0));
    }

#pragma unroll 1
    for (int n = 0; n < tiles; n++) {
        const unsigned head = head_of(n);
        const int query = query_of(n);
        const int my_query = query + of_s.row;
        tile_arrived(); // all tiles are there; and nobody reads the last dS any more

        const bool in_band = band_whole(band, query, BR, first_key, BC);
        const bool whole = in_band && !sizes.mask;
        score_steps steps = score_steps_of(sizes, place, head);
        float s[8][C];
        tile_clear(s);
        tile_scores<D, D>(s, q_tile + tile_at<D>(of_s.row), k_tile + tile_at<D>(of_s.first_key));
        weights_of(s, steps, sizes.scale, lse_tile + of_s.row, band, my_query, my_key, in_band);
        uint64_t seen = ~(uint64_t)0;
        if (!whole) seen = pairs_seen<C>(steps, band, my_query, my_key);
        if (steps.drops) dropout_step(s, pairs_kept<C>(steps, my_query, my_key), steps.drop.factor);
        if (!whole) pairs_select(s, seen, MASKED);
        backward_put<BC>(my_p, s);
        __syncthreads(); // P is complete
        const float *p_column = p_tile + of_keys.row;
        if (!whole && tile_would_leak<BR, D>(do_tile))
            key_sums_seen<BC, BR, D>(sum_dv, p_column, do_tile + of_keys.first_column, seen_weight);
        else
            backward_key_sums<BC, BR, D>(sum_dv, p_column, do_tile + of_keys.first_column);

        if (sizes.drops || sizes.softcap != 0) {
            __syncthreads(); // nobody reads P any more: another one may overwrite it
            steps = score_steps_of(sizes, place, head);
            tile_clear(s);
            tile_scores<D, D>(s, q_tile + tile_at<D>(of_s.row),
                              k_tile + tile_at<D>(of_s.first_key));
            // The slopes wait in P's place, for want of registers: it is this thread's until dS is there.
            if (sizes.softcap != 0) softcap_slopes<BC>(my_p, s, sizes.scale, sizes.softcap);
            weights_of(s, steps, sizes.scale, lse_tile + of_s.row, band, my_query, my_key, in_band);
            if (sizes.softcap != 0) multiply<BC>(s, my_p);
            backward_put<BC>(my_p, s);
        }
        float dp[8][C];
        tile_clear(dp);
        tile_scores<D, D>(dp, do_tile + tile_at<D>(of_s.row), v_tile + tile_at<D>(of_s.first_key));
        if (sizes.drops) {
            steps = score_steps_of(sizes, place, head);
            dropout_step(dp, pairs_kept<C>(steps, my_query, my_key), steps.drop.factor);
        }
        __syncthreads(); // nobody reads P or dO any more: dS, and the next dO, may overwrite them
        if (n + 1 < tiles) load_do(head_of(n + 1), query_of(n + 1));
        backward_take<BC>(s, my_p); // P was kept there, to spare registers
        const backward_extent whatever = {true, 0, 0};
        backward_softmax(dp, s, sum_tile + of_s.row, whatever);
        if (!whole) {
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < C; j++) dp[i][j] += 0.0f; // -0, which would look masked, is 0
            pairs_select(dp, seen, MASKED);
        }
        backward_put<BC>(my_p, dp);
        __syncthreads(); // dS is complete
        if (!whole && tile_would_leak<BR, D>(q_tile))
            key_sums_seen<BC, BR, D>(sum_dk, p_column, q_tile + of_keys.first_column, seen_weight);
        else
            backward_key_sums<BC, BR, D>(sum_dk, p_column, q_tile + of_keys.first_column);

        if (n + 1 < tiles) {
            __syncthreads(); // nobody reads Q, L or D any more: the next ones may overwrite them
            load_q(head_of(n + 1), query_of(n + 1));
        }
        float part[8][shape::ROW_COLUMNS];
        tile_clear(part);
        const float *ds_row = p_tile + tile_at<BC>(of_dq.row);
        if (!whole && tile_would_leak<BC, D>(k_tile))
            tile_values_seen<BC, BC, D, 32>(part, ds_row, k_tile + of_dq.first_column, seen_weight);
        else
            tile_values<BC, BC, D, 32>(part, ds_row, k_tile + of_dq.first_column);
        add_dq<shape>(dq + variant_q_at(stride.q, place, head), part, query + of_dq.row,
                      queries.end, of_dq.first_column, sizes);
    }

#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int key = first_key + of_keys.row + j;
        if (key >= band.kv_len) break;
#pragma unroll
        for (int c = 0; c < shape::KEY_COLUMNS; c++) sum_dk[j][c] *= sizes.scale;
        tile_store_row<32>(dk + place.k_at + key * stride.k.row, sum_dk[j], of_keys.first_column,
                           sizes.d, sizes.vectors);
        tile_store_row<32>(dv + place.v_at + key * stride.v.row, sum_dv[j], of_keys.first_column,
                           sizes.d, sizes.vectors);
    }
}

template <class shape>
static attn_status launch(const attn_problem *p, const attn_tensors *t, const float *row_sum) {
    const variant_shape sizes =
        variant_shape_of(p, t, (unsigned)p->kv_heads, variant_key_tiles(p, shape::BC));
    const uint64_t blocks = (uint64_t)sizes.heads_in_all * sizes.tiles;
    if (blocks == 0) return attn_ok();
    return GPU_LAUNCH((variants_kv<shape>), (unsigned)blocks, shape::THREADS,
                      sizeof(float) * shape::FLOATS, (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, (const float *)t->d_o, t->lse, row_sum, (float *)t->dq,
                      (float *)t->dk, (float *)t->dv, sizes);
}

attn_status variants_backward_kv(const attn_problem *p, const attn_tensors *t,
                                 const float *row_sum) {
    const backward_plan plan = backward_plan_of(p);
    return VARIANTS_CALL(&plan, launch, p, t, row_sum);
}

attn_status variants_backward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    if (!has_variants(p)) return masked_backward_pass(p, t, buffer);
    float *row_sum = (float *)buffer[0];
    ATTN_TRY(variants_row_sums(p, t, row_sum));
    ATTN_TRY(variants_backward_kv(p, t, row_sum));
    return p->bias_gradient ? variants_bias_gradient(p, t, row_sum) : attn_ok();
}
