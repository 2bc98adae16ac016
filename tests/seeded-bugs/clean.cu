// clean.cu -- kernels without a mistake: they must pass everywhere, with these results and these bytes.
#include "tests/seeded-bugs/seeded.h"

#include <string.h>

enum { MOST = 2048 };

// Do the first `count` floats of b equal what `expected` says of their index?
static attn_status compare(const char *what, const float *b, int count, float (*expected)(int i)) {
    static float got[MOST];
    ATTN_TRY(gpu_device()->synchronize());
    ATTN_TRY(gpu_device()->download(got, b, (size_t)count * sizeof(float)));
    for (int i = 0; i < count; i++)
        if (!(got[i] == expected(i)))
            return attn_error(ATTN_DEVICE, "%s: element %d is %g, not %g", what, i, got[i],
                              expected(i));
    return attn_ok();
}

// ---- where a thread is, for every shape of block ----
static __global__ void positions(float *b) {
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    __syncthreads();
    hbm_store(&b[block * threads + thread], (float)(1000 * block + thread));
}
static int block_threads;
static float position(int i) {
    return (float)(1000 * (i / block_threads) + i % block_threads);
}
static attn_status run_positions(seeded_memory m) {
    const dim3 blocks[] = {1, 2, 31, 32, 33, 100, 1024, dim3(5, 7), dim3(3, 4, 5), dim3(1, 1, 64)};
    for (int k = 0; k < (int)(sizeof blocks / sizeof blocks[0]); k++) {
        block_threads = (int)(blocks[k].x * blocks[k].y * blocks[k].z);
        const dim3 grid = block_threads <= 64 ? dim3(2, 3, 4) : dim3(2);
        const int count = block_threads * (int)(grid.x * grid.y * grid.z);
        ATTN_TRY(GPU_LAUNCH(positions, grid, blocks[k], 0, m.b));
        ATTN_TRY(compare("position", m.b, count < MOST ? count : MOST, position));
    }
    return attn_ok();
}

// ---- shuffles: CUDA C++ Programming Guide, "Warp Shuffle Functions" ----
static __global__ void shuffles(float *b) {
    const unsigned all = 0xffffffffu;
    const int lane = threadIdx.x;
    const float x = (float)lane;
    hbm_store(&b[lane], __shfl_sync(all, x, 5));
    hbm_store(&b[32 + lane], __shfl_sync(all, x, lane + 1, 8)); // round within 8
    hbm_store(&b[64 + lane], __shfl_up_sync(all, x, 3));
    hbm_store(&b[96 + lane], __shfl_up_sync(all, x, 3, 16));
    hbm_store(&b[128 + lane], __shfl_down_sync(all, x, 2));
    hbm_store(&b[160 + lane], __shfl_down_sync(all, x, 2, 4));
    hbm_store(&b[192 + lane], __shfl_xor_sync(all, x, 7));
    hbm_store(&b[224 + lane],
              __shfl_xor_sync(all, x, 12, 8)); // 12 ^ lane: an earlier group may be read
    hbm_store(&b[256 + lane], (float)__shfl_xor_sync(all, (double)lane, 1));
    hbm_store(&b[288 + lane], (float)__shfl_sync(all, lane, 31));
}
static float shuffled(int i) {
    const int lane = i % 32;
    switch (i / 32) {
    case 0:
        return 5;
    case 1:
        return (float)(lane / 8 * 8 + (lane + 1) % 8);
    case 2:
        return (float)(lane < 3 ? lane : lane - 3);
    case 3:
        return (float)(lane % 16 < 3 ? lane : lane - 3);
    case 4:
        return (float)(lane > 29 ? lane : lane + 2);
    case 5:
        return (float)(lane % 4 > 1 ? lane : lane + 2);
    case 6:
        return (float)(lane ^ 7);
    case 7:
        return (float)((lane ^ 12) >= lane / 8 * 8 + 8 ? lane : lane ^ 12);
    case 8:
        return (float)(lane ^ 1);
    default:
        return 31;
    }
}
static attn_status run_shuffles(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(shuffles, 1, 32, 0, m.b));
    return compare("shuffle", m.b, 320, shuffled);
}

