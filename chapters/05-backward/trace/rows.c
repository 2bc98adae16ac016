// rows.c -- what make trace5 traces: the backward pass in plain form, compiled with its hooks.
#include "chapters/05-backward/recompute.c"
#include "chapters/05-backward/row_sums.c"
#include "cpu/trace/trace.h"

static attn_status is_small(const attn_problem *p) {
    return trace_supports(p, 3); // four matrices of a tile stand beside each other
}

static int buffers(const attn_problem *p, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]) {
    if (pass == ATTN_FORWARD) return tiled_buffers(p, pass, need);
    need[0] = (attn_buffer){.name = "d", .bytes = 4 * (uint64_t)attn_rows(p)};
    return 1;
}

static attn_status traced(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    trace_begin(p, 1, NULL);
    const attn_status status = recompute_backward(p, t, buffer);
    trace_end(NULL);
    return status;
}

static const attn_stage stages[] = {
    {
        .name = "recompute",
        .idea = "O and L are kept, P is computed again from L, pair by pair",
        .features = ATTN_HAS_TILE_SIZES,
        .tiles = "BR: any, BC: up to 3",
        .supports = is_small,
        .buffers = buffers,
        .forward = tiled_forward,
        .backward = traced,
        .bytes = tiled_bytes, // the host counts none
        .flops = tiled_flops,
    },
};

ATTN_MODULE(5, "Backward by recomputation",
            "make trace5 BR=4 BC=3   (fewer tiles, the same gradients)", attn_host_device(), stages)
