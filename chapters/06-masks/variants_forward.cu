// variants_forward.cu -- the masked kernel, for rows that lie anywhere, with steps between product and softmax.
//
//   the block's member or sequence, its lengths and its band                       places.cuh
//   for each tile of Br queries, a block:         Q_i to shared memory; m, l, O in registers
//       for each tile of Bc keys that one of them sees:
//           S = scale Q_i K_j^T, softcap, + bias, - ALiBi                          score_steps.cuh
//           -infinity where a query does not see a key: by the band, by a byte
//           m, l, P = online softmax of S
//           P = 0 or P / (1 - p): dropout; l has been summed, so L knows nothing of it
//           O += P V_j, leaving out what must not leak                             leaks.cuh
//       O / l and L = m + log l are written; O = 0 for a row that has seen no key
//
// The loops, the copies and the products are masked_forward.cu's, the order of the blocks as well. A problem
// of which only the rows' places differ has its bits: whole tiles take the scale into the softmax, as there.
//
// Grid: heads * the tiles of the longest member. Block, shared memory: as in tiled_q_outer.cu, and the block's
// place.
// Device bytes, a head of a member; keys(t): how many keys the queries of tile t see together (with dropout,
// and 0 to 3 before the first); only tiles with keys(t) > 0 read their queries; pairs: how many see each
// other, by the band:
//   read     4 * sum over t (queries of t * d + 2 * keys(t) * d)  + 4 * pairs (bias)  + pairs (mask)
//            + 16 a block (cumulative lengths)                       written   4 * (q_len*d + q_len)
#include "chapters/03-tiled-q-outer/chunks.cuh"
#include "chapters/06-masks/leaks.cuh"
#include "chapters/06-masks/score_steps.cuh"

// Which of the thread's 8 rows see one of its 8 keys: a bit each.
static __device__ __forceinline__ unsigned rows_seeing(uint64_t seen) {
    unsigned rows = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (seen >> 8 * i & 0xff) rows |= 1u << i;
    return rows;
}

// The bits of all lanes that share the thread's rows.
template <int D> __device__ __forceinline__ unsigned any_of_row(unsigned bits) {
    const int first = tile_shape<D>::Y == 1 ? 1 : 2; // as tile_row_max
#pragma unroll
    for (int w = first; w < first * tile_shape<D>::X; w *= 2)
        bits |= __shfl_xor_sync(0xffffffffu, bits, w);
    return bits;
}

