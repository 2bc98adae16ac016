// threads.cu -- mistakes with barriers, warps and launches.
#include "tests/seeded-bugs/seeded.h"

static __global__ void two_barriers(float *b) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads(); // BUG two-barriers
    hbm_store(&b[threadIdx.x], 1.0f);
}
static attn_status run_two_barriers(seeded_memory m) {
    return GPU_LAUNCH(two_barriers, 1, 64, 0, m.b);
}

static __global__ void barrier_and_shuffle(float *b) {
    float x = 1;
    if (threadIdx.x % 2)
        x = __shfl_xor_sync(0xffffffffu, x, 1); // BUG barrier-and-shuffle
    else
        __syncthreads();
    hbm_store(&b[threadIdx.x], x);
}
static attn_status run_barrier_and_shuffle(seeded_memory m) {
    return GPU_LAUNCH(barrier_and_shuffle, 1, 32, 0, m.b);
}

// Legal on today's GPUs, and worth a warning.
static __global__ void return_before_barrier(float *b) {
    if (threadIdx.x >= 50) return;
    __syncthreads();
    hbm_store(&b[threadIdx.x], 1.0f);
}
static attn_status run_return_before_barrier(seeded_memory m) {
    return GPU_LAUNCH(return_before_barrier, 1, 64, 0, m.b);
}

static __global__ void shuffle_from_outside(float *b) {
    float x = 1;
    if (threadIdx.x < 16) x = __shfl_xor_sync(0xffffu, x, 16); // BUG shuffle-from-outside
    hbm_store(&b[threadIdx.x], x);
}
static attn_status run_shuffle_from_outside(seeded_memory m) {
    return GPU_LAUNCH(shuffle_from_outside, 1, 32, 0, m.b);
}

static __global__ void shuffle_not_in_mask(float *b) {
    hbm_store(&b[threadIdx.x], __shfl_sync(0x0000ffffu, 1.0f, 0)); // BUG shuffle-not-in-mask
}
static attn_status run_shuffle_not_in_mask(seeded_memory m) {
    return GPU_LAUNCH(shuffle_not_in_mask, 1, 32, 0, m.b);
}

static __global__ void shuffle_by_half(float *b) {
    float x = 1;
    if (threadIdx.x < 16) x = __shfl_xor_sync(0xffffffffu, x, 1); // BUG shuffle-by-half
    hbm_store(&b[threadIdx.x], x);
}
static attn_status run_shuffle_by_half(seeded_memory m) {
    return GPU_LAUNCH(shuffle_by_half, 1, 32, 0, m.b);
}

static __global__ void different_operations(float *b) {
    float x = 1;
    if (threadIdx.x < 16)
        x = __shfl_xor_sync(0xffffffffu, x, 1);
    else
        x = (float)__ballot_sync(0xffffffffu, 1); // BUG different-operations
    hbm_store(&b[threadIdx.x], x);
}
static attn_status run_different_operations(seeded_memory m) {
    return GPU_LAUNCH(different_operations, 1, 32, 0, m.b);
}

// The even lanes leave lane 31 out, the odd ones wait for it: by the masks they do not meet.
static __global__ void different_masks(float *b) {
    const unsigned mask = threadIdx.x % 2 ? 0xffffffffu : 0x7fffffffu;
    hbm_store(&b[threadIdx.x], __shfl_xor_sync(mask, 1.0f, 0)); // BUG different-masks
}
static attn_status run_different_masks(seeded_memory m) {
    return GPU_LAUNCH(different_masks, 1, 32, 0, m.b);
}

static __global__ void bad_width(float *b) {
    hbm_store(&b[threadIdx.x], __shfl_sync(0xffffffffu, 1.0f, 0, 12)); // BUG bad-width
}
static attn_status run_bad_width(seeded_memory m) {
    return GPU_LAUNCH(bad_width, 1, 32, 0, m.b);
}

