// tiled_q_outer.cuh -- what chapter 3's two kernels share with their rows in the stage table.
#ifndef TILED_Q_OUTER_CUH
#define TILED_Q_OUTER_CUH

#include "chapters/03-tiled-q-outer/tile.cuh"
#include "cpu/stage.h"

attn_status q_outer_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer);
attn_status q_outer_plain_forward(const attn_problem *p, const attn_tensors *t,
                                  void *const *buffer);

// The fast kernel: the head dimension it runs in, and its tiles of Br = 8192 / that queries.
static inline int q_outer_compiled_dim(const attn_problem *p) {
    return p->head_dim <= 32 ? 32 : p->head_dim <= 64 ? 64 : p->head_dim <= 128 ? 128 : 256;
}
static inline uint64_t q_outer_query_tiles(const attn_problem *p) {
    const uint64_t br = 8192 / q_outer_compiled_dim(p);
    return ((uint64_t)p->q_len + br - 1) / br;
}
uint64_t q_outer_shared_bytes(const attn_problem *p);
attn_status q_outer_supports(const attn_problem *p);
void q_outer_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic);

// Both stages: what a kernel with a block for each of so many tiles of queries can do, and what it moves.
attn_status q_outer_fits(const attn_problem *p, const char *stage, uint64_t query_tiles);
void q_outer_add_bytes(const attn_problem *p, uint64_t query_tiles, attn_traffic *traffic);

// The plain kernel: tiles as asked for, else 64 x 64, or 32 x 32 where d is large; and what they need.
static inline int q_outer_plain_tile(const attn_problem *p, int64_t asked) {
    return asked > 0 ? (int)asked : p->head_dim <= 128 ? 64 : 32;
}
uint64_t q_outer_plain_shared_bytes(const attn_problem *p);

#endif