// q, k, v, o: strides in shape; lse [B][H][q_len].
template <int D>
__global__ void __launch_bounds__(tile_shape<D>::THREADS, 2)
    variants(const float *q, const float *k, const float *v, float *o, float *lse,
             variant_shape shape) {
    typedef tile_shape<D> tile;
    typedef tile_chunks<D> chunks;
    enum { BC = tile::BC, COUNT = chunks::COUNT };
    GPU_DYNAMIC_SHARED(float, shared);
    float *q_tile = shared, *p_tile = q_tile + tile_at<D>(tile::BR);
    float *ring = p_tile + tile_at<BC>(tile::BR);

    const masked_block block = masked_block_here(shape.together, shape.heads_in_all, shape.tiles);
    const unsigned member = block.head / shape.heads, head = block.head % shape.heads;
    const variant_place &place = variant_place_of(shape, member, head / shape.group);
    const int first_query = (int)(shape.tiles - 1 - block.rank) * tile::BR;
    if (first_query >= place.band.q_len) return; // the whole block: a shorter sequence

    band_range keys =
        band_keys(place.band, first_query, min(first_query + tile::BR, place.band.q_len));
    if (shape.drops) keys.begin -= keys.begin % 4; // a call of Philox serves four keys side by side
    const attn_layout &stride = shape.stride;
    const auto fetch = [&](int key, int n) { // as chunk_fetch
        const tile_matrix k_matrix = {k + place.k_at, keys.end, shape.d, shape.vectors,
                                      (int)stride.k.row};
        const tile_matrix v_matrix = {v + place.v_at, keys.end, shape.d, shape.vectors,
                                      (int)stride.v.row};
        chunk_fetch<D>(ring, k_matrix, v_matrix, key, n);
    };

    const tile_thread here = tile_thread_here<D>();
    const int my_query = first_query + here.query;
    const float *my_q = q_tile + tile_at<D>(here.query);
    float *my_p = p_tile + tile_at<BC>(here.query);

    float sum_o[8][8];
    tile_rows rows;
    unsigned seeing = 0;
    tile_clear(sum_o);
    tile_rows_begin(rows);
    if (keys.begin < keys.end) {
        const tile_matrix q_matrix = {q + variant_q_at(stride.q, place, head), place.band.q_len,
                                      shape.d, shape.vectors, (int)stride.q.row};
        tile_load<tile::BR, D, tile::THREADS>(q_tile, q_matrix, first_query, 0);
        fetch(keys.begin, 0);
    }

#pragma unroll 1
    for (int key = keys.begin; key < keys.end; key += BC) {
        const int my_key = key + 8 * here.x;
        float s[8][8];
        tile_clear(s);
#pragma unroll 1
        for (int n = 0; n < COUNT; n++) {
            tile_arrived(); // chunk n is there, and nobody reads the one before any more
            fetch(key, n + 1);
            tile_scores<D, chunks::K_WIDTH>(s, my_q + n * chunks::K_WIDTH,
                                            ring + n % 2 * chunks::FLOATS +
                                                tile_at<chunks::K_WIDTH>(8 * here.x));
        }
        const attn_band band = place.band;
        const score_steps steps = score_steps_of(shape, place, head);
        const bool stepped = score_steps_any(steps);
        const bool in_band = band_whole(band, first_query, tile::BR, key, BC);
        // Without a band rows that do not exist hide nothing, as in chapter 3.
        const bool whole = (shape.banded ? in_band : key + BC <= keys.end) && !steps.mask;
        const float factor = tile_scale(s, shape.scale, keys.end - my_key, whole && !stepped);
        if (stepped) score_steps_apply(s, steps, band, my_query, my_key, in_band);
        uint64_t seen = ~(uint64_t)0;
        if (!whole) {
            seen = pairs_seen<8>(steps, band, my_query, my_key);
            pairs_select(s, seen, -INFINITY);
        }
        seeing |= rows_seeing(seen);
        tile_softmax<D>(s, factor, rows, sum_o);
        if (shape.drops) dropout_step(s, pairs_kept<8>(steps, my_query, my_key), steps.drop.factor);
        if (!whole) pairs_select(s, seen, MASKED);
        tile_write_weights<BC>(my_p + 8 * here.x, s);
#pragma unroll 1
        for (int n = 0; n < COUNT; n++) {
            tile_arrived(); // as above; and the warp's weights are written
            fetch(key, COUNT + n + 1);
            const float *v_tile = ring + (COUNT + n) % 2 * chunks::FLOATS;
            const float *weights = my_p + n * chunks::V_KEYS;
            if (!whole && tile_would_leak<chunks::V_KEYS, D>(v_tile))
                tile_values_seen<BC, chunks::V_KEYS, D, D / 2>(sum_o, weights, v_tile + 4 * here.x,
                                                               [](int, int, float weight) {
                                                                   return !is_masked(weight);
                                                               });
            else
                tile_values<BC, chunks::V_KEYS, D, D / 2>(sum_o, weights, v_tile + 4 * here.x);
        }
        // The next tile's weights are written after its first tile_arrived(): these have been read.
    }

    tile_finish<D>(o + variant_q_at(stride.o, place, head),
                   lse + variant_row_at(shape, place, head), sum_o, rows, my_query, here.x,
                   place.band.q_len, any_of_row<D>(seeing), shape.d, (int)stride.o.row,
                   shape.vectors);
}

template <int D> static attn_status launch(const attn_problem *p, const attn_tensors *t) {
    const variant_shape shape =
        variant_shape_of(p, t, (unsigned)p->heads, variant_query_tiles(p, tile_shape<D>::BR));
    const uint64_t blocks = (uint64_t)shape.heads_in_all * shape.tiles;
    if (blocks == 0) return attn_ok();
    return GPU_LAUNCH((variants<D>), (unsigned)blocks, tile_shape<D>::THREADS,
                      chunk_shared_bytes<D>(), (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, (float *)t->o, t->lse, shape);
}

attn_status variants_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    if (!has_variants(p)) return masked_forward_pass(p, t, buffer);
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
