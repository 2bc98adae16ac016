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
static inline int q_outer_br(const attn_problem *p) {
    return 8192 / q_outer_compiled_dim(p);
}
static inline uint64_t q_outer_query_tiles(const attn_problem *p) {
    const uint64_t br = (uint64_t)q_outer_br(p);
    return ((uint64_t)p->q_len + br - 1) / br;
}
uint64_t q_outer_shared_bytes(const attn_problem *p, attn_pass pass); // has the forward pass alone
attn_status q_outer_supports(const attn_problem *p);
void q_outer_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic);

// What a kernel with a block for each of so many tiles of queries can do, and what it moves.
static inline attn_status q_outer_fits(const attn_problem *p, const char *stage,
                                       uint64_t query_tiles) {
    const uint64_t blocks = (uint64_t)(p->batch * p->heads) * query_tiles;
    if (p->head_dim > 256)
        return attn_error(ATTN_UNSUPPORTED,
                          "%s: head_dim is %lld; it is compiled for at most 256 (naive does any)",
                          stage, (long long)p->head_dim);
    if (blocks > INT32_MAX)
        return attn_error(
            ATTN_UNSUPPORTED,
            "%s: %llu tiles of queries in all heads, and a grid has at most %d blocks", stage,
            (unsigned long long)blocks, INT32_MAX);
    return attn_ok();
}

// Fixed tiles and the shared memory that a GPU gives a block. A CUDA module without a GPU knows of none (0)
// and refuses nothing for that.
static inline attn_status q_outer_shared_fits(const attn_problem *p, const char *stage,
                                              uint64_t needs) {
    const uint64_t gives = gpu_shared_bytes();
    if (gives > 0 && needs > gives)
        return attn_error(ATTN_UNSUPPORTED,
                          "at head_dim %lld a block of %s needs %llu bytes of shared memory, and "
                          "this GPU gives it %llu",
                          (long long)p->head_dim, stage, (unsigned long long)needs,
                          (unsigned long long)gives);
    return attn_ok();
}

// Q is read once; K and V once for each tile of queries; O and L are written once.
static inline void q_outer_add_bytes(const attn_problem *p, uint64_t query_tiles,
                                     attn_traffic *traffic) {
    const uint64_t heads = (uint64_t)(p->batch * p->heads);
    const uint64_t kv = 4 * heads * (uint64_t)p->kv_len * (uint64_t)p->head_dim * query_tiles;
    attn_traffic_add(traffic, "q", 4 * attn_q_elements(p), 0);
    attn_traffic_add(traffic, "k", kv, 0);
    attn_traffic_add(traffic, "v", kv, 0);
    attn_traffic_add(traffic, "o", 0, 4 * attn_q_elements(p));
    attn_traffic_add(traffic, "lse", 0, 4 * attn_rows(p));
}

// The plain kernel: tiles as asked for, else 64 x 64, or 32 x 32 where d is large; and what they need.
static inline int q_outer_plain_tile(const attn_problem *p, int64_t asked) {
    return asked > 0 ? (int)asked : p->head_dim <= 128 ? 64 : 32;
}
uint64_t q_outer_plain_shared_bytes(const attn_problem *p);

#endif
