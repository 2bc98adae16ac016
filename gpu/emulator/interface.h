// interface.h -- what the emulated kernel (C++, kernel.h) asks of the emulator's runtime (C).
#ifndef GPU_EMULATOR_INTERFACE_H
#define GPU_EMULATOR_INTERFACE_H

#include "cpu/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reading a thread-local variable of a dlopen'ed library normally takes a function call. glibc keeps
// a little static room for such libraries, and this model uses it: one instruction. Others call.
#if defined(__GLIBC__)
#define EMU_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))
#else
#define EMU_THREAD_LOCAL __thread
#endif

typedef struct uint3 {
    unsigned x, y, z;
} uint3;

// Where the running GPU thread is. NULL outside kernels.
typedef struct emu_place {
    uint3 thread, block, block_dim, grid_dim;
    int lane; // of its warp, 0 to 31
} emu_place;
extern EMU_THREAD_LOCAL const emu_place *emu_here;

// Sites ("file:line") are string literals that outlive the launch; findings quote them.

// ---- launch ----
// Runs `thread_main(arguments)` once for each thread of each block. Blocks run in any order, on
// OpenMP threads where there are some. ATTN_BAD_INPUT for a shape or a size that a GPU refuses;
// ATTN_DEVICE with the finding's sentence when the kernel did something that it must not do.
attn_status emu_launch(const char *kernel, uint3 grid, uint3 block, size_t dynamic_shared_bytes,
                       void (*thread_main)(const void *arguments), const void *arguments);

// ---- device memory ----
typedef enum emu_kind {
    EMU_READ = 1,
    EMU_WRITE = 2,
    EMU_ATOMIC = 4, // with both
    EMU_COPY = 16,  // with READ: by cp.async (8 is check.h's)
} emu_kind;

// Checks and counts one access; returns where the bytes really are.
void *emu_hbm(const void *address, size_t bytes, int kind, const char *site);

// ---- shared memory ----
// One declaration in the source: its address is the array's identity.
typedef struct emu_shared_array {
    const char *name;
    size_t bytes;
    int dynamic; // its bytes are the launch's
    const char *site;
} emu_shared_array;

void *emu_shared(const emu_shared_array *declaration);
// Checks one access that is a request of its own; ends the launch when it is out of place.
void *emu_shared_wide(const void *address, size_t bytes, int kind, const char *site);
void emu_shared_load16(void *to, const void *shared, const char *site);
void emu_shared_store16(void *shared, const void *from, const char *site);

// ---- barriers and collectives ----
void emu_block_barrier(const char *site);
void emu_warp_barrier(unsigned mask, const char *site);

typedef enum emu_shuffle_kind { EMU_INDEXED, EMU_UP, EMU_DOWN, EMU_XOR } emu_shuffle_kind;
uint64_t emu_shuffle(emu_shuffle_kind kind, unsigned mask, uint64_t bits, int argument, int width,
                     const char *site);
unsigned emu_ballot(unsigned mask, int predicate, const char *site);

// ---- atomics: on device memory (counted) or on shared memory; return the value before ----
void emu_atomic_add_float4(float *address, const float value[4], const char *site);
float emu_atomic_add_float(float *address, float value, int device, const char *site);
double emu_atomic_add_double(double *address, double value, int device, const char *site);
uint32_t emu_atomic_add_32(uint32_t *address, uint32_t value, int device, const char *site);
uint64_t emu_atomic_add_64(uint64_t *address, uint64_t value, int device, const char *site);

// ---- asynchronous copies from device to shared memory ----
void emu_async_copy(void *shared, const void *device, size_t bytes, const char *site);
void emu_async_commit(void);
void emu_async_wait(int groups_left);

#ifdef __cplusplus
}
#endif
#endif