static __global__ void shuffle_in_short_warp(float *b) {
    hbm_store(&b[threadIdx.x], __shfl_down_sync(0xffffffffu, 1.0f, 1)); // BUG shuffle-in-short-warp
}
static attn_status run_shuffle_in_short_warp(seeded_memory m) {
    return GPU_LAUNCH(shuffle_in_short_warp, 1, 20, 0, m.b);
}

static attn_status run_block_too_large(seeded_memory m) {
    return GPU_LAUNCH(bad_width, 1, dim3(64, 32), 0, m.b);
}
static attn_status run_no_blocks(seeded_memory m) {
    return GPU_LAUNCH(bad_width, 0, 32, 0, m.b);
}

// ---- not wrong, but slow: the report says so ----
static __global__ void bank_conflicts(float *b) {
    GPU_SHARED(float, tile, [32][32]);
    for (int i = 0; i < 32; i++) tile[threadIdx.x][i] = 0; // BUG bank-conflicts
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[0][threadIdx.x]);
}
static attn_status run_bank_conflicts(seeded_memory m) {
    return GPU_LAUNCH(bank_conflicts, 1, 32, 0, m.b);
}

static __global__ void scattered(const float *a, float *b) {
    hbm_store(&b[threadIdx.x], hbm_load(&a[threadIdx.x * 16])); // BUG scattered
}
static attn_status run_scattered(seeded_memory m) {
    return GPU_LAUNCH(scattered, 1, 128, 0, m.a, m.b);
}

static const char never[] = "a warp operation with mask ffffffff never completes: lanes ffff0000 "
                            "do not come (they have returned)";
static const char outside[] =
    "thread (0,0,0): shuffle: lane 0 asks for lane 16, which is not in the mask 0000ffff";
static const char too_large[] = "kernel bad_width: a block of (64,32,1) threads; allowed are 1 to "
                                "1024, 1 to 1024 and 1 to 64, together";
#define BOTH(text) text, text
static const seeded_case cases[] = {
    {"two-barriers", run_two_barriers,
     BOTH("barrier divergence: other threads wait in the __syncthreads at"), NULL, 0},
    {"barrier-and-shuffle", run_barrier_and_shuffle,
     BOTH("a warp operation with mask ffffffff never completes: lanes 55555555 do not come"), NULL,
     0},
    {"return-before-barrier", run_return_before_barrier, NULL, NULL,
     "warning: kernel return_before_barrier: threads returned before the barrier", 0},
    {"shuffle-from-outside", run_shuffle_from_outside, BOTH(outside), NULL, 0},
    {"shuffle-not-in-mask", run_shuffle_not_in_mask,
     BOTH("lane 16 calls a warp operation whose mask 0000ffff leaves it out"), NULL, 0},
    {"shuffle-by-half", run_shuffle_by_half, BOTH(never), NULL, 0},
    {"different-operations", run_different_operations,
     BOTH("lanes of a warp meet in different operations: lane 31 with mask ffffffff here"), NULL,
     0},
    {"different-masks", run_different_masks,
     BOTH("lanes of a warp meet in different operations: lane 30 with mask 7fffffff here, lane 1 "
          "with "
          "mask ffffffff"),
     NULL, 0},
    {"bad-width", run_bad_width, BOTH("shuffle: width 12 is not 1, 2, 4, 8, 16 or 32"), NULL, 0},
    {"shuffle-in-short-warp", run_shuffle_in_short_warp,
     BOTH("shuffle: lane 19 asks for lane 20, which is not in the mask 000fffff"), NULL, 0},
    {"block-too-large", run_block_too_large, BOTH(too_large), NULL, 1},
    {"no-blocks", run_no_blocks, BOTH("a grid of (0,1,1) blocks; allowed are 1 to 2147483647"),
     NULL, 1},
    {"bank-conflicts", run_bank_conflicts, NULL, NULL,
     "shared write of 4 bytes, 32 requests: 32.00 passes each, ideal 1.00", 0},
    {"scattered", run_scattered, NULL, NULL,
     "device read of 4 bytes, 4 requests: 32.00 sectors each, ideal 4.00", 0},
};
SEEDED_TABLE(seeded_threads_cases, cases)
