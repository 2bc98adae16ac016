// tiled_kv_outer.cuh -- how chapter 4 cuts a problem, and what its kernels share with their rows in the
// stage table.
#ifndef TILED_KV_OUTER_CUH
#define TILED_KV_OUTER_CUH

#include "chapters/04-tiled-kv-outer/kv_tile.cuh"
#include "cpu/stage.h"

// kv-outer and kv-grid are one kernel: the former has one slice.
attn_status kv_outer_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer);
attn_status kv_grid_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer);
attn_status kv_split_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer);

// How a problem is cut: by the problem and, for kv-grid and kv-split, by the GPU's multiprocessors or by
// the keys a slice that were asked for (bc).
typedef enum kv_order { KV_OUTER, KV_GRID, KV_SPLIT } kv_order;
typedef struct kv_plan {
    int dim;              // the head dimension that is compiled for it
    uint64_t heads, rows; // heads of K and V, rows of Q that read one of them
    uint64_t query_tiles, key_tiles, slices, slice_tiles; // as in kv_shape
    uint64_t blocks;
} kv_plan;
kv_plan kv_plan_of(const attn_problem *p, kv_order order);
kv_shape kv_shape_of(const attn_problem *p, const kv_plan *plan, const attn_tensors *t,
                     const void *o);
int kv_tile_keys(int dim);              // Bc
uint64_t kv_tile_shared_bytes(int dim); // what a block of each of the kernels has

// The slices' results become one (merge.cu).
//   o_part [slices][rows][d], lse_part [slices][rows]; o [rows][d], lse [rows]; rows: of all heads
attn_status kv_merge(const float *o_part, const float *lse_part, float *o, float *lse, size_t rows,
                     int slices, int d);

#endif
