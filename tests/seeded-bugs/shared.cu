// shared.cu -- mistakes with shared memory.
#include "tests/seeded-bugs/seeded.h"

static __global__ void write_behind(float *b) {
    GPU_SHARED(float, tile, [64]); // BUG write-behind (plain)
    tile[threadIdx.x] = 0;
    float *end = tile + 63;
    if (threadIdx.x == 63) end[1] = 1; // BUG write-behind (check)
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[threadIdx.x]);
}
static attn_status run_write_behind(seeded_memory m) {
    return GPU_LAUNCH(write_behind, 1, dim3(64), 0, m.b);
}

static __global__ void read_behind(float *b) {
    GPU_SHARED(float, tile, [8][8]);
    const int r = threadIdx.x / 8, c = threadIdx.x % 8;
    tile[r][c] = 0;
    __syncthreads();
    const float *row = tile[r];
    hbm_store(&b[threadIdx.x], row[c + 8]); // BUG read-behind
}
static attn_status run_read_behind(seeded_memory m) {
    return GPU_LAUNCH(read_behind, 1, 64, 0, m.b);
}

#if defined(__CUDACC__) // nvcc finds it when it compiles
enum { TOO_MANY = 1 };
#else
enum { TOO_MANY = 8192 };
#endif
static __global__ void too_much_static(float *b) {
    GPU_SHARED(float, first, [TOO_MANY]);
    GPU_SHARED(float, second, [TOO_MANY]); // BUG too-much-static
    first[threadIdx.x] = second[threadIdx.x] = 0;
    hbm_store(b, first[threadIdx.x] + second[threadIdx.x]);
}
static attn_status run_too_much_static(seeded_memory m) {
    return GPU_LAUNCH(too_much_static, 1, 1, 0, m.b);
}

static __global__ void too_much_together(float *b) {
    GPU_DYNAMIC_SHARED(float, large);
    GPU_SHARED(float, small, [256]); // BUG too-much-together
    large[threadIdx.x] = small[threadIdx.x] = 0;
    hbm_store(b, large[threadIdx.x] + small[threadIdx.x]);
}
static attn_status run_too_much_together(seeded_memory m) {
    return GPU_LAUNCH(too_much_together, 1, 1, 227 * 1024, m.b);
}

static attn_status run_too_much_dynamic(seeded_memory m) {
    return GPU_LAUNCH(too_much_together, 1, 1, 227 * 1024 + 4, m.b);
}

static __global__ void no_dynamic(float *b) {
    GPU_DYNAMIC_SHARED(float, tile); // BUG no-dynamic
    tile[0] = 0;
    hbm_store(b, tile[0]);
}
static attn_status run_no_dynamic(seeded_memory m) {
    return GPU_LAUNCH(no_dynamic, 1, 1, 0, m.b);
}

static __global__ void misaligned4(float *b) {
    GPU_SHARED(float, tile, [64]);
    tile[threadIdx.x] = 0;
    __syncthreads();
    hbm_store(&b[threadIdx.x], shared_load4(&tile[threadIdx.x]).x); // BUG misaligned4
}
static attn_status run_misaligned4(seeded_memory m) {
    return GPU_LAUNCH(misaligned4, 1, 32, 0, m.b);
}

// ---- found under the checks only ----
static __global__ void uninitialised(float *b) {
    GPU_SHARED(float, tile, [64]);
    if (threadIdx.x != 10) tile[threadIdx.x] = 1;
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[63 - threadIdx.x]); // BUG uninitialised
}
static attn_status run_uninitialised(seeded_memory m) {
    return GPU_LAUNCH(uninitialised, 1, 64, 0, m.b);
}

static __global__ void uninitialised_sum(float *b) {
    GPU_SHARED(float, tile, [64]);
    tile[threadIdx.x] += 1; // BUG uninitialised-sum
    hbm_store(&b[threadIdx.x], tile[threadIdx.x]);
}
static attn_status run_uninitialised_sum(seeded_memory m) {
    return GPU_LAUNCH(uninitialised_sum, 1, 64, 0, m.b);
}

static __global__ void uninitialised_byte(float *b) {
    GPU_SHARED(unsigned char, flag, [32]);
    if (threadIdx.x / 2 != 5) flag[threadIdx.x] = 1; // two of them: they share a note
    __syncthreads();
    hbm_store(&b[threadIdx.x], flag[31 - threadIdx.x]); // BUG uninitialised-byte
}
static attn_status run_uninitialised_byte(seeded_memory m) {
    return GPU_LAUNCH(uninitialised_byte, 1, 32, 0, m.b);
}

