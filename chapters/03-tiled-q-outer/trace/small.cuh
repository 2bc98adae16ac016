// small.cuh -- chapter 3's tiles at the least size that its functions have, 8 x 8: one thread of the one
// warp has all of it. For make trace3, 4 and 6, on the emulator.
#ifndef SMALL_CUH
#define SMALL_CUH

#include "chapters/03-tiled-q-outer/tile.cuh"
#include "cpu/trace/trace.h"
#include "gpu/emulator/memory.h"

enum { SMALL = 8 };

template <> struct tile_shape<SMALL> {
    enum { D = SMALL, WARPS = 1, THREADS = 1, X = 1, Y = 1, BR = SMALL, BC = SMALL };
};

static inline uint64_t small_tiles(int64_t length) {
    return ((uint64_t)length + SMALL - 1) / SMALL;
}

// d is below 4, so that no row is copied 16 bytes at a time: one thread would not do for that.
static attn_status small_supports(const attn_problem *p) {
    return trace_supports(p, SMALL);
}

static inline void small_trace_end(void) {
    attn_traffic total;
    gpu_device()->traffic(&total);
    trace_end(&total);
}

#endif
