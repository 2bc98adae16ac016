// naive.cuh -- what the forward and backward pass of chapter 1 on the GPU share with their row.
#ifndef NAIVE_CUH
#define NAIVE_CUH

#include "chapters/01-naive/products.cuh"
#include "cpu/stage.h"

attn_status naive_gpu_forward(const attn_problem *problem, const attn_tensors *t,
                              void *const *buffer);
attn_status naive_gpu_backward(const attn_problem *problem, const attn_tensors *t,
                               void *const *buffer);
void naive_gpu_bytes(const attn_problem *problem, attn_pass pass, attn_traffic *traffic);

static inline naive_shape naive_shape_of(const attn_problem *p) {
    naive_shape shape = {attn_band_of(p), (int)p->head_dim, (int)(p->heads / p->kv_heads)};
    return shape;
}

// Output columns a block: all of a head up to 128, so that P is read once there.
static inline int naive_columns(const attn_problem *p) {
    return p->head_dim <= 64 ? 64 : 128;
}
static inline uint64_t naive_column_tiles(const attn_problem *p) {
    return ((uint64_t)p->head_dim + naive_columns(p) - 1) / naive_columns(p);
}
static inline uint64_t naive_tiles(int64_t length) {
    return ((uint64_t)length + TILE - 1) / TILE;
}

// The two row-wise kernels: a warp a row.
enum { ROW_WARPS = 8 };

#endif
