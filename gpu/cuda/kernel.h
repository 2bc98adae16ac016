// kernel.h -- gpu.h for nvcc: the marks are plain accesses, the collectives CUDA's own.
#ifndef GPU_CUDA_KERNEL_H
#define GPU_CUDA_KERNEL_H

#include "cpu/status.h"

#include <cuda_runtime.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
// Both in launch.cu. Lets the kernel have that much dynamic shared memory:
void gpu_cuda_prepare(const void *function, size_t shared_bytes);
// Words a launch's error, a cudaError_t; ATTN_OK for none:
attn_status gpu_cuda_launched(const char *kernel, const void *function, uint3 grid, uint3 block,
                              size_t shared_bytes, int error);
#ifdef __cplusplus
}
#endif

// Keeps a function's parameter out of template deduction: it converts to T as in a plain call.
template <class T> struct gpu_plain { typedef T type; };
template <class... P>
static attn_status gpu_cuda_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                   size_t shared_bytes, typename gpu_plain<P>::type... arguments) {
    gpu_cuda_prepare((const void *)kernel, shared_bytes);
    void *addresses[] = {(void *)&arguments..., nullptr};
    const cudaError_t error =
        cudaLaunchKernel((const void *)kernel, grid, block, addresses, shared_bytes, 0);
    return gpu_cuda_launched(name, (const void *)kernel, grid, block, shared_bytes, (int)error);
}
#define GPU_LAUNCH(kernel, grid, block, dynamic_shared_bytes, ...) \
    gpu_cuda_launch(#kernel, (kernel), (grid), (block), (dynamic_shared_bytes), ##__VA_ARGS__)

#if defined(ATTN_COUNT)
#include "gpu/cuda/count.h"
#define hbm_load(p)          gpu_counted_load((p))
#define hbm_store(p, v)      gpu_counted_store((p), (v))
#define hbm_atomic_add(p, v) gpu_counted_atomic_add((p), (v))
#else
#define gpu_count(address, bytes, kind) ((void)0)
#define hbm_load(p)                     (*(p))
#define hbm_store(p, v)                 ((void)(*(p) = (v)))
#define hbm_atomic_add(p, v)            atomicAdd((p), (v))
#endif

// The four numbers are added one by one, each atomically. Compute capability 9.0 has one request for it.
static __device__ __forceinline__ void hbm_atomic_add4(float *p, float4 v) {
    gpu_count(p, 16, GPU_COUNT_READ | GPU_COUNT_WRITE);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    atomicAdd((float4 *)p, v);
#else
    atomicAdd(p, v.x), atomicAdd(p + 1, v.y), atomicAdd(p + 2, v.z), atomicAdd(p + 3, v.w);
#endif
}

#define GPU_SHARED(type, name, dims) __shared__ __align__(16) type name dims
#define GPU_DYNAMIC_SHARED(type, name)                                  \
    extern __shared__ __align__(16) unsigned char gpu_dynamic_shared[]; \
    type *name = (type *)gpu_dynamic_shared
#define shared_load4(p)     (*(const float4 *)(p))
#define shared_store4(p, v) ((void)(*(float4 *)(p) = (v)))

// ---- cp.async (PTX ISA, "cp.async"; compute capability 8.0 on) ----
// .ca caches in L1, .cg only in L2; 4 bytes exist as .ca alone. On older GPUs a plain copy serves:
// it has arrived when the next __syncthreads lets others read it.
static __device__ __forceinline__ void cp_async4(void *shared, const void *device) {
    gpu_count(device, 4, GPU_COUNT_READ);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(shared)),
                 "l"(device)
                 : "memory");
#else
    *(float *)shared = *(const float *)device;
#endif
}
static __device__ __forceinline__ void cp_async16(void *shared, const void *device) {
    gpu_count(device, 16, GPU_COUNT_READ);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(shared)),
                 "l"(device)
                 : "memory");
#else
    *(float4 *)shared = *(const float4 *)device;
#endif
}
static __device__ __forceinline__ void cp_async_commit(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int groups_left> static __device__ __forceinline__ void cp_async_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
#endif
}

#endif