// ---- ballots; halves of a warp with masks of their own; several warps ----
static __global__ void ballots(float *b) {
    const int lane = threadIdx.x % 32, i = threadIdx.x;
    const unsigned odd = __ballot_sync(0xffffffffu, lane % 2);
    float value = odd == 0xaaaaaaaau ? 1 : 0;
    value += __any_sync(0xffffffffu, lane == 7) ? 2 : 0;
    value += __any_sync(0xffffffffu, lane == 32) ? 1000 : 0;
    value += __all_sync(0xffffffffu, lane < 32) ? 4 : 0;
    value += __all_sync(0xffffffffu, lane < 31) ? 1000 : 0;
    const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    if (lane < 16)
        value += __ballot_sync(half, 1) == half ? 8 : 0;
    else
        value += __ballot_sync(half, 1) == half ? 8 : 0;
    for (int x = 8; x; x /= 2) value += 16 * __shfl_xor_sync(half, 0.0f, x);
    hbm_store(&b[i], value);
}
static float fifteen(int) {
    return 15;
}
static attn_status run_ballots(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(ballots, 1, 96, 0, m.b));
    return compare("ballot", m.b, 96, fifteen);
}

// ---- a last warp of 20 threads reduces over those that exist ----
static __global__ void short_warp(float *b) {
    const float sum = __shfl_sync(0xffffffffu, 3.0f, threadIdx.x % 20);
    hbm_store(&b[threadIdx.x], sum);
}
static float three(int) {
    return 3;
}
static attn_status run_short_warp(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(short_warp, 1, 52, 0, m.b));
    return compare("short warp", m.b, 52, three);
}

// ---- atomics, on shared and on device memory, from all blocks at once ----
static __global__ void atomics(float *sum, int *count, unsigned long long *large) {
    GPU_SHARED(int, in_block, [1]);
    GPU_SHARED(float, weight, [1]);
    if (threadIdx.x == 0) in_block[0] = 0, weight[0] = 0;
    __syncthreads();
    atomicAdd(in_block, 1);
    atomicAdd(weight, 0.5f);
    __syncthreads();
    if (threadIdx.x == 0) {
        hbm_atomic_add(sum, weight[0]);
        hbm_atomic_add(count, in_block[0]);
        hbm_atomic_add(large, 1ull << 40);
    }
}
static attn_status run_atomics(seeded_memory m) {
    unsigned long long large = 0;
    float sum = 0;
    int count = 0;
    ATTN_TRY(
        GPU_LAUNCH(atomics, 50, 100, 0, m.b, (int *)(m.b + 1), (unsigned long long *)(m.b + 2)));
    ATTN_TRY(gpu_device()->synchronize());
    ATTN_TRY(gpu_device()->download(&sum, m.b, sizeof sum));
    ATTN_TRY(gpu_device()->download(&count, m.b + 1, sizeof count));
    ATTN_TRY(gpu_device()->download(&large, m.b + 2, sizeof large));
    if (sum != 2500 || count != 5000 || large != 50ull << 40)
        return attn_error(ATTN_DEVICE, "atomics: %g, %d, %llu", sum, count, large);
    return attn_ok();
}

// ---- elements of 2 to 16 bytes ----
static __global__ void widths(const float *a, float *b) {
    const int i = threadIdx.x;
    const float4 four = hbm_load((const float4 *)a + i);
    const float2 two = hbm_load((const float2 *)a + i);
    hbm_store((float4 *)b + i, make_float4(four.w, four.z, two.y, two.x));
    const int4 same = hbm_load((const int4 *)a + i);
    hbm_store((int4 *)(b + 128) + i, same);
    uint16_t *halves = (uint16_t *)(b + 256);
    hbm_store(&halves[2 * i], hbm_load((const uint16_t *)a + 2 * i));
    hbm_store(&halves[2 * i + 1], hbm_load((const uint16_t *)a + 2 * i + 1));
}
static float widened(int i) {
    if (i >= 256) return (float)(i - 256);
    if (i >= 128) return (float)(i - 128);
    const int thread = i / 4;
    switch (i % 4) {
    case 0:
        return (float)(4 * thread + 3);
    case 1:
        return (float)(4 * thread + 2);
    case 2:
        return (float)(2 * thread + 1);
    default:
        return (float)(2 * thread);
    }
}
static attn_status run_widths(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(widths, 1, 32, 0, m.a, m.b));
    return compare("width", m.b, 288, widened);
}

