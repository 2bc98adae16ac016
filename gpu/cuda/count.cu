// count.cu -- the counting build (ATTN_COUNT): a GPU that knows by tensor what its kernels asked for.
//
// It is the device "count": the same kernels, with the counters of count.h in every access. Its time
// means nothing, and it has no timer.
#include "gpu/cuda/device_cuda.h"
#include "gpu/cuda/error.h"
#include "gpu/gpu.h"

#include <stdio.h>
#include <string.h>

__device__ gpu_counters gpu_counters_on_device;

static gpu_counters counters; // what was last copied to the GPU or from it
static char names[GPU_COUNT_TENSORS][16];
static attn_traffic traffic; // of what is not in the GPU's counters any more
static attn_status failed = {ATTN_OK, ""};

// Fetches what was counted so far and starts again from the tensors of `names`, `counters`. Waits for
// the kernels.
static void gather(void) {
    const size_t all = sizeof counters;
    gpu_counters fresh;
    cudaError_t error = cudaMemcpyFromSymbol(&fresh, gpu_counters_on_device, all);
    for (int copy = 0; error == cudaSuccess && copy < GPU_COUNT_COPIES; copy++)
        for (int t = 0; t <= GPU_COUNT_TENSORS; t++) {
            const unsigned long long *bytes = fresh.bytes[copy][t];
            if (bytes[0] | bytes[1])
                attn_traffic_add(&traffic, t < GPU_COUNT_TENSORS ? names[t] : "outside", bytes[0],
                                 bytes[1]);
        }
    if (error == cudaSuccess) error = cudaMemcpyToSymbol(gpu_counters_on_device, &counters, all);
    if (failed.code == ATTN_OK) failed = gpu_cuda_error("counting bytes", error);
}

static attn_status count_allocate(const char *name, size_t bytes, void **memory) {
    gather(); // under the names that hold until now
    ATTN_TRY(failed);
    if (counters.tensors == GPU_COUNT_TENSORS)
        return attn_error(ATTN_NO_MEMORY, "%s: bytes are counted for at most %d tensors", name,
                          GPU_COUNT_TENSORS);
    ATTN_TRY(gpu_cuda_device().allocate(name, bytes, memory));
    const int t = counters.tensors++;
    snprintf(names[t], sizeof names[t], "%s", name);
    counters.begin[t] = (unsigned long long)*memory;
    counters.end[t] = counters.begin[t] + bytes;
    gather();
    return failed;
}

static void count_release(void *memory) {
    gather();
    for (int t = 0; t < counters.tensors; t++) {
        if (counters.begin[t] != (unsigned long long)memory) continue;
        const int last = --counters.tensors;
        memmove(names[t], names[last], sizeof names[t]);
        counters.begin[t] = counters.begin[last], counters.end[t] = counters.end[last];
        break;
    }
    gather();
    gpu_cuda_device().release(memory);
}

static attn_status count_synchronize(void) {
    ATTN_TRY(gpu_cuda_device().synchronize());
    gather();
    return failed;
}

static void count_reset_traffic(void) {
    gather();
    memset(&traffic, 0, sizeof traffic);
}

static void count_traffic(attn_traffic *copy) {
    gather();
    *copy = traffic;
}

attn_status gpu_memset(void *memory, int byte, size_t bytes) {
    const unsigned long long at = (unsigned long long)memory;
    int t = 0;
    while (t < counters.tensors && !(at >= counters.begin[t] && at + bytes <= counters.end[t])) t++;
    attn_traffic_add(&traffic, t < counters.tensors ? names[t] : "outside", 0, bytes);
    return gpu_cuda_memset(memory, byte, bytes);
}

const attn_device *gpu_device(void) {
    static attn_device device;
    device = gpu_cuda_device();
    device.kind = "count";
    device.allocate = count_allocate;
    device.release = count_release;
    device.synchronize = count_synchronize;
    device.reset_traffic = count_reset_traffic;
    device.traffic = count_traffic;
    device.timer_start = NULL;
    device.timer_stop = NULL;
    return &device;
}
