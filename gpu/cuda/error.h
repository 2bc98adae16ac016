// error.h -- a CUDA error as an attn_status: what was being done, CUDA's words, what may help.
#ifndef GPU_CUDA_ERROR_H
#define GPU_CUDA_ERROR_H

#include "cpu/status.h"

#include <cuda_runtime.h>

// ATTN_OK for cudaSuccess; ATTN_NO_MEMORY when memory ran out; else ATTN_DEVICE.
attn_status gpu_cuda_error(const char *doing, cudaError_t error);

#endif