// ---- static and dynamic shared memory, float4 in one request, a template, a struct as argument ----
struct factors {
    float scale, offset;
};
template <int THREADS, typename T> static __global__ void transposed(const T *a, T *b, factors f) {
    GPU_DYNAMIC_SHARED(float, rows);
    GPU_SHARED(float, columns, [4][THREADS + 1]);
    const int i = threadIdx.x;
    shared_store4(&rows[4 * i], hbm_load((const float4 *)a + i));
    __syncthreads();
    const float4 v = shared_load4(&rows[4 * (THREADS - 1 - i)]);
    columns[0][i] = v.x, columns[1][i] = v.y, columns[2][i] = v.z, columns[3][i] = v.w;
    __syncwarp();
    float sum = 0;
    for (int k = 0; k < 4; k++) sum += columns[k][i ^ 1];
    hbm_store(&b[i], sum * f.scale + f.offset);
}
static float transposed_sum(int i) {
    const int row = 63 - (i ^ 1);
    return 2 * (16 * (float)row + 6) + 1;
}
static attn_status run_transposed(seeded_memory m) {
    const factors f = {2, 1};
    ATTN_TRY(GPU_LAUNCH((transposed<64, float>), 1, 64, 64 * 4 * sizeof(float), m.a, m.b, f));
    return compare("transposed", m.b, 64, transposed_sum);
}

// ---- two tiles in turn: one is computed with while the next is copied ----
static __global__ void pipeline(const float *a, float *b, int steps) {
    GPU_SHARED(float, tile, [2][128]);
    const int i = threadIdx.x;
    float sum = 0;
    cp_async16(&tile[0][4 * i], &a[4 * i]);
    cp_async_commit();
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps)
            for (int k = 0; k < 4; k++)
                cp_async4(&tile[(step + 1) % 2][4 * i + k], &a[(step + 1) * 128 + 4 * i + k]);
        cp_async_commit();
        cp_async_wait<1>();
        __syncthreads(); // everyone's copies of this tile have landed
        sum += tile[step % 2][127 - i];
        __syncthreads(); // nobody reads this tile any more: it may be overwritten
    }
    cp_async_wait<0>();
    hbm_store(&b[i], sum);
}
static float pipelined(int i) {
    return (float)(10 * (127 - i) + 128 * 45);
}
static attn_status run_pipeline(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(pipeline, 1, 32, 0, m.a, m.b, 10));
    return compare("pipeline", m.b, 32, pipelined);
}

// ---- a loop of barriers and warp sums, over several blocks ----
static __global__ void block_sums(const float *a, float *b) {
    GPU_SHARED(float, warp_sum, [4]);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int round = 0; round < 3; round++) {
        float sum = hbm_load(&a[blockIdx.x * 128 + threadIdx.x]);
        for (int x = 16; x; x /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, x);
        if (lane == 0) warp_sum[warp] = sum;
        __syncthreads();
        sum = warp_sum[0] + warp_sum[1] + warp_sum[2] + warp_sum[3];
        __syncthreads();
        if (threadIdx.x == 0) hbm_store(&b[blockIdx.x], sum);
    }
}
static float block_sum(int i) {
    return 128 * 128 * (float)i + 127 * 64;
}
static attn_status run_block_sums(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(block_sums, 16, 128, 0, m.a, m.b));
    return compare("block sum", m.b, 16, block_sum);
}

