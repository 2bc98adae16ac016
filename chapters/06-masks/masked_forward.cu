// masked_forward.cu -- chapter 3's fast kernel under a causal mask, a sliding window, or both.
//
//   for each tile of Br queries, a block:         Q_i to shared memory; m, l, O in registers
//       for each tile of Bc keys that one of them sees:          step 1: the others are not visited
//           S = scale Q_i K_j^T
//           -infinity where a query does not see a key           step 2: on an edge only
//           m, l, P = online softmax of S
//           O += P V_j, leaving out what must not leak           step 3: on an edge only
//       O / l and L = m + log l are written; O = 0 for a row that has seen no key
//
// The loops, the copies and the products are tiled_q_outer.cu's.
//
// Blocks with most keys come first (masked.cuh): under a causal mask those of the last queries.
//
// Grid, block, shared memory: as in tiled_q_outer.cu.
// Device bytes, a head; keys(t): how many keys the queries of tile t see together, from the first to the
// last; only tiles with keys(t) > 0 read their queries:
//   read     4 * sum over t (queries of t * d + 2 * keys(t) * d)      written   4 * (q_len*d + q_len)
#include "chapters/03-tiled-q-outer/chunks.cuh"
#include "chapters/06-masks/leaks.cuh"
#include "chapters/06-masks/masked.cuh"

// q, o [B][H][q_len][d]; k, v [B][kv_heads][kv_len][d]; lse [B][H][q_len].
template <int D>
__global__ void __launch_bounds__(tile_shape<D>::THREADS, 2)
    masked_forward(const float *q, const float *k, const float *v, float *o, float *lse,
                   masked_shape shape) {
    typedef tile_shape<D> tile;
    typedef tile_chunks<D> chunks;
    enum { BC = tile::BC, COUNT = chunks::COUNT };
    GPU_DYNAMIC_SHARED(float, shared);
    float *q_tile = shared, *p_tile = q_tile + tile_at<D>(tile::BR);
    float *ring = p_tile + tile_at<BC>(tile::BR);

    const attn_band band = shape.band;
    const unsigned tiles = (band.q_len + tile::BR - 1) / tile::BR;
    const masked_block block = masked_block_here(shape.together, shape.heads, tiles);
    const size_t head = block.head, kv_head = head / shape.group;
    const int first_query = (int)(tiles - 1 - block.rank) * tile::BR;
    const band_range keys =
        band_keys(band, first_query, min(first_query + tile::BR, band.q_len)); // step 1
    const size_t q_head = head * band.q_len * shape.d, k_head = kv_head * band.kv_len * shape.d;
    const tile_matrix q_matrix = {q + q_head, band.q_len, shape.d, shape.vectors};
    // They end with the last key that is seen: what comes after it is not copied.
    const tile_matrix k_matrix = {k + k_head, keys.end, shape.d, shape.vectors};
    const tile_matrix v_matrix = {v + k_head, keys.end, shape.d, shape.vectors};

    const tile_thread here = tile_thread_here<D>();
    const int my_query = first_query + here.query;
    const float *my_q = q_tile + tile_at<D>(here.query);
    float *my_p = p_tile + tile_at<BC>(here.query);

    float sum_o[8][8];
    tile_rows rows;
    tile_clear(sum_o);
    tile_rows_begin(rows);
    TRACE_QUERIES_STAY(first_query, tile::BR);
    if (keys.begin < keys.end) {
        tile_load<tile::BR, D, tile::THREADS>(q_tile, q_matrix, first_query, 0);
        chunk_fetch<D>(ring, k_matrix, v_matrix, keys.begin, 0);
    }

#pragma unroll 1
    for (int key = keys.begin; key < keys.end; key += BC) {
        const bool whole = band_whole(band, first_query, tile::BR, key, BC);
        float s[8][8];
        TRACE_TILE(first_query, key, BC);
        tile_clear(s);
#pragma unroll 1
        for (int n = 0; n < COUNT; n++) {
            tile_arrived(); // chunk n is there, and nobody reads the one before any more
            chunk_fetch<D>(ring, k_matrix, v_matrix, key, n + 1);
            tile_scores<D, chunks::K_WIDTH>(s, my_q + n * chunks::K_WIDTH,
                                            ring + n % 2 * chunks::FLOATS +
                                                tile_at<chunks::K_WIDTH>(8 * here.x));
        }
        const float factor = tile_scale(s, shape.scale, keys.end - key - 8 * here.x, whole);
        if (!whole) band_select(s, band, my_query, key + 8 * here.x, -INFINITY); // step 2
        tile_softmax<D>(s, factor, rows, sum_o);
        tile_write_weights<BC>(my_p + 8 * here.x, s);
#pragma unroll 1
        for (int n = 0; n < COUNT; n++) {
            tile_arrived(); // as above; and the warp's weights are written
            chunk_fetch<D>(ring, k_matrix, v_matrix, key, COUNT + n + 1);
            const float *v_tile = ring + (COUNT + n) % 2 * chunks::FLOATS;
            const float *weights = my_p + n * chunks::V_KEYS;
            const int first_key = key + n * chunks::V_KEYS;
            if (!whole && tile_would_leak<chunks::V_KEYS, D>(v_tile)) // step 3
                tile_values_seen<BC, chunks::V_KEYS, D, D / 2>(sum_o, weights, v_tile + 4 * here.x,
                                                               [&](int i, int j, float) {
                                                                   return band_sees(band,
                                                                                    my_query + i,
                                                                                    first_key + j);
                                                               });
            else
                tile_values<BC, chunks::V_KEYS, D, D / 2>(sum_o, weights, v_tile + 4 * here.x);
        }
        TRACE_DONE(s, BC, rows.l, sum_o, D);
        // The next tile's weights are written after its first tile_arrived(): these have been read.
    }

    unsigned seeing = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (attn_first_key(band, my_query + i) < attn_end_key(band, my_query + i))
            seeing |= 1u << i;
    tile_finish<D>(o + q_head, lse + head * band.q_len, sum_o, rows, my_query, here.x, band.q_len,
                   seeing, shape.d, shape.d, shape.vectors);
}

template <int D> static attn_status launch(const attn_problem *p, const attn_tensors *t) {
    const masked_shape shape =
        masked_shape_of(p, (uint64_t)(p->batch * p->heads), q_outer_query_tiles(p),
                        tile_vectors(p->head_dim, t->q, t->k, t->v, t->o));
    const uint64_t blocks = shape.heads * q_outer_query_tiles(p);
    return GPU_LAUNCH((masked_forward<D>), (unsigned)blocks, tile_shape<D>::THREADS,
                      chunk_shared_bytes<D>(), (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, (float *)t->o, t->lse, shape);
}

attn_status masked_forward_pass(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    if (!masked_has_mask(p)) return q_outer_forward(p, t, buffer); // chapter 3, as it stands
    if (attn_rows(p) == 0) return attn_ok();
    switch (q_outer_compiled_dim(p)) {
    case 32:
        return launch<32>(p, t);
    case 64:
        return launch<64>(p, t);
    case 128:
        return launch<128>(p, t);
    default:
        return launch<256>(p, t);
    }
}
