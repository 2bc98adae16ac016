// device.h -- what host code may ask of the device: memory and copies (cpu/stage.h), a memset, its size.
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include "cpu/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

// The device that this module's kernels run on: a GPU through CUDA, or the emulator, plain or with
// the checks. Its functions are described in cpu/stage.h.
const attn_device *gpu_device(void);

// Fills device memory with one byte value, in order with the kernels; counted as bytes written.
// ATTN_BAD_INPUT when [memory, memory + bytes) is not inside one allocation (emulator).
attn_status gpu_memset(void *memory, int byte, size_t bytes);

// Multiprocessors of the GPU that kernels run on, on the emulator of the one it stands for; at least 1.
// For deciding how many blocks a problem is cut into. Ask after the device has been opened.
int gpu_multiprocessors(void);

// Bytes of shared memory that this GPU gives a block, for choosing a tile size. Ask as above.
uint64_t gpu_shared_bytes(void);

#ifdef __cplusplus
}
#endif
#endif
