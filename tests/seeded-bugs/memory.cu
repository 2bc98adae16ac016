// memory.cu -- mistakes with device memory.
#include "tests/seeded-bugs/seeded.h"

static __global__ void read_past_the_end(const float *a, float *b) {
    const int i = 2047 + threadIdx.x;
    hbm_store(&b[threadIdx.x], hbm_load(&a[i])); // BUG read-past-the-end
}
static attn_status run_read_past_the_end(seeded_memory m) {
    return GPU_LAUNCH(read_past_the_end, 1, 2, 0, m.a, m.b);
}

static __global__ void write_before_the_start(float *b) {
    hbm_store(b - 1, 1.0f); // BUG write-before-the-start
}
static attn_status run_write_before_the_start(seeded_memory m) {
    return GPU_LAUNCH(write_before_the_start, 1, 1, 0, m.b);
}

static __global__ void read_half_outside(const float *a, float *b) {
    const float4 v = hbm_load((const float4 *)(a + 2048)); // BUG read-half-outside
    hbm_store(b, v.x);
}
static attn_status run_read_half_outside(seeded_memory m) {
    return GPU_LAUNCH(read_half_outside, 1, 1, 0, m.a, m.b);
}

static __global__ void unmarked_read(const float *a, float *b) {
    hbm_store(&b[threadIdx.x], a[threadIdx.x]); // BUG unmarked-read
}
static attn_status run_unmarked_read(seeded_memory m) {
    return GPU_LAUNCH(unmarked_read, 1, 32, 0, m.a, m.b);
}

static __global__ void unmarked_write(float *b) {
    b[threadIdx.x + 3] = 1; // BUG unmarked-write
}
static attn_status run_unmarked_write(seeded_memory m) {
    return GPU_LAUNCH(unmarked_write, 1, 32, 0, m.b);
}

static __global__ void unmarked_atomic(float *b) {
    atomicAdd(b, 1.0f); // BUG unmarked-atomic
}
static attn_status run_unmarked_atomic(seeded_memory m) {
    return GPU_LAUNCH(unmarked_atomic, 1, 1, 0, m.b);
}

static __global__ void misaligned(const float *a, float *b) {
    const float4 v = hbm_load((const float4 *)(a + 1)); // BUG misaligned
    hbm_store(b, v.x);
}
static attn_status run_misaligned(seeded_memory m) {
    return GPU_LAUNCH(misaligned, 1, 1, 0, m.a, m.b);
}

static __global__ void shared_taken_for_device(float *b) {
    GPU_SHARED(float, tile, [32]);
    tile[threadIdx.x] = 0;
    hbm_store(b, hbm_load(&tile[threadIdx.x])); // BUG shared-taken-for-device
}
static attn_status run_shared_taken_for_device(seeded_memory m) {
    return GPU_LAUNCH(shared_taken_for_device, 1, 32, 0, m.b);
}

static __global__ void wild_pointer(float *nowhere) {
    *nowhere = 1; // BUG wild-pointer
}
static attn_status run_wild_pointer(seeded_memory) {
    return GPU_LAUNCH(wild_pointer, 1, 1, 0, (float *)64);
}

static __global__ void use_after_release(float *gone) {
    hbm_store(gone, 1.0f); // BUG use-after-release
}
static attn_status run_use_after_release(seeded_memory) {
    void *gone;
    ATTN_TRY(gpu_device()->allocate("gone", 64, &gone));
    gpu_device()->release(gone);
    return GPU_LAUNCH(use_after_release, 1, 1, 0, (float *)gone);
}

// Recursion that no compiler turns into a loop.
static __device__ int deeper(volatile int *below, int n) { // BUG stack-overflow
    volatile int here[1024];
    here[n % 1024] = n + (below ? below[n % 1024] : 0);
    return n ? deeper(here, n - 1) + here[n % 1024] : 0;
}
static __global__ void stack_overflow(float *b, int depth) {
    hbm_store(b, (float)deeper(nullptr, depth));
}
static attn_status run_stack_overflow(seeded_memory m) {
    return GPU_LAUNCH(stack_overflow, 1, 1, 0, m.b, 100);
}

static attn_status run_host_access(seeded_memory m) {
    volatile float *p = m.a + 5;
    return *p == 5 ? attn_ok() : attn_ok();
}

static attn_status run_memset_past_the_end(seeded_memory m) {
    return gpu_memset(m.b + 1, 0, 2048 * sizeof(float));
}

// ---- found under the checks only ----
static __global__ void unwritten(const float *c, float *b) {
    hbm_store(&b[threadIdx.x], hbm_load(&c[threadIdx.x + 7])); // BUG unwritten
}
static attn_status run_unwritten(seeded_memory m) {
    return GPU_LAUNCH(unwritten, 1, 32, 0, m.c, m.b);
}

static __global__ void write_then_read(float *b, float *c) {
    if (blockIdx.x == 0)
        hbm_store(b, 1.0f); // block 1 reads it: before or after?
    else
        hbm_store(&c[blockIdx.x], hbm_load(b)); // BUG blocks-write-then-read
}
static attn_status run_write_then_read(seeded_memory m) {
    return GPU_LAUNCH(write_then_read, 2, 1, 0, m.b, m.c);
}

