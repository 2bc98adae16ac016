// rows.c -- what chapter 5 exports for the CPU: the backward pass by recomputation, in two forms.
#include "chapters/05-backward/stages.h"
#include "chapters/05-backward/title.h"

static int recompute_buffers(const attn_problem *p, attn_pass pass,
                             attn_buffer need[ATTN_MAX_BUFFERS]) {
    if (pass == ATTN_FORWARD) return tiled_buffers(p, pass, need);
    need[0] = (attn_buffer){.name = "d", .bytes = 4 * (uint64_t)attn_rows(p)};
    return 1;
}

static void recompute_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) {
        tiled_bytes(p, pass, traffic);
        return;
    }
    const int bc = recompute_tile_keys(p);
    const uint64_t dq = 4 * attn_q_elements(p);
    const uint64_t passing_by = (uint64_t)(p->batch * p->heads) * totals_of_tiles(p, bc).queries *
                                4 * (uint64_t)p->head_dim;
    backward_model(p, bc, traffic);
    attn_traffic_add(traffic, "dq", passing_by, dq + passing_by);
}

static double recompute_flops(const attn_problem *p, attn_pass pass) {
    const double forward = tiled_flops(p, pass); // two products
    return pass == ATTN_FORWARD ? forward : forward / 2 * 5;
}

static int simd_stage_buffers(const attn_problem *p, attn_pass pass,
                              attn_buffer need[ATTN_MAX_BUFFERS]) {
    return pass == ATTN_FORWARD ? simd_buffers(p, pass, need)
                                : recompute_simd_backward_buffers(p, need);
}

static void simd_stage_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD)
        simd_bytes(p, pass, traffic);
    else
        recompute_simd_backward_bytes(p, traffic);
}

static double simd_stage_flops(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? simd_flops(p, pass) : recompute_simd_backward_flops(p);
}

static const attn_stage stages[] = {
    {
        .name = "recompute",
        .idea = "O and L are kept, P is computed again from L, pair by pair",
        .features =
            ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS | ATTN_HAS_TILE_SIZES,
        .tiles = "BR and BC: any, 64 by default",
        .buffers = recompute_buffers,
        .forward = tiled_forward,
        .backward = recompute_backward,
        .bytes = recompute_bytes,
        .flops = recompute_flops,
    },
    {
        .name = "recompute-simd",
        .idea = "the same with SIMD, keys in the lanes, and OpenMP without atomics",
        .features = 2 * ATTN_LAST_FEATURE - 1, // all
        .tiles = "BR and BC: 1 to the lanes of a register block (32 with AVX-512)",
        .supports = recompute_simd_supports,
        .buffers = simd_stage_buffers,
        .forward = simd_forward,
        .backward = recompute_simd_backward,
        .bytes = simd_stage_bytes,
        .flops = simd_stage_flops,
    },
};

ATTN_MODULE(5, CHAPTER_TITLE, CHAPTER_PREDICT, attn_host_device(), stages)
