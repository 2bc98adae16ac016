// device_cuda.h -- the GPU as device.cu sees it, for the builds that stand on it.
//
// gpu_device() and gpu_memset() (gpu/device.h) are these two; in the counting build, count.cu puts its
// own in their place.
#ifndef GPU_CUDA_DEVICE_CUDA_H
#define GPU_CUDA_DEVICE_CUDA_H

#include "gpu/device.h"

attn_device gpu_cuda_device(void);
attn_status gpu_cuda_memset(void *memory, int byte, size_t bytes);

#endif
