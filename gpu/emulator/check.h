// check.h -- the check build: what a GPU cannot tell cheaply, found while a kernel runs.
//
// The kernels are compiled with -fsanitize=thread, which announces every memory access to functions
// that check_callbacks.c supplies in place of the sanitizer's own. From there an access goes to
//   check_shared.c     bounds, alignment, uninitialised reads and races in shared memory
//   check_memory.c     uninitialised reads and races between blocks in device memory
//   check_requests.c   what a warp's accesses cost: bank conflicts, 32-byte sectors
//   check_launches.c   the same, summed up by launch
#ifndef GPU_EMULATOR_CHECK_H
#define GPU_EMULATOR_CHECK_H

#include "gpu/emulator/runtime.h"

typedef struct emu_shared_shadow emu_shared_shadow;
typedef struct emu_requests emu_requests;

// What the checks know of a block; kept with its OS thread's emu_block.
typedef struct emu_block_check {
    emu_shared_shadow *shared;
    emu_requests *requests;
    uint32_t epoch; // barriers so far, of all blocks of this OS thread
    // Happens-before within a warp: what each thread knows of the clocks of its warp's lanes. A lane's own
    // clock advances when it passes a __syncwarp; passing one, lanes learn one another's.
    uint32_t clock[EMU_MAX_THREADS][EMU_WARP];
} emu_block_check;

emu_block_check *emu_check_of(emu_block *block);

// check_shared.c
emu_shared_shadow *emu_shadow_new(void);
void emu_shadow_block_start(emu_block *block);
void emu_shadow_access(emu_thread *thread, void *address, size_t bytes, int kind, emu_site site);
void emu_shadow_copy_issued(emu_thread *thread, void *to, size_t bytes, emu_site site);
void emu_shadow_copy_landed(emu_thread *thread, void *to, size_t bytes);
enum { EMU_UNALIGNED = 8 }; // a flag beside emu_kind: the compiler promised no alignment

// check_memory.c
attn_status emu_device_shadow_open(size_t span);
void emu_device_shadow_fresh(size_t offset, size_t bytes);
void emu_device_shadow_written(size_t offset, size_t bytes);
void emu_device_shadow_access(emu_thread *thread, size_t offset, size_t bytes, int kind,
                              emu_site site);
enum { EMU_DEVICE_SHADOW_COST = 9 }; // bytes of memory for a byte, the byte included

// check_requests.c
emu_requests *emu_requests_new(void);
void emu_requests_add(emu_thread *thread, uintptr_t address, size_t bytes, int kind, int device,
                      emu_site site);
void emu_requests_flush(emu_block *block, int warp); // its lanes are at the same place
void emu_requests_gather(emu_block *block);          // adds the block's to the module's
void emu_requests_print(FILE *file);

// check_launches.c
void emu_launches_add(const char *kernel, int device, int kind, uint64_t paid, uint64_t ideal);
void emu_launches_print(FILE *file);

#endif
