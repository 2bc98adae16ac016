// plan.cu -- how chapter 4 cuts a problem into blocks; and how many slices of the keys are enough.
//
// More slices mean more blocks, and a GPU's multiprocessors run two of these blocks each at a time. So
// there are as many slices as make the blocks fill the GPU once, and none where heads or queries do so
// already: each slice costs a partial O, written and read again.
#include "chapters/04-tiled-kv-outer/tiled_kv_outer.cuh"

// kv-grid's partial outputs are slices times O. Beyond this, extra memory would be out of proportion.
enum { MOST_GRID_SLICES = 64, BLOCKS_AT_A_TIME = 2 };

static uint64_t tiles_of(uint64_t length, uint64_t tile) {
    return (length + tile - 1) / tile;
}

int kv_tile_keys(int dim) {
    return dim < 8192 / dim ? dim : 8192 / dim;
}

uint64_t kv_tile_shared_bytes(int dim) {
    switch (dim) {
    case 32:
        return sizeof(float) * kv_tile<32>::FLOATS;
    case 64:
        return sizeof(float) * kv_tile<64>::FLOATS;
    case 128:
        return sizeof(float) * kv_tile<128>::FLOATS;
    default:
        return sizeof(float) * kv_tile<256>::FLOATS;
    }
}

kv_plan kv_plan_of(const attn_problem *p, kv_order order) {
    kv_plan plan;
    const int64_t d = p->head_dim;
    plan.dim = d <= 32 ? 32 : d <= 64 ? 64 : d <= 128 ? 128 : 256;
    plan.heads = (uint64_t)(p->batch * p->kv_heads);
    plan.rows = (uint64_t)(p->heads / p->kv_heads * p->q_len);
    plan.query_tiles = tiles_of(plan.rows, (uint64_t)(8192 / plan.dim));
    plan.key_tiles = tiles_of((uint64_t)p->kv_len, (uint64_t)kv_tile_keys(plan.dim));
    if (plan.key_tiles == 0) plan.key_tiles = 1;

    const uint64_t blocks_a_slice = plan.heads * (order == KV_SPLIT ? plan.query_tiles : 1);
    const uint64_t slots = BLOCKS_AT_A_TIME * (uint64_t)gpu_multiprocessors();
    uint64_t slices = blocks_a_slice > 0 ? slots / blocks_a_slice : 1;
    if (order == KV_GRID && slices > MOST_GRID_SLICES) slices = MOST_GRID_SLICES;
    if (order == KV_OUTER || slices == 0) slices = 1;
    plan.slice_tiles = tiles_of(plan.key_tiles, slices);
    if (p->bc > 0 && order != KV_OUTER)
        plan.slice_tiles = tiles_of((uint64_t)p->bc, (uint64_t)kv_tile_keys(plan.dim));
    plan.slices = tiles_of(plan.key_tiles, plan.slice_tiles); // rounded up, they may be fewer
    plan.blocks = blocks_a_slice * plan.slices;
    return plan;
}

kv_shape kv_shape_of(const attn_problem *p, const kv_plan *plan, const attn_tensors *t,
                     const void *o) {
    const kv_shape shape = {
        (int)plan->rows,
        (int)p->kv_len,
        (int)p->head_dim,
        (int)plan->query_tiles,
        (int)plan->key_tiles,
        (int)plan->slices,
        (int)plan->slice_tiles,
        p->scale,
        tile_vectors(p->head_dim, t->q, t->k, t->v, o),
    };
    return shape;
}
