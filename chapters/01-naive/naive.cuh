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

// ---- the two row-wise kernels: a block a row ----
// A row is read two or three times. With a block a row few rows are in flight on the whole GPU, and what
// is read again still lies in a cache; with a warp a row there would be eight times as many.
enum { ROW_THREADS = 128, ROW_WARPS = ROW_THREADS / 32 };

// The sum of x (or the largest x) over all threads of the block, for each of them. Each of the two may be
// called once in a kernel: a second call would write of_warp while some warp still reads it.
template <bool MAXIMUM> __device__ static inline float block_combine(float x) {
    GPU_SHARED(float, of_warp, [ROW_WARPS]);
    for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, x, offset);
        x = MAXIMUM ? fmaxf(x, other) : x + other;
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    __syncthreads(); // all warps have written
    x = of_warp[0];
    for (int w = 1; w < ROW_WARPS; w++) x = MAXIMUM ? fmaxf(x, of_warp[w]) : x + of_warp[w];
    return x;
}

#endif
