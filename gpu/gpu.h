// gpu.h -- the one header a .cu file includes; what it may use beyond plain CUDA C.
//
// The same source has two compilers: nvcc for a GPU, and g++ or clang++ (-x c++) for the emulator in
// gpu/emulator, which runs it on the CPU, counts its bytes and finds its mistakes. What a kernel
// author must know is in gpu/README.md; in short:
//
//   launch     GPU_LAUNCH(kernel, grid, block, dynamic_shared_bytes, arguments...)  -> attn_status;
//              a template instance in parentheses: GPU_LAUNCH((scores<64, 64>), grid, 256, 0, q, k, s)
//              gpu_memset(pointer, byte, bytes) -> attn_status; counts as written
//   device     hbm_load(p)  hbm_store(p, v)  hbm_atomic_add(p, v)  -- every access to device memory,
//   memory     of 1 to 16 bytes, naturally aligned: float, float4, int, uint16_t ...
//              hbm_atomic_add4(p, v)                   a float4: four atomic additions, side by side
//   shared     GPU_SHARED(float, tile, [64][65]);      static, at most 48 KB a block
//   memory     GPU_DYNAMIC_SHARED(float, tile);        what the launch asked for
//              shared_load4(p)  shared_store4(p, v)    a float4 in one request
//              atomicAdd(p, v)                         on shared memory
//   copies     cp_async4(shared, device)  cp_async16(shared, device)  cp_async_commit()
//              cp_async_wait<N>()                      all but the last N groups have arrived
//   threads    threadIdx blockIdx blockDim gridDim  __syncthreads() __syncwarp() __shfl_*sync()
//              __ballot_sync() __any_sync() __all_sync()
//
// Under nvcc the marks cost nothing: hbm_load(p) is *p, hbm_store(p, v) is *p = v.
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "gpu/device.h"

#if defined(__CUDACC__)
#include "gpu/cuda/kernel.h"
#else
#include "gpu/emulator/kernel.h"
#endif

#endif