// ---- lanes hand over through shared memory with __syncwarp, in both directions ----
static __global__ void hand_over(float *b) {
    GPU_SHARED(float, cell, [64]);
    const int i = threadIdx.x;
    float x = (float)i;
    for (int round = 0; round < 4; round++) {
        cell[i] = x;
        __syncwarp();
        x = cell[i ^ 1] + 1;
        __syncwarp();
    }
    const unsigned pair = 3u << (i % 32 & ~1); // pairs of lanes alone
    cell[i] = x;
    __syncwarp(pair);
    x = cell[i ^ 1];
    hbm_store(&b[i], x);
}
static float handed_over(int i) {
    return (float)((i ^ 1) + 4);
}
static attn_status run_hand_over(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(hand_over, 1, 64, 0, m.b));
    return compare("hand over", m.b, 64, handed_over);
}

// ---- memset: counted, and it counts as written ----
static __global__ void copy(const float *c, float *b) {
    hbm_store(&b[threadIdx.x], hbm_load(&c[threadIdx.x]));
}
static float zero(int) {
    return 0;
}
static attn_status run_memset(seeded_memory m) {
    ATTN_TRY(gpu_memset(m.b, 0x3f, 64 * sizeof(float)));
    ATTN_TRY(gpu_memset(m.c, 0, 64 * sizeof(float)));
    ATTN_TRY(GPU_LAUNCH(copy, 1, 64, 0, m.c, m.b));
    return compare("memset", m.b, 64, zero);
}

// ---- broadcasts cost one sector, one pass ----
static __global__ void broadcasts(const float *a, float *b) {
    GPU_SHARED(float, tile, [32]);
    tile[threadIdx.x] = hbm_load(&a[7]);
    __syncthreads();
    hbm_store(&b[threadIdx.x], tile[threadIdx.x / 32] + tile[31]);
}
static float fourteen(int) {
    return 14;
}
static attn_status run_broadcasts(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(broadcasts, 1, 32, 0, m.a, m.b));
    return compare("broadcast", m.b, 32, fourteen);
}

// ---- what shared memory needs for 16 bytes a lane ----
static __global__ void reads_of_16_bytes(float *b) {
    GPU_SHARED(float, tile, [512]);
    const int lane = threadIdx.x;
    for (int k = 0; k < 512; k += 32) tile[k + lane] = 1; // 16 passes
    __syncthreads();
    float4 v = shared_load4(&tile[4 * lane]);                    // four: a quarter of the warp each
    v.x += shared_load4(&tile[4 * (lane / 2)]).x;                // two: lanes i and i ^ 1 are alike
    v.x += shared_load4(&tile[4 * (lane / 4 * 2 + lane % 2)]).x; // two: lanes i and i ^ 2
    v.x += shared_load4(&tile[4 * (lane % 16)]).x; // four: lanes i and i ^ 16 do not help
    v.x += shared_load4(&tile[32 * (lane / 2)]).x; // all begin in one bank: eight for each half
    hbm_store(&b[lane], v.x);
}
static float five(int) {
    return 5;
}
static attn_status run_reads_of_16_bytes(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(reads_of_16_bytes, 1, 32, 0, m.b));
    return compare("reads of 16 bytes", m.b, 32, five);
}

// ---- single bytes: neighbours may be written by different threads, and by different blocks ----
static __global__ void single_bytes(unsigned char *b) {
    GPU_SHARED(unsigned char, cell, [64]);
    cell[threadIdx.x] = 1;
    __syncthreads();
    const int i = blockIdx.x + 2 * threadIdx.x;
    hbm_store(&b[i], (unsigned char)(cell[63 - threadIdx.x] - 1 + threadIdx.x % 2));
}
static float byte_pairs(int) { // bytes 0, 0, 1, 1
    const unsigned char bytes[4] = {0, 0, 1, 1};
    float f;
    memcpy(&f, bytes, sizeof f);
    return f;
}
static attn_status run_single_bytes(seeded_memory m) {
    ATTN_TRY(GPU_LAUNCH(single_bytes, 2, 64, 0, (unsigned char *)m.b));
    return compare("single byte", m.b, 32, byte_pairs);
}

