// launch.cu -- what a kernel launch needs besides <<<>>>, and its errors in words.
#include "gpu/cuda/error.h"
#include "gpu/gpu.h"

void gpu_cuda_prepare(const void *function, size_t shared_bytes) {
    if (shared_bytes == 0) return;
    // Above 48 KB, static and dynamic together, a kernel must opt in. Where it asks for more than there
    // is this fails, and so does the launch: gpu_cuda_launched has the words for it.
    cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    cudaGetLastError();
}

attn_status gpu_cuda_launched(const char *kernel, const void *function, uint3 grid, uint3 block,
                              size_t shared_bytes, int error) {
    if (error == cudaSuccess) return attn_ok();
    cudaGetLastError(); // the error is told here: it shall not come up again elsewhere
    int device = 0;
    cudaDeviceProp gpu;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaGetDeviceProperties(&gpu, device) != cudaSuccess)
        return gpu_cuda_error(kernel, (cudaError_t)error);

    cudaFuncAttributes needs;
    const cudaError_t lookup = cudaFuncGetAttributes(&needs, function);
    cudaGetLastError();
    if (error == cudaErrorNoKernelImageForDevice || lookup == cudaErrorNoKernelImageForDevice ||
        error == cudaErrorInvalidDeviceFunction || error == cudaErrorUnsupportedPtxVersion)
        return attn_error(
            ATTN_DEVICE,
            "kernel %s was not built for the %s (compute capability %d.%d): rebuild with "
            "make ARCH=%d%d",
            kernel, gpu.name, gpu.major, gpu.minor, gpu.major, gpu.minor);
    if (lookup != cudaSuccess) return gpu_cuda_error(kernel, (cudaError_t)error);

    if (needs.sharedSizeBytes + shared_bytes > gpu.sharedMemPerBlockOptin)
        return attn_error(
            ATTN_BAD_INPUT,
            "kernel %s needs %zu bytes of shared memory (%zu of them dynamic); the %s "
            "allows a block %zu: choose smaller tiles",
            kernel, needs.sharedSizeBytes + shared_bytes, shared_bytes, gpu.name,
            gpu.sharedMemPerBlockOptin);
    const unsigned long long threads = (unsigned long long)block.x * block.y * block.z;
    if (threads == 0 || threads > (unsigned)needs.maxThreadsPerBlock ||
        block.z > (unsigned)gpu.maxThreadsDim[2])
        return attn_error(
            ATTN_BAD_INPUT,
            "kernel %s: a block of (%u,%u,%u) threads; this kernel, with %d registers a "
            "thread, allows 1 to %d on the %s, and at most %d in z",
            kernel, block.x, block.y, block.z, needs.numRegs, needs.maxThreadsPerBlock, gpu.name,
            gpu.maxThreadsDim[2]);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > (unsigned)gpu.maxGridSize[0] ||
        grid.y > (unsigned)gpu.maxGridSize[1] || grid.z > (unsigned)gpu.maxGridSize[2])
        return attn_error(
            ATTN_BAD_INPUT,
            "kernel %s: a grid of (%u,%u,%u) blocks; allowed are 1 to %d, 1 to %d and 1 to %d",
            kernel, grid.x, grid.y, grid.z, gpu.maxGridSize[0], gpu.maxGridSize[1],
            gpu.maxGridSize[2]);
    return gpu_cuda_error(kernel, (cudaError_t)error);
}
