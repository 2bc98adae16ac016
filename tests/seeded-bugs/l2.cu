// l2.cu -- clean kernels whose DRAM bytes can be counted by hand. tests/test_emulator.c runs them with
// EMULATED_GPU=T4/40: one multiprocessor with 1024 threads, and an L2 of 104,857 bytes of which three
// quarters keep what was read: 37 sets of 16 lines, 75,776 bytes; 10 lines of a set may be dirty.
#include "tests/seeded-bugs/seeded.h"

enum { KB = 1024, THREADS = 256 };

// Block b reads `bytes` at `from` + b * step, `times` times over; all of it before it starts again.
__global__ void read_bytes(const float *from, size_t bytes, size_t step, int times) {
    float sum = 0;
    for (int time = 0; time < times; time++) {
        for (size_t i = threadIdx.x; i < bytes / 4; i += blockDim.x)
            sum += hbm_load(&from[blockIdx.x * step / 4 + i]);
        __syncthreads(); // as a tile's end would be
    }
    (void)sum;
}

__global__ void write_bytes(float *to, size_t bytes) {
    for (size_t i = threadIdx.x; i < bytes / 4; i += blockDim.x) hbm_store(&to[i], 1);
}

__global__ void read_every_line(const float *from) {
    (void)hbm_load(&from[threadIdx.x * 32]); // a float of each line of 128 bytes
}

__global__ void read_half_sectors(const float *from) {
    (void)hbm_load(&from[threadIdx.x]); // 4 floats: half a sector of 32 bytes
}

__global__ void copy_tiles(const float *from, size_t bytes) {
    GPU_SHARED(float, tile, [THREADS * 4]);
    for (size_t i = threadIdx.x * 4; i < bytes / 4; i += THREADS * 4) {
        cp_async16(&tile[threadIdx.x * 4], &from[i]);
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads(); // the tile is there before it is overwritten
    }
}

__global__ void add_to_each(float *to) {
    hbm_atomic_add(&to[threadIdx.x], 1.0f);
}

static attn_status with_buffer(size_t bytes, attn_status (*run)(float *memory)) {
    static const float zeros[256 * KB / 4] = {0};
    float *memory = NULL;
    ATTN_TRY(gpu_device()->allocate("buffer", bytes, (void **)&memory));
    ATTN_TRY(gpu_device()->upload(memory, zeros, bytes)); // past the model: the L2 stays empty
    const attn_status status = run(memory);
    gpu_device()->release(memory);
    return status;
}

#define CASE(name, bytes, launches)                   \
    static attn_status name##_launches(float *m) {    \
        launches return attn_ok();                    \
    }                                                 \
    static attn_status name(seeded_memory unused) {   \
        (void)unused;                                 \
        return with_buffer((bytes), name##_launches); \
    }
#define READ(blocks, threads, bytes, step, times) \
    ATTN_TRY(GPU_LAUNCH(read_bytes, (blocks), (threads), 0, m, (bytes), (step), (times)));
#define WRITE(bytes) ATTN_TRY(GPU_LAUNCH(write_bytes, 1, THREADS, 0, m, (bytes)));

CASE(cold, 32 * KB, READ(1, THREADS, 32 * KB, 0, 1))
CASE(again, 32 * KB, READ(1, THREADS, 32 * KB, 0, 1) READ(1, THREADS, 32 * KB, 0, 1))
CASE(too_large, 128 * KB, READ(1, THREADS, 128 * KB, 0, 2))
CASE(lines, 32 * KB, ATTN_TRY(GPU_LAUNCH(read_every_line, 1, THREADS, 0, m));)
CASE(half_sector, 32 * KB, ATTN_TRY(GPU_LAUNCH(read_half_sectors, 1, 4, 0, m));)
CASE(write_back, 128 * KB, WRITE(128 * KB))
CASE(write_read, 32 * KB, WRITE(32 * KB) READ(1, THREADS, 32 * KB, 0, 1))
CASE(copies, 32 * KB, ATTN_TRY(GPU_LAUNCH(copy_tiles, 1, THREADS, 0, m, 32 * KB));)
CASE(adds, 32 * KB, ATTN_TRY(GPU_LAUNCH(add_to_each, 1, THREADS, 0, m));)
CASE(memory_set, 32 * KB, ATTN_TRY(gpu_memset(m, 0, 32 * KB));)
// Eight blocks, four at a time, go over the same 128 KB side by side: one reads, three find it there.
CASE(shared_sweep, 128 * KB, READ(8, THREADS, 128 * KB, 0, 1))
// Each goes over 32 KB of its own, four times: 128 KB at a time do not fit, 64 KB do.
CASE(own_sweeps, 256 * KB, READ(8, THREADS, 32 * KB, 32 * KB, 4))
CASE(fewer_at_a_time, 256 * KB, READ(8, 2 * THREADS, 32 * KB, 32 * KB, 4))

static const seeded_case cases[] = {
    {"l2-cold", cold, NULL, NULL, NULL, 0},
    {"l2-again", again, NULL, NULL, NULL, 0},
    {"l2-too-large", too_large, NULL, NULL, NULL, 0},
    {"l2-lines", lines, NULL, NULL, NULL, 0},
    {"l2-half-sector", half_sector, NULL, NULL, NULL, 0},
    {"l2-write-back", write_back, NULL, NULL, NULL, 0},
    {"l2-write-read", write_read, NULL, NULL, NULL, 0},
    {"l2-copies", copies, NULL, NULL, NULL, 0},
    {"l2-adds", adds, NULL, NULL, NULL, 0},
    {"l2-memset", memory_set, NULL, NULL, NULL, 0},
    {"l2-shared-sweep", shared_sweep, NULL, NULL, NULL, 0},
    {"l2-own-sweeps", own_sweeps, NULL, NULL, NULL, 0},
    {"l2-fewer-at-a-time", fewer_at_a_time, NULL, NULL, NULL, 0},
};
SEEDED_TABLE(seeded_l2_cases, cases)