// The block before left its values there; on a GPU they would often still be.
static __global__ void left_by_the_block_before(float *b) {
    GPU_SHARED(float, tile, [64]);
    if (blockIdx.x == 0) tile[threadIdx.x] = 1;
    __syncthreads();
    hbm_store(&b[blockIdx.x * 64 + threadIdx.x], tile[threadIdx.x]); // BUG left-by-the-block-before
}
static attn_status run_left_by_the_block_before(seeded_memory m) {
    return GPU_LAUNCH(left_by_the_block_before, 2, 64, 0, m.b);
}

static __global__ void read_too_early(float *b) {
    GPU_SHARED(float, tile, [64]);
    tile[threadIdx.x] = 0;
    __syncthreads();
    tile[threadIdx.x] = 1;
    hbm_store(&b[threadIdx.x], tile[(threadIdx.x + 63) % 64]); // BUG read-too-early
}
static attn_status run_read_too_early(seeded_memory m) {
    return GPU_LAUNCH(read_too_early, 1, 64, 0, m.b);
}

static __global__ void write_too_early(float *b) {
    GPU_SHARED(float, tile, [64]);
    tile[threadIdx.x] = 1;
    __syncthreads();
    const float other = tile[(threadIdx.x + 1) % 64];
    hbm_store(&b[threadIdx.x], other);
    tile[threadIdx.x] = 2; // BUG write-too-early
}
static attn_status run_write_too_early(seeded_memory m) {
    return GPU_LAUNCH(write_too_early, 1, 64, 0, m.b);
}

// Every thread reads cell 0, then one thread writes it: a race whoever's reading was noted last.
static __global__ void write_after_all_read(float *b) {
    GPU_SHARED(float, tile, [1]);
    if (threadIdx.x == 0) tile[0] = 1;
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[0]);
    if (threadIdx.x == 126) tile[0] = 2; // BUG write-after-all-read
}
static attn_status run_write_after_all_read(seeded_memory m) {
    return GPU_LAUNCH(write_after_all_read, 1, 128, 0, m.b);
}

static __global__ void two_writers(float *b) {
    GPU_SHARED(float, tile, [32]);
    tile[threadIdx.x / 2] = 1; // BUG two-writers
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[threadIdx.x / 2]);
}
static attn_status run_two_writers(seeded_memory m) {
    return GPU_LAUNCH(two_writers, 1, 64, 0, m.b);
}

static __global__ void two_writers_of_2_bytes(float *b) {
    GPU_SHARED(uint16_t, half, [32]);
    half[threadIdx.x / 2] = 1; // BUG two-writers-of-2-bytes
    __syncthreads();
    hbm_store(&b[threadIdx.x], half[threadIdx.x / 2]);
}
static attn_status run_two_writers_of_2_bytes(seeded_memory m) {
    return GPU_LAUNCH(two_writers_of_2_bytes, 1, 64, 0, m.b);
}

static __global__ void no_syncwarp(float *b) {
    GPU_SHARED(float, tile, [32]);
    tile[threadIdx.x] = 0;
    __syncthreads();
    tile[threadIdx.x] = 1;
    hbm_store(&b[threadIdx.x], tile[(threadIdx.x + 31) % 32]); // BUG no-syncwarp
}
static attn_status run_no_syncwarp(seeded_memory m) {
    return GPU_LAUNCH(no_syncwarp, 1, 32, 0, m.b);
}

static __global__ void syncwarp_between_warps(float *b) {
    GPU_SHARED(float, tile, [64]);
    tile[threadIdx.x] = 1;
    __syncwarp();
    const float x = threadIdx.x < 32 ? 0 : tile[threadIdx.x - 32]; // BUG syncwarp-between-warps
    hbm_store(&b[threadIdx.x], x);
}
static attn_status run_syncwarp_between_warps(seeded_memory m) {
    return GPU_LAUNCH(syncwarp_between_warps, 1, 64, 0, m.b);
}

static __global__ void syncwarp_of_half(float *b) {
    GPU_SHARED(float, tile, [32]);
    tile[threadIdx.x] = 0;
    __syncthreads();
    tile[threadIdx.x] = 1;
    __syncwarp(threadIdx.x < 16 ? 0x0000ffff : 0xffff0000);
    hbm_store(&b[threadIdx.x], tile[threadIdx.x ^ 16]); // BUG syncwarp-of-half
}
static attn_status run_syncwarp_of_half(seeded_memory m) {
    return GPU_LAUNCH(syncwarp_of_half, 1, 32, 0, m.b);
}

