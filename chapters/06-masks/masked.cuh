// masked.cuh -- what chapter 6's kernels share with each other and with their row in the stage table.
#ifndef MASKED_CUH
#define MASKED_CUH

#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"
#include "chapters/05-backward/backward.cuh"
#include "chapters/06-masks/band.cuh"

typedef struct masked_shape {
    attn_band band; // q_len, kv_len, and which keys a query sees
    int d, group;   // query head h reads key head h / group
    float scale;
    bool vectors;
} masked_shape;

static inline masked_shape masked_shape_of(const attn_problem *p, bool vectors) {
    const masked_shape shape = {attn_band_of(p), (int)p->head_dim, (int)(p->heads / p->kv_heads),
                                p->scale, vectors};
    return shape;
}

attn_status masked_forward_pass(const attn_problem *p, const attn_tensors *t, void *const *buffer);

// dK, dV, and dQ by atomic additions to what is there; row_sum: D of chapter 5.
attn_status masked_backward_kv(const attn_problem *p, const attn_tensors *t, const float *row_sum);

#endif
