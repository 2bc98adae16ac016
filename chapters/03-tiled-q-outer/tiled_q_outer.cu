// tiled_q_outer.cu -- chapter 3's fast kernel: Q outer, KV inner. This course calls it v1; it is the loop
// order of FlashAttention-2 (2307.08691, Algorithm 1), while FlashAttention's first paper has KV outer.
//
//   for each tile of Br queries, a block:         Q_i to shared memory; m, l, O in registers
//       for each tile of Bc keys:
//           S = scale Q_i K_j^T                   in registers
//           m, l, P = online softmax of S         O is rescaled
//           O += P V_j
//       O / l and L = m + log l are written       once
//
// The same loops as tiled_q_outer_plain.cu. What is fast is in tile.cuh and in chunks.cuh: K and V come in
// chunks through two slots. While one is multiplied the next is copied; there is one barrier a chunk.
//
// Grid: batch * heads * ceil(q_len / Br) blocks, 1-D. Block: 128 threads. Shared memory: 96 KB and some
// gaps (72 KB at D = 32), whatever D is: Br * D + Br * Bc + 2 chunks.
// Device bytes, a head, Tr = ceil(q_len / Br), Br = 8192 / D:
//   read     4 * (q_len*d + 2*kv_len*d*Tr)         written   4 * (q_len*d + q_len)
#include "chapters/03-tiled-q-outer/chunks.cuh"
#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"

typedef struct q_outer_shape {
    int q_len, kv_len, d, group; // query head h reads key head h / group
    float scale;
    bool vectors;
} q_outer_shape;

// q, o [B][H][q_len][d]; k, v [B][kv_heads][kv_len][d]; lse [B][H][q_len].
template <int D>
__global__ void __launch_bounds__(tile_shape<D>::THREADS, 2)
    q_outer(const float *q, const float *k, const float *v, float *o, float *lse,
            q_outer_shape shape) {
    typedef tile_shape<D> tile;
    typedef tile_chunks<D> chunks;
    enum { BC = tile::BC, COUNT = chunks::COUNT };
    GPU_DYNAMIC_SHARED(float, shared);
    float *q_tile = shared, *p_tile = q_tile + tile_at<D>(tile::BR);
    float *ring = p_tile + tile_at<BC>(tile::BR);

    const unsigned tiles = (shape.q_len + tile::BR - 1) / tile::BR;
    const size_t head = blockIdx.x / tiles, kv_head = head / shape.group;
    const int first_query = (int)(blockIdx.x % tiles) * tile::BR;
    const size_t q_head = head * shape.q_len * shape.d, k_head = kv_head * shape.kv_len * shape.d;
    const tile_matrix q_matrix = {q + q_head, shape.q_len, shape.d, shape.vectors};
    const tile_matrix k_matrix = {k + k_head, shape.kv_len, shape.d, shape.vectors};
    const tile_matrix v_matrix = {v + k_head, shape.kv_len, shape.d, shape.vectors};

    const tile_thread here = tile_thread_here<D>();
    const float *my_q = q_tile + tile_at<D>(here.query);
    float *my_p = p_tile + tile_at<BC>(here.query);

    float sum_o[8][8];
    tile_rows rows;
    tile_clear(sum_o);
    tile_rows_begin(rows);
    tile_load<tile::BR, D, tile::THREADS>(q_tile, q_matrix, first_query, 0);
    chunk_fetch<D>(ring, k_matrix, v_matrix, 0, 0);

#pragma unroll 1
    for (int key = 0; key < shape.kv_len; key += BC) {
        float s[8][8];
        tile_clear(s);
#pragma unroll 1
        for (int n = 0; n < COUNT; n++) {
            tile_arrived(); // chunk n is there, and nobody reads the one before any more
            chunk_fetch<D>(ring, k_matrix, v_matrix, key, n + 1);
            tile_scores<D, chunks::K_WIDTH>(s, my_q + n * chunks::K_WIDTH,
                                            ring + n % 2 * chunks::FLOATS +
                                                tile_at<chunks::K_WIDTH>(8 * here.x));
        }
        const int keys = shape.kv_len - key;
        const float factor = tile_scale(s, shape.scale, keys - 8 * here.x, keys >= BC);
        tile_softmax<D>(s, factor, rows, sum_o);
        tile_write_weights<BC>(my_p + 8 * here.x, s);
#pragma unroll 1
        for (int n = 0; n < COUNT; n++) {
            tile_arrived(); // as above; and the warp's weights are written
            chunk_fetch<D>(ring, k_matrix, v_matrix, key, COUNT + n + 1);
            tile_values<BC, chunks::V_KEYS, D, D / 2>(sum_o, my_p + n * chunks::V_KEYS,
                                                      ring + (COUNT + n) % 2 * chunks::FLOATS +
                                                          4 * here.x);
        }
        // The next tile's weights are written after its first tile_arrived(): these have been read.
    }
    if (shape.kv_len == 0) cp_async_wait<0>(); // nobody waited for Q
    tile_finish<D>(o + q_head, lse + head * shape.q_len, sum_o, rows, first_query + here.query,
                   here.x, shape.q_len, shape.kv_len > 0 ? 0xff : 0, shape.d, shape.d,
                   shape.vectors);
}

// ---- what it can do, and what it moves ----
attn_status q_outer_supports(const attn_problem *p) {
    ATTN_TRY(q_outer_fits(p, "q-outer", q_outer_query_tiles(p)));
    return q_outer_shared_fits(p, "q-outer", q_outer_shared_bytes(p, ATTN_FORWARD));
}

void q_outer_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) q_outer_add_bytes(p, q_outer_query_tiles(p), traffic);
}

uint64_t q_outer_shared_bytes(const attn_problem *p, attn_pass pass) {
    (void)pass;
    switch (q_outer_compiled_dim(p)) {
    case 32:
        return chunk_shared_bytes<32>();
    case 64:
        return chunk_shared_bytes<64>();
    case 128:
        return chunk_shared_bytes<128>();
    default:
        return chunk_shared_bytes<256>();
    }
}

template <int D> static attn_status launch(const attn_problem *p, const attn_tensors *t) {
    const q_outer_shape shape = {
        (int)p->q_len,    (int)p->kv_len,
        (int)p->head_dim, (int)(p->heads / p->kv_heads),
        p->scale,         tile_vectors(p->head_dim, t->q, t->k, t->v, t->o),
    };
    const uint64_t blocks = (uint64_t)(p->batch * p->heads) * q_outer_query_tiles(p);
    return GPU_LAUNCH((q_outer<D>), blocks, tile_shape<D>::THREADS, chunk_shared_bytes<D>(),
                      (const float *)t->q, (const float *)t->k, (const float *)t->v, (float *)t->o,
                      t->lse, shape);
}

attn_status q_outer_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    (void)buffer; // needs none
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
