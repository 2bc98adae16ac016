// rows.c -- what make trace2 traces: forms (a) and (b), compiled with their hooks (cpu/trace/hooks.h).
#include "chapters/02-online-softmax/online.c"
#include "chapters/02-online-softmax/online_tiled.c"
#include "cpu/trace/trace.h"

static attn_status is_small(const attn_problem *p) {
    return trace_supports(p, TRACE_MOST_KEYS);
}

static attn_status traced_online(const attn_problem *p, const attn_tensors *t,
                                 void *const *buffer) {
    trace_begin(p, 1, NULL);
    const attn_status status = online_forward(p, t, buffer);
    trace_end(NULL);
    return status;
}

static attn_status traced_tiled(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    trace_begin(p, 1, NULL);
    const attn_status status = tiled_forward(p, t, buffer);
    trace_end(NULL);
    return status;
}

static const attn_stage stages[] = {
    {
        .name = "online",
        .idea = "one pass over the keys, with a running maximum, sum and output",
        .features = ATTN_HAS_TILE_SIZES, // which it passes over: the next stage has them
        .supports = is_small,
        .forward = traced_online,
        .bytes = online_bytes,
        .flops = online_flops,
    },
    {
        .name = "online-tiled",
        .idea = "tiles of queries share each tile of keys",
        .features = ATTN_HAS_TILE_SIZES,
        .tiles = "BR: any, BC: up to 8",
        .supports = is_small,
        .buffers = tiled_buffers,
        .forward = traced_tiled,
        .bytes = tiled_bytes,
        .flops = tiled_flops,
    },
};

ATTN_MODULE(2, "Online softmax",
            "make trace2 QLEN=10 KVLEN=12 BR=8 BC=8   (the steps of make trace3)",
            attn_host_device(), stages)