static __global__ void shuffle_is_no_barrier(float *b) {
    GPU_SHARED(float, tile, [32]);
    tile[threadIdx.x] = 1;
    const float one = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    hbm_store(&b[threadIdx.x], one + tile[threadIdx.x ^ 1]); // BUG shuffle-is-no-barrier
}
static attn_status run_shuffle_is_no_barrier(seeded_memory m) {
    return GPU_LAUNCH(shuffle_is_no_barrier, 1, 32, 0, m.b);
}

static __global__ void atomic_and_plain(float *b) {
    GPU_SHARED(float, sum, [1]);
    if (threadIdx.x == 0) sum[0] = 0;
    __syncthreads();
    atomicAdd(sum, 1.0f);
    if (threadIdx.x == 62) hbm_store(b, sum[0]); // BUG atomic-and-plain
}
static attn_status run_atomic_and_plain(seeded_memory m) {
    return GPU_LAUNCH(atomic_and_plain, 1, 64, 0, m.b);
}

static const char static_limit[] =
    "static shared memory is limited to 49152 bytes a block; with second it "
    "is 65536: use GPU_DYNAMIC_SHARED";
static const char dynamic_limit[] =
    "kernel too_much_together asks for 232452 bytes of dynamic shared memory; a "
    "H100 allows a block 232448";
#define BOTH(text) text, text
static const seeded_case cases[] = {
    {"write-behind", run_write_behind,
     "the block wrote behind shared array tile (256 bytes), at + 256",
     "out-of-bounds write of 4 bytes in shared memory, tile + 256 of 256 bytes", NULL, 0},
    {"read-behind", run_read_behind, NULL,
     "out-of-bounds read of 4 bytes in shared memory, tile + 284 of 256 bytes", NULL, 0},
    {"too-much-static", run_too_much_static, BOTH(static_limit), NULL, 0},
    {"too-much-together", run_too_much_together,
     BOTH("with small the block has 233472 bytes of shared memory; a H100 allows 232448"), NULL, 0},
    {"too-much-dynamic", run_too_much_dynamic, BOTH(dynamic_limit), NULL, 1},
    {"no-dynamic", run_no_dynamic,
     BOTH("tile is dynamic shared memory, but the launch asks for 0 bytes"), NULL, 0},
    {"misaligned4", run_misaligned4,
     BOTH("misaligned read of 16 bytes in shared memory, tile + 124 of 256 bytes"), NULL, 0},
    {"uninitialised", run_uninitialised, NULL,
     "read of uninitialised shared memory, tile + 40 of 256 bytes", NULL, 0},
    {"uninitialised-sum", run_uninitialised_sum, NULL,
     "read of uninitialised shared memory, tile + 0 of 256 bytes", NULL, 0},
    {"uninitialised-byte", run_uninitialised_byte, NULL,
     "read of uninitialised shared memory, flag + 1", NULL, 0},
    {"left-by-the-block-before", run_left_by_the_block_before, NULL,
     "block (1,0,0), thread (63,0,0): read of uninitialised shared memory, tile + 252 of 256", NULL,
     0},
    {"read-too-early", run_read_too_early, NULL,
     "shared-memory race: read, and thread 63 wrote it since the last barrier, tile + 252", NULL,
     0},
    {"write-too-early", run_write_too_early, NULL,
     "shared-memory race: write, and thread 63 read it since the last barrier, tile + 0", NULL, 0},
    {"write-after-all-read", run_write_after_all_read, NULL,
     "thread (126,0,0): shared-memory race: write, and thread ", NULL, 0},
    {"two-writers", run_two_writers, NULL,
     "shared-memory race: write, and thread 0 wrote it since the last barrier, tile + 0", NULL, 0},
    {"two-writers-of-2-bytes", run_two_writers_of_2_bytes, NULL,
     "shared-memory race: write, and thread 0 wrote it since the last barrier, half + 0", NULL, 0},
    {"no-syncwarp", run_no_syncwarp, NULL, "shared-memory race: read, and thread 31 wrote it", NULL,
     0},
    {"syncwarp-between-warps", run_syncwarp_between_warps, NULL,
     "shared-memory race: read, and thread ", NULL, 0},
    {"syncwarp-of-half", run_syncwarp_of_half, NULL, "shared-memory race: read, and thread ", NULL,
     0},
    {"shuffle-is-no-barrier", run_shuffle_is_no_barrier, NULL,
     "shared-memory race: read, and thread ", NULL, 0},
    {"atomic-and-plain", run_atomic_and_plain, NULL,
     "shared-memory race: read, and thread 0 atomically changed it since the last barrier, sum + "
     "0",
     NULL, 0},
};
SEEDED_TABLE(seeded_shared_cases, cases)
