// rows.c -- what chapter 2 exports: three forms of online softmax, all on the CPU.
#include "chapters/02-online-softmax/stages.h"

static const attn_stage stages[] = {
    {
        .name = "online",
        .idea = "one pass over the keys, with a running maximum, sum and output",
        .features = ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS,
        .forward = online_forward,
        .bytes = online_bytes,
        .flops = online_flops,
    },
    {
        .name = "online-tiled",
        .idea = "tiles of queries share each tile of keys",
        .features =
            ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS | ATTN_HAS_TILE_SIZES,
        .tiles = "BR and BC: any, 64 by default",
        .buffers = tiled_buffers,
        .forward = tiled_forward,
        .bytes = tiled_bytes,
        .flops = tiled_flops,
    },
    {
        .name = "online-simd",
        .idea = "the same tiles with SIMD, queries in the lanes, and OpenMP",
        .features = 2 * ATTN_LAST_FEATURE - 1 - ATTN_HAS_BIAS_GRADIENT, // all, forward
        .tiles =
            "BR: 1 to the lanes of a register block (32 with AVX-512); BC: any, 128 by default",
        .supports = simd_supports,
        .buffers = simd_buffers,
        .forward = simd_forward,
        .bytes = simd_bytes,
        .flops = simd_flops,
    },
};

ATTN_MODULE(2, "Online softmax on the CPU", "make chapter2 N=4096", attn_host_device(), stages)
