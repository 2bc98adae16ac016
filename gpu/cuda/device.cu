// device.cu -- a GPU, through the CUDA runtime, as an attn_device (cpu/stage.h).
//
// Everything goes to the default stream, so that copies and memsets are in order with the kernels.
#include "gpu/cuda/device_cuda.h"
#include "gpu/cuda/error.h"

#include <stdio.h>
#include <string.h>

attn_status gpu_cuda_error(const char *doing, cudaError_t error) {
    if (error == cudaSuccess) return attn_ok();
    cudaGetLastError();
    if (error == cudaErrorMemoryAllocation)
        return attn_error(ATTN_NO_MEMORY, "%s: the GPU has not enough free memory", doing);
    const char *advice = "";
    if (error == cudaErrorIllegalAddress || error == cudaErrorMisalignedAddress ||
        error == cudaErrorLaunchFailure)
        advice = "; run the same with DEVICE=check, which names the place";
    if (error == cudaErrorInsufficientDriver)
        advice =
            "; there is no NVIDIA driver, or it is older than the CUDA toolkit that built this";
    return attn_error(ATTN_DEVICE, "%s: CUDA says %s%s", doing, cudaGetErrorString(error), advice);
}

static attn_status device_open(void) {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
        cudaGetLastError();
        return attn_error(ATTN_DEVICE, "there is no NVIDIA GPU here");
    }
    ATTN_TRY(gpu_cuda_error("looking for a GPU", error));
    return gpu_cuda_error("starting the GPU", cudaFree(NULL));
}

static void device_describe(char *text, size_t size) {
    int device = 0, version = 0;
    cudaDeviceProp gpu;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaGetDeviceProperties(&gpu, device) != cudaSuccess ||
        cudaRuntimeGetVersion(&version) != cudaSuccess) {
        cudaGetLastError();
        snprintf(text, size, "a GPU that does not answer");
        return;
    }
    snprintf(text, size, "%s, compute capability %d.%d, CUDA %d.%d", gpu.name, gpu.major, gpu.minor,
             version / 1000, version % 1000 / 10);
}

static attn_status device_allocate(const char *name, size_t bytes, void **memory) {
    *memory = NULL;
    size_t unused = 0, total = 0;
    cudaError_t error = cudaMalloc(memory, bytes ? bytes : 1); // NULL would look like a failure
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&unused, &total);
        return attn_error(ATTN_NO_MEMORY,
                          "%s needs %.1f MB of GPU memory; %.1f of %.1f MB are free", name,
                          (double)bytes / 1e6, (double)unused / 1e6, (double)total / 1e6);
    }
    ATTN_TRY(gpu_cuda_error(name, error));
    error = cudaMemset(*memory, 0xff, bytes);
    if (error != cudaSuccess) {
        cudaFree(*memory);
        *memory = NULL;
    }
    return gpu_cuda_error(name, error);
}

static void device_release(void *memory) {
    cudaFree(memory);
}

static attn_status device_upload(void *to_device, const void *from_host, size_t bytes) {
    return gpu_cuda_error("copying to the GPU",
                          cudaMemcpy(to_device, from_host, bytes, cudaMemcpyHostToDevice));
}

static attn_status device_download(void *to_host, const void *from_device, size_t bytes) {
    return gpu_cuda_error("copying from the GPU",
                          cudaMemcpy(to_host, from_device, bytes, cudaMemcpyDeviceToHost));
}

static attn_status device_synchronize(void) {
    return gpu_cuda_error("a kernel on the GPU", cudaDeviceSynchronize());
}

static uint64_t device_free_bytes(void) {
    size_t unused = 0, total = 0;
    if (cudaMemGetInfo(&unused, &total) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return unused;
}

attn_status gpu_cuda_memset(void *memory, int byte, size_t bytes) {
    return gpu_cuda_error("gpu_memset", cudaMemsetAsync(memory, byte, bytes, 0));
}

int gpu_multiprocessors(void) {
    int device = 0, count = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        cudaGetLastError();
    return count > 0 ? count : 1;
}

uint64_t gpu_shared_bytes(void) {
    int device = 0, bytes = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
            cudaSuccess)
        cudaGetLastError();
    return (uint64_t)bytes;
}

// Reads far more than the L2 holds, so that nothing else is left in it and what is left is not dirty.
// ncu.sh knows this kernel by its name: what comes after the last one is the pass.
__global__ void empty_l2(const float4 *scratch, size_t count, float *never) {
    float sum = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        sum += scratch[i].x;
    if (sum == 1) *never = sum; // sums of zeros are not 1, but the compiler does not know
}

static attn_status device_empty_l2(void) {
    const size_t bytes = (size_t)1 << 30;
    void *scratch = NULL;
    ATTN_TRY(gpu_cuda_error("emptying the L2", cudaMalloc(&scratch, bytes)));
    cudaError_t error = cudaMemset(scratch, 0, bytes);
    if (error == cudaSuccess) {
        empty_l2<<<1024, 256>>>((const float4 *)scratch, bytes / sizeof(float4), (float *)scratch);
        error = cudaDeviceSynchronize();
    }
    cudaFree(scratch);
    return gpu_cuda_error("emptying the L2", error);
}

static cudaEvent_t start_event, stop_event;

static void device_timer_start(void) {
    if (!start_event) {
        cudaEventCreate(&start_event);
        cudaEventCreate(&stop_event);
    }
    cudaEventRecord(start_event, 0);
}

static double device_timer_stop(void) {
    float milliseconds = 0;
    cudaEventRecord(stop_event, 0);
    cudaEventSynchronize(stop_event);
    cudaEventElapsedTime(&milliseconds, start_event, stop_event);
    return 1e-3 * (double)milliseconds;
}

attn_device gpu_cuda_device(void) {
    attn_device device; // C++17 has no designated initializers
    memset(&device, 0, sizeof device);
    device.kind = "gpu";
    device.open = device_open;
    device.describe = device_describe;
    device.allocate = device_allocate;
    device.release = device_release;
    device.upload = device_upload;
    device.download = device_download;
    device.synchronize = device_synchronize;
    device.free_bytes = device_free_bytes;
    device.timer_start = device_timer_start;
    device.timer_stop = device_timer_stop;
    device.empty_l2 = device_empty_l2;
    return device;
}

#if !defined(ATTN_COUNT)
const attn_device *gpu_device(void) {
    static attn_device device;
    device = gpu_cuda_device();
    return &device;
}

attn_status gpu_memset(void *memory, int byte, size_t bytes) {
    return gpu_cuda_memset(memory, byte, bytes);
}
#endif
