// gpus.h -- the GPU that the emulator stands for: what a block may have, and what its caches hold.
#ifndef GPU_EMULATOR_GPUS_H
#define GPU_EMULATOR_GPUS_H

#include "cpu/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct emu_gpu {
    const char *name;
    int block_shared_kb;            // shared memory that one block may have
    int threads, blocks, shared_kb; // of a multiprocessor at a time
    int multiprocessors, l2_mb;     // reported by cudaGetDeviceProperties; MB of 2^20 bytes
} emu_gpu;

// Reads EMULATED_GPU: "A100", or "H200/8" for an eighth of one (of its multiprocessors and of its L2):
// what such a part does with an eighth of the heads, the whole does with all of them.
attn_status emu_gpu_choose(void);
const emu_gpu *emu_gpu_chosen(void);
// Number `index` of the table, and what it gives a block; NULL after the last.
const char *emu_gpu_known(int index, uint64_t *shared_bytes);
const char *emu_gpu_name(void);    // "H200/8"
size_t emu_shared_limit(void);     // bytes a block may have
int emu_gpu_multiprocessors(void); // of the part, at least 1
size_t emu_gpu_l2_bytes(void);     // of the part, in proportion to its multiprocessors

#endif