static __global__ void read_then_write(float *b, float *c) {
    if (blockIdx.x == 0)
        hbm_store(c, hbm_load(b));
    else
        hbm_store(b, 1.0f); // BUG blocks-read-then-write
}
static attn_status run_read_then_write(seeded_memory m) {
    return GPU_LAUNCH(read_then_write, 2, 1, 0, m.b, m.c);
}

static __global__ void write_twice(float *b) {
    hbm_store(b, (float)blockIdx.x); // BUG blocks-write-twice
}
static attn_status run_write_twice(seeded_memory m) {
    return GPU_LAUNCH(write_twice, 2, 1, 0, m.b);
}

static __global__ void write_2_bytes_twice(uint16_t *b) {
    hbm_store(b, (uint16_t)blockIdx.x); // BUG blocks-write-2-bytes-twice
}
static attn_status run_write_2_bytes_twice(seeded_memory m) {
    return GPU_LAUNCH(write_2_bytes_twice, 2, 1, 0, (uint16_t *)m.b);
}

static __global__ void sum_without_atomics(float *b) {
    hbm_store(b, hbm_load(b) + 1); // BUG blocks-sum-without-atomics
}
static attn_status run_sum_without_atomics(seeded_memory m) {
    return GPU_LAUNCH(sum_without_atomics, 8, 1, 0, m.b);
}

static __global__ void atomic_then_plain(float *b, float *c) {
    if (blockIdx.x == 0)
        hbm_atomic_add(b, 1.0f);
    else
        hbm_store(c, hbm_load(b)); // BUG blocks-atomic-then-plain
}
static attn_status run_atomic_then_plain(seeded_memory m) {
    return GPU_LAUNCH(atomic_then_plain, 2, 1, 0, m.b, m.c);
}

// The race is the same whichever block comes first; so is the line, where both are on one.
static const char unmarked_a[] =
    "access to device memory without hbm_load or hbm_store, tensor a + 0 of";
static const char unmarked_b[] =
    "access to device memory without hbm_load or hbm_store, tensor b + 12 of";
static const char past_the_end[] = "kernel read_past_the_end, block (0,0,0), thread (1,0,0): "
                                   "out-of-bounds read of 4 bytes in device "
                                   "memory, tensor a + 8192 of 8192 bytes";
#define BOTH(text) text, text
static const seeded_case cases[] = {
    {"read-past-the-end", run_read_past_the_end, BOTH(past_the_end), NULL, 0},
    {"write-before-the-start", run_write_before_the_start,
     BOTH("out-of-bounds write of 4 bytes in device memory, tensor b - 4 of 8192 bytes"), NULL, 0},
    {"read-half-outside", run_read_half_outside,
     BOTH("out-of-bounds read of 16 bytes in device memory, tensor a + 8192 of 8192 bytes"), NULL,
     0},
    {"unmarked-read", run_unmarked_read, BOTH(unmarked_a), NULL, 0},
    {"unmarked-write", run_unmarked_write, BOTH(unmarked_b), NULL, 0},
    {"unmarked-atomic", run_unmarked_atomic,
     BOTH("atomicAdd on device memory, tensor b + 0 of 8192 bytes: write hbm_atomic_add"), NULL, 0},
    {"misaligned", run_misaligned,
     BOTH("misaligned read of 16 bytes in device memory, tensor a + 4 of 8192 bytes"), NULL, 0},
    {"shared-taken-for-device", run_shared_taken_for_device,
     BOTH("read of device memory at an address that is not device memory"), NULL, 0},
    {"wild-pointer", run_wild_pointer, BOTH("access to an address that is no memory"), NULL, 0},
    {"use-after-release", run_use_after_release,
     BOTH("out-of-bounds write of 4 bytes in device memory, no tensor at this address"), NULL, 0},
    {"stack-overflow", run_stack_overflow, BOTH("the thread's stack overflows"), NULL, 1},
    {"host-access", run_host_access,
     BOTH("host code touches device memory, tensor a + 20 of 8192 bytes: download it first"), NULL,
     1},
    {"memset-past-the-end", run_memset_past_the_end,
     BOTH("gpu_memset of 8192 bytes does not lie inside one device buffer: tensor b + 4"), NULL, 1},
    {"unwritten", run_unwritten, NULL,
     "read of device memory that nothing has written, tensor c + 28 of 8192 bytes", NULL, 0},
    {"blocks-write-then-read", run_write_then_read, NULL,
     "device-memory race: read of what was written by block 0 in the same launch, tensor b + 0",
     NULL, 0},
    {"blocks-read-then-write", run_read_then_write, NULL,
     "device-memory race: write of what was read by block 0 in the same launch, tensor b + 0", NULL,
     0},
    {"blocks-write-twice", run_write_twice, NULL,
     "device-memory race: write of what was written by block", NULL, 0},
    {"blocks-write-2-bytes-twice", run_write_2_bytes_twice, NULL,
     "device-memory race: write of what was written by block", NULL, 0},
    {"blocks-sum-without-atomics", run_sum_without_atomics, NULL, "device-memory race: ", NULL, 0},
    {"blocks-atomic-then-plain", run_atomic_then_plain, NULL,
     "device-memory race: read of what was written by block 0 in the same launch, tensor b + 0",
     NULL, 0},
};
SEEDED_TABLE(seeded_memory_cases, cases)
