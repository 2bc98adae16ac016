// kv_split.cu -- few queries, many keys: the keys are split over blocks. Inside a slice the order is
// chapter 3's, Q outer, so m, l and O stay in registers; then the slices are merged (merge.cu). It is the
// shape of Flash-Decoding (PyTorch blog, 2023).
//
//   for each tile of Br queries and each slice of the keys, a block:     Q_i to shared memory
//       for each tile of Bc keys of the slice:
//           S = scale Q_i K_j^T;  m, l, P = online softmax of S;  O += P V_j
//       O / l and L = m + log l of the slice are written     once
//
// With one slice this is chapter 3's loop, and there is nothing to merge.
//
// Grid: heads * slices * ceil(N / Br) blocks, 1-D; heads are those of K and V, and N counts the rows of
// all query heads that read them: with q_len = 1 the heads of a group share a tile. Block: 128 threads.
// Shared memory: kv_tile.cuh.
// Device bytes, a head, Tr = ceil(N / Br), S slices:
//   read     4 * (S*N*d + 2*kv_len*d*Tr)                       merge, if S > 1:  4 * S*(N*d + N)
//   written  4 * S*(N*d + N)                                                     4 * (N*d + N)
#include "chapters/04-tiled-kv-outer/tiled_kv_outer.cuh"

// q [heads][rows][d]; k, v [heads][kv_len][d]; o [slices][heads][rows][d]; lse [slices][heads][rows].
template <int D>
__global__ void __launch_bounds__(tile_shape<D>::THREADS, 2)
    kv_split(const float *q, const float *k, const float *v, float *o, float *lse, kv_shape shape) {
    typedef tile_shape<D> tile;
    typedef kv_tile<D> kv;
    GPU_DYNAMIC_SHARED(float, shared);

    // Blocks that follow each other have the same slice of K and V, and different queries.
    const int first_row = (int)(blockIdx.x % shape.query_tiles) * tile::BR;
    const unsigned head_and_slice = blockIdx.x / shape.query_tiles;
    const size_t head = head_and_slice / shape.slices;
    const size_t heads = gridDim.x / shape.query_tiles / shape.slices;
    const int slice = (int)(head_and_slice % shape.slices);
    const int first_key = slice * shape.slice_tiles * kv::BC;
    const int end_key = min(first_key + shape.slice_tiles * kv::BC, shape.key_tiles * kv::BC);
    const size_t k_head = head * shape.kv_len * shape.d;
    const tile_matrix q_matrix = {q + head * shape.rows * shape.d, shape.rows, shape.d,
                                  shape.vectors};
    const tile_matrix k_matrix = {k + k_head, shape.kv_len, shape.d, shape.vectors};
    const tile_matrix v_matrix = {v + k_head, shape.kv_len, shape.d, shape.vectors};

    const tile_thread here = tile_thread_here<D>();
    const float *my_q = shared + tile_at<D>(here.query);
    float *my_p = shared + kv::P + tile_at<kv::BC>(here.query);

    float sum_o[8][8];
    tile_rows rows;
    tile_clear(sum_o);
    tile_rows_begin(rows);
    tile_load<tile::BR, D, tile::THREADS>(shared, q_matrix, first_row, 0);
    kv_load_k<D>(shared, k_matrix, first_key);

#pragma unroll 1
    for (int key = first_key; key < end_key; key += kv::BC) {
        float s[8][8];
        tile_arrived(); // K_j is there, and nobody reads the V before any more
        kv_load_v<D>(shared, v_matrix, key);
        kv_scores<D>(s, shared, my_q, here.x);
        kv_softmax<D>(s, my_p, shape.scale, shape.kv_len - key, here.x, rows, sum_o);
        tile_arrived(); // V_j is there, nobody reads K_j any more, and the weights are written
        if (key + kv::BC < end_key) kv_load_k<D>(shared, k_matrix, key + kv::BC);
        kv_values<D>(sum_o, shared, my_p, here.x);
    }

    kv_normalise<D>(sum_o, rows, shape.slices == 1 && shape.kv_len > 0);
    const size_t part = (slice * heads + head) * shape.rows;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int row = first_row + here.query + i;
        if (row >= shape.rows) continue;
        tile_store_row<D / 2>(o + (part + row) * shape.d, sum_o[i], 4 * here.x, shape.d,
                              shape.vectors);
        if (here.x == 0) hbm_store(&lse[part + row], kv_lse(rows, i));
    }
}

template <int D>
static attn_status launch(const attn_problem *p, const attn_tensors *t, const kv_plan *plan,
                          float *o, float *lse) {
    return GPU_LAUNCH((kv_split<D>), plan->blocks, tile_shape<D>::THREADS,
                      kv_tile<D>::FLOATS * sizeof(float), (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, o, lse, kv_shape_of(p, plan, t, o));
}

static attn_status forward(const attn_problem *p, const attn_tensors *t, const kv_plan *plan,
                           float *o, float *lse) {
    switch (plan->dim) {
    case 32:
        return launch<32>(p, t, plan, o, lse);
    case 64:
        return launch<64>(p, t, plan, o, lse);
    case 128:
        return launch<128>(p, t, plan, o, lse);
    default:
        return launch<256>(p, t, plan, o, lse);
    }
}

// buffer: partial O, partial L (rows.cu)
attn_status kv_split_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    if (attn_rows(p) == 0) return attn_ok();
    const kv_plan plan = kv_plan_of(p, KV_SPLIT);
    if (plan.slices == 1) return forward(p, t, &plan, (float *)t->o, t->lse);
    float *o_part = (float *)buffer[0], *lse_part = (float *)buffer[1];
    ATTN_TRY(forward(p, t, &plan, o_part, lse_part));
    return kv_merge(o_part, lse_part, (float *)t->o, t->lse, attn_rows(p), (int)plan.slices,
                    (int)p->head_dim);
}