// ---- many buffers, released and taken again, and a tensor of two buffers ----
static __global__ void fill(float *p) {
    hbm_store(p, 1.0f);
}
static attn_status run_many_buffers(seeded_memory) {
    static void *buffers[300];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 300; i++) {
            ATTN_TRY(
                gpu_device()->allocate(i % 2 ? "odd" : "even", (size_t)i * 1000 + 4, &buffers[i]));
            unsigned char fresh[4] = {0, 0, 0, 0};
            ATTN_TRY(gpu_device()->download(fresh, buffers[i], sizeof fresh));
            if (fresh[0] != 0xff || fresh[3] != 0xff)
                return attn_error(ATTN_DEVICE, "buffer %d is not fresh", i);
        }
        for (int i = 0; i < 300; i++) ATTN_TRY(GPU_LAUNCH(fill, 1, 1, 0, (float *)buffers[i]));
        ATTN_TRY(gpu_device()->synchronize());
        for (int i = 0; i < 300; i++) gpu_device()->release(buffers[(i * 7 + round) % 300]);
    }
    return attn_ok();
}

// ---- after a finding, the next launch is as good as any ----
static __global__ void bad(float *b) {
    if (threadIdx.x < 40)
        __syncthreads();
    else
        hbm_store(b - 1, 0.0f);
}
static attn_status run_after_a_finding(seeded_memory m) {
    if (strcmp(gpu_device()->kind, "gpu") == 0) return run_pipeline(m);
    for (int i = 0; i < 20; i++)
        if (GPU_LAUNCH(bad, 4, 64, 0, m.b).code != ATTN_DEVICE)
            return attn_error(ATTN_DEVICE, "the mistake was not found the %dth time", i);
    for (int i = 0; i < 20; i++) // a fault, which takes another way
        if (GPU_LAUNCH(fill, 1, 1, 0, (float *)16).code != ATTN_DEVICE)
            return attn_error(ATTN_DEVICE, "the fault was not found the %dth time", i);
    ATTN_TRY(gpu_memset(m.b, 0, MOST * sizeof(float)));
    return run_pipeline(m);
}

static const seeded_case cases[] = {
    {"positions", run_positions, NULL, NULL, NULL, 0},
    {"shuffles", run_shuffles, NULL, NULL, NULL, 0},
    {"ballots", run_ballots, NULL, NULL, NULL, 0},
    {"short-warp", run_short_warp, NULL, NULL, NULL, 0},
    {"atomics", run_atomics, NULL, NULL, NULL, 0},
    {"widths", run_widths, NULL, NULL, NULL, 0},
    {"transposed", run_transposed, NULL, NULL,
     "sectors loaded 32, copied 0, stored 8; "
     "shared passes read 16, 0 of them conflicts, written 16, 0 of them conflicts",
     0},
    {"pipeline", run_pipeline, NULL, NULL,
     "sectors loaded 0, copied 592, stored 4; " // 16 of 16 bytes a lane, 9 * 4 * 16 of 4 bytes
     "shared passes read 10, 0 of them conflicts, written 0, 0 of them conflicts",
     0},
    {"block-sums", run_block_sums, NULL, NULL, NULL, 0},
    {"hand-over", run_hand_over, NULL, NULL, NULL, 0},
    {"memset", run_memset, NULL, NULL, NULL, 0},
    {"broadcasts", run_broadcasts, NULL, NULL,
     "device memory: 5 sectors of 32 bytes, 5 if every request were coalesced", 0},
    {"reads-of-16-bytes", run_reads_of_16_bytes, NULL, NULL,
     "launch 1, reads_of_16_bytes: sectors loaded 0, copied 0, stored 4; "
     "shared passes read 28, 14 of them conflicts, written 16, 0 of them conflicts",
     0},
    {"single-bytes", run_single_bytes, NULL, NULL, NULL, 0},
    {"many-buffers", run_many_buffers, NULL, NULL, NULL, 0},
    {"after-a-finding", run_after_a_finding, NULL, NULL, NULL, 0},
};
SEEDED_TABLE(seeded_clean_cases, cases)
