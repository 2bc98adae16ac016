// memory.h -- the emulator's device memory.
//
// Buffers live in a range of addresses that nothing may touch; the bytes are in a second range, a
// fixed distance away. So an access that forgets its mark faults, whatever it does, and the count of
// marked accesses is the count of all. Every buffer starts on a 64 KB slot of its own, and a table
// finds the buffer of an address in one step.
#ifndef GPU_EMULATOR_MEMORY_H
#define GPU_EMULATOR_MEMORY_H

#include "cpu/stage.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMU_MAX_BUFFERS = 4096, EMU_SLOT_BITS = 16 };

typedef struct emu_buffer {
    char name[16];
    char *address; // as kernels see it
    size_t bytes;
} emu_buffer;

attn_status emu_memory_open(void);
attn_status emu_memory_allocate(const char *name, size_t bytes, void **memory);
void emu_memory_release(void *memory);
uint64_t emu_memory_free_bytes(void);

// Where the bytes of [address, address + bytes) really are; NULL when they are not inside one buffer.
void *emu_memory_behind(const void *address, size_t bytes);

int emu_memory_index(const void *address);     // of the buffer in whose slots it lies, 0: none
int emu_memory_is_device(const void *address); // in the range that kernels see
size_t emu_memory_offset(const void *address); // from the start of that range
const void *emu_memory_at(size_t offset);
// "tensor k + 512 of 512 bytes"; for addresses next to a buffer as well
void emu_memory_describe(const void *address, char *text, size_t size);

// Bytes that the running block, and those before it on its OS thread, asked for in this launch.
void emu_bytes_so_far(attn_traffic *bytes);

int emu_memory_buffers(void); // indices in use are below this
const emu_buffer *emu_memory_buffer(int index);

#ifdef __cplusplus
}
#endif

#endif
