// l2_probe.cu -- how much an L2 cache keeps: the experiment behind the constants of gpu/emulator/dram.c.
//
// Reads (or writes) W MB three times, a kernel each time; how many bytes of the second and third reach
// DRAM, Nsight Compute says. `shift` moves the work by that many blocks from one kernel to the next, so
// that other multiprocessors ask for the same lines. plots/recorded/l2-probe-h200.csv is what came of
//
//   nvcc -arch=sm_90 -O3 tests/l2-probe/l2_probe.cu -o l2_probe
//   ncu --csv --page raw --print-units base --cache-control none --clock-control none
//       --metrics dram__bytes_read.sum,dram__bytes_write.sum ./l2_probe 44 0 read
//
//   l2_probe W shift read|write      W in MB of 2^20 bytes
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

enum { THREADS = 1024 };

__global__ void empty_l2(const float4 *scratch, size_t count, float *never) {
    float sum = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        sum += scratch[i].x;
    if (sum == 1) *never = sum;
}

// Block b has a contiguous share of the array; __ldcg reads through the L2 and not the L1.
__global__ void sweep_read(const float4 *array, size_t count, int shift, float *never) {
    const size_t share = count / gridDim.x, block = (blockIdx.x + shift) % gridDim.x;
    float sum = 0;
    for (size_t i = threadIdx.x; i < share; i += THREADS)
        sum += __ldcg(&array[block * share + i]).x;
    if (sum == 1) *never = sum;
}

__global__ void sweep_write(float4 *array, size_t count, int shift) {
    const size_t share = count / gridDim.x, block = (blockIdx.x + shift) % gridDim.x;
    for (size_t i = threadIdx.x; i < share; i += THREADS)
        array[block * share + i] = make_float4(1, 2, 3, 4);
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "l2_probe W shift read|write\n"), 2;
    const size_t bytes = (size_t)atol(argv[1]) << 20, scratch_bytes = (size_t)1 << 30;
    const int shift = atoi(argv[2]), write = strcmp(argv[3], "write") == 0;
    float4 *array, *scratch;
    cudaDeviceProp gpu;
    cudaGetDeviceProperties(&gpu, 0);
    cudaMalloc((void **)&array, bytes);
    cudaMalloc((void **)&scratch, scratch_bytes);
    cudaMemset(array, 0, bytes);
    cudaMemset(scratch, 0, scratch_bytes);
    empty_l2<<<1024, 256>>>(scratch, scratch_bytes / sizeof *scratch, (float *)scratch);
    for (int pass = 0; pass < 3; pass++) {
        if (write)
            sweep_write<<<gpu.multiProcessorCount, THREADS>>>(array, bytes / sizeof *array,
                                                              pass * shift);
        else
            sweep_read<<<gpu.multiProcessorCount, THREADS>>>(array, bytes / sizeof *array,
                                                             pass * shift, (float *)scratch);
    }
    const cudaError_t error = cudaDeviceSynchronize();
    printf("%s: L2 of %d bytes: %s\n", gpu.name, gpu.l2CacheSize, cudaGetErrorString(error));
    return error != cudaSuccess;
}
