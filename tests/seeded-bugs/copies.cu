// copies.cu -- mistakes with asynchronous copies.
#include "tests/seeded-bugs/seeded.h"

static __global__ void returns_too_early(const float *a, float *b) {
    GPU_SHARED(float, tile, [128]);
    cp_async16(&tile[threadIdx.x * 4], &a[threadIdx.x * 4]); // BUG returns-too-early
    cp_async_commit();
    hbm_store(&b[threadIdx.x], 1.0f);
}
static attn_status run_returns_too_early(seeded_memory m) {
    return GPU_LAUNCH(returns_too_early, 1, 32, 0, m.a, m.b);
}

static __global__ void misaligned_copy(const float *a, float *b) {
    GPU_SHARED(float, tile, [128]);
    cp_async16(&tile[threadIdx.x * 4 + 1], &a[threadIdx.x * 4]); // BUG misaligned-copy
    cp_async_commit();
    cp_async_wait<0>();
    hbm_store(&b[threadIdx.x], tile[threadIdx.x]);
}
static attn_status run_misaligned_copy(seeded_memory m) {
    return GPU_LAUNCH(misaligned_copy, 1, 32, 0, m.a, m.b);
}

static __global__ void copy_past_the_end(const float *a, float *b) {
    GPU_SHARED(float, tile, [128]);
    cp_async4(&tile[threadIdx.x], &a[2048 + threadIdx.x]); // BUG copy-past-the-end
    cp_async_commit();
    cp_async_wait<0>();
    hbm_store(&b[threadIdx.x], tile[threadIdx.x]);
}
static attn_status run_copy_past_the_end(seeded_memory m) {
    return GPU_LAUNCH(copy_past_the_end, 1, 32, 0, m.a, m.b);
}

static __global__ void copy_behind_an_array(const float *a, float *b) {
    GPU_SHARED(float, first, [128]); // BUG copy-behind-an-array (plain)
    GPU_SHARED(float, second, [128]);
    float *to = first + 4 * (threadIdx.x + 1); // the last one's: between the two arrays
    second[threadIdx.x] = 0;
    cp_async16(to, &a[threadIdx.x * 4]); // BUG copy-behind-an-array (check)
    cp_async_commit();
    cp_async_wait<0>();
    hbm_store(&b[threadIdx.x], to[0] + second[threadIdx.x]);
}
static attn_status run_copy_behind_an_array(seeded_memory m) {
    return GPU_LAUNCH(copy_behind_an_array, 1, 32, 0, m.a, m.b);
}

// ---- found under the checks only ----
static __global__ void no_wait(const float *a, float *b) {
    GPU_SHARED(float, tile, [128]);
    cp_async16(&tile[threadIdx.x * 4], &a[threadIdx.x * 4]);
    cp_async_commit();
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[threadIdx.x]); // BUG no-wait
    cp_async_wait<0>();
}
static attn_status run_no_wait(seeded_memory m) {
    return GPU_LAUNCH(no_wait, 1, 32, 0, m.a, m.b);
}

static __global__ void wrong_group(const float *a, float *b) {
    GPU_SHARED(float, tile, [2][128]);
    for (int stage = 0; stage < 2; stage++) {
        cp_async16(&tile[stage][threadIdx.x * 4], &a[stage * 128 + threadIdx.x * 4]);
        cp_async_commit();
    }
    cp_async_wait<1>();
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[1][threadIdx.x]); // BUG wrong-group
    cp_async_wait<0>();
}
static attn_status run_wrong_group(seeded_memory m) {
    return GPU_LAUNCH(wrong_group, 1, 32, 0, m.a, m.b);
}

static __global__ void no_commit(const float *a, float *b) {
    GPU_SHARED(float, tile, [128]);
    cp_async16(&tile[threadIdx.x * 4], &a[threadIdx.x * 4]);
    cp_async_wait<0>(); // waits for committed groups: there is none
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[threadIdx.x]); // BUG no-commit
    cp_async_commit();
    cp_async_wait<0>();
}
static attn_status run_no_commit(seeded_memory m) {
    return GPU_LAUNCH(no_commit, 1, 32, 0, m.a, m.b);
}

static __global__ void no_barrier(const float *a, float *b) {
    GPU_SHARED(float, tile, [128]);
    cp_async16(&tile[threadIdx.x * 4], &a[threadIdx.x * 4]);
    cp_async_commit();
    cp_async_wait<0>();                            // one's own copies only
    hbm_store(&b[threadIdx.x], tile[threadIdx.x]); // BUG no-barrier
}
static attn_status run_no_barrier(seeded_memory m) {
    return GPU_LAUNCH(no_barrier, 1, 32, 0, m.a, m.b);
}

// The next tile is asked for while slower threads may still read this one.
static __global__ void overwrites_what_is_read(const float *a, float *b) {
    GPU_SHARED(float, tile, [128]);
    float sum = 0;
    for (int step = 0; step < 2; step++) {
        const float *next = &a[step * 128 + threadIdx.x * 4];
        cp_async16(&tile[threadIdx.x * 4], next); // BUG overwrites-what-is-read
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        sum += tile[(4 * threadIdx.x + 4) % 128];
    }
    hbm_store(&b[threadIdx.x], sum);
}
static attn_status run_overwrites_what_is_read(seeded_memory m) {
    return GPU_LAUNCH(overwrites_what_is_read, 1, 32, 0, m.a, m.b);
}

static __global__ void written_under_way(const float *a, float *b) {
    GPU_SHARED(float, tile, [128]);
    cp_async16(&tile[threadIdx.x * 4], &a[threadIdx.x * 4]);
    cp_async_commit();
    tile[threadIdx.x * 4 + 3] = 0; // BUG written-under-way
    cp_async_wait<0>();
    hbm_store(&b[threadIdx.x], tile[threadIdx.x * 4]);
}
static attn_status run_written_under_way(seeded_memory m) {
    return GPU_LAUNCH(written_under_way, 1, 32, 0, m.a, m.b);
}

static const char under_way[] =
    "shared-memory race: read, while a cp.async of thread 7 is under way";
#define BOTH(text) text, text
static const seeded_case cases[] = {
    {"returns-too-early", run_returns_too_early,
     BOTH("the thread returned with 1 cp.async copies still in flight"), NULL, 0},
    {"misaligned-copy", run_misaligned_copy,
     BOTH("misaligned cp.async of 16 bytes to shared memory, tile + 4 of 512 bytes"), NULL, 0},
    {"copy-past-the-end", run_copy_past_the_end,
     BOTH("out-of-bounds read of 4 bytes in device memory, tensor a + 8192 of 8192 bytes"), NULL,
     0},
    {"copy-behind-an-array", run_copy_behind_an_array,
     "the block wrote behind shared array first (512 bytes), at + 512",
     "thread (31,0,0): out-of-bounds write of 16 bytes in shared memory, first + 512 of 512 bytes",
     NULL, 0},
    {"no-wait", run_no_wait, NULL, under_way, NULL, 0},
    {"wrong-group", run_wrong_group, NULL, under_way, NULL, 0},
    {"no-commit", run_no_commit, NULL, under_way, NULL, 0},
    {"no-barrier", run_no_barrier, NULL,
     "shared-memory race: read, and thread 0 wrote it since the last barrier", NULL, 0},
    {"overwrites-what-is-read", run_overwrites_what_is_read, NULL,
     "shared-memory race: cp.async overwrites it, and thread ", NULL, 0},
    {"written-under-way", run_written_under_way, NULL,
     "shared-memory race: write, while a cp.async of thread 0 is under way", NULL, 0},
};
SEEDED_TABLE(seeded_copies_cases, cases)
