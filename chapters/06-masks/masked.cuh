// masked.cuh -- what chapter 6's kernels share with each other and with their row in the stage table.
#ifndef MASKED_CUH
#define MASKED_CUH

#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"
#include "chapters/05-backward/backward.cuh"
#include "chapters/06-masks/band.cuh"

typedef struct masked_shape {
    attn_band band;    // q_len, kv_len, and which keys a query sees
    int d, group;      // query head h reads key head h / group
    unsigned heads;    // batch * query heads
    unsigned together; // heads whose blocks are mixed, below
    float scale;
    bool vectors;
} masked_shape;

// ---- the order of the blocks ----
// Under a causal mask blocks are of unequal length, up to twice the mean, and a GPU starts them in the order
// of their numbers. If the last one to start is a long one, everybody waits for it. So the long ones come
// first, the short ones fill the gaps at the end; and this not head by head, for then the last head's long
// ones would still start late, but over several heads together. Not over all of them: the blocks under way
// should share few heads' K and V, which then stay in the L2. Three times as many blocks as the GPU runs at
// once are enough heads to mix.
typedef struct masked_block {
    unsigned head, rank; // rank 0: the longest of its head
} masked_block;

static __device__ inline masked_block masked_block_here(unsigned together, unsigned heads,
                                                        unsigned tiles) {
    const unsigned first = blockIdx.x / (together * tiles) * together;
    const unsigned mixed = min(together, heads - first); // the last heads may be fewer
    const unsigned n = blockIdx.x - first * tiles;
    return {first + n % mixed, n / mixed};
}

// How many heads to mix. heads, tiles: of the grid, of which a GPU runs at most two blocks a multiprocessor
// at a time.
static inline unsigned masked_heads_together(uint64_t heads, uint64_t tiles) {
    const uint64_t enough = 3 * 2 * (uint64_t)gpu_multiprocessors();
    const uint64_t mixes =
        tiles * heads / (enough + tiles) + 1; // of equal size, as nearly as may be
    return (unsigned)((heads + mixes - 1) / mixes);
}

static inline masked_shape masked_shape_of(const attn_problem *p, uint64_t heads, uint64_t tiles,
                                           bool vectors) {
    const masked_shape shape = {
        attn_band_of(p),
        (int)p->head_dim,
        (int)(p->heads / p->kv_heads),
        (unsigned)(p->batch * p->heads),
        masked_heads_together(heads, tiles),
        p->scale,
        vectors,
    };
    return shape;
}

// Without one, the kernels of chapters 3 and 5 run: what is off costs nothing.
static inline bool masked_has_mask(const attn_problem *p) {
    return p->causal || p->window_left || p->window_right;
}

attn_status masked_forward_pass(const attn_problem *p, const attn_tensors *t, void *const *buffer);

attn_status masked_backward_pass(const attn_problem *p, const attn_tensors *t, void *const *buffer);
void masked_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic);
double masked_flops(const attn_problem *p, attn_pass pass);

// dK, dV, and dQ by atomic additions to what is there; row_sum: D of chapter 5.
attn_status masked_backward_kv(const attn_problem *p, const attn_tensors *t, const float *row_sum);

#endif
