// check_callbacks.c -- the functions that code compiled with -fsanitize=thread calls before each memory
// access (LLVM, "ThreadSanitizer"; gcc's are the same). Kernels are compiled so, and linked to these.
//
// Accesses to shared memory go to the checks. Accesses to device memory come through here only when
// their mark is missing. All else, the stack and constants, concerns nobody.
#include "gpu/emulator/check.h"
#include "gpu/emulator/memory.h"

#include <string.h>

static void touch(const void *address, size_t bytes, int kind, const void *code) {
    emu_thread *thread = emu_current();
    if (!thread) return;
    const emu_block *block = thread->block;
    const emu_site site = {NULL, code};
    if ((const char *)address >= block->shared && (const char *)address < block->shared_end) {
        emu_check->shared_access(thread, (void *)address, bytes, kind, site);
    } else if (emu_memory_is_device(address)) {
        char place[80];
        emu_memory_describe(address, place, sizeof place);
        emu_finding(site, "access to device memory without hbm_load or hbm_store, %s", place);
    }
}

#define CODE __builtin_return_address(0)
#define CALLBACK(name, bytes, kind)        \
    void name(void *address);              \
    void name(void *address) {             \
        touch(address, bytes, kind, CODE); \
    }
#define CALLBACKS(bytes)                                                               \
    CALLBACK(__tsan_read##bytes, bytes, EMU_READ)                                      \
    CALLBACK(__tsan_write##bytes, bytes, EMU_WRITE)                                    \
    CALLBACK(__tsan_unaligned_read##bytes, bytes, EMU_READ | EMU_UNALIGNED)            \
    CALLBACK(__tsan_unaligned_write##bytes, bytes, EMU_WRITE | EMU_UNALIGNED)          \
    CALLBACK(__tsan_volatile_read##bytes, bytes, EMU_READ)                             \
    CALLBACK(__tsan_volatile_write##bytes, bytes, EMU_WRITE)                           \
    CALLBACK(__tsan_unaligned_volatile_read##bytes, bytes, EMU_READ | EMU_UNALIGNED)   \
    CALLBACK(__tsan_unaligned_volatile_write##bytes, bytes, EMU_WRITE | EMU_UNALIGNED) \
    CALLBACK(__tsan_read_write##bytes, bytes, EMU_READ | EMU_WRITE)                    \
    CALLBACK(__tsan_unaligned_read_write##bytes, bytes, EMU_READ | EMU_WRITE | EMU_UNALIGNED)
CALLBACKS(1)
CALLBACKS(2)
CALLBACKS(4)
CALLBACKS(8)
CALLBACKS(16)

// Whole objects, of any size: in pieces of 4 bytes, or less at a ragged end.
static void touch_range(const void *address, size_t bytes, int kind, const void *code) {
    for (size_t k = 0; k < bytes; k += 4)
        touch((const char *)address + k, bytes - k < 4 ? bytes - k : 4, kind | EMU_UNALIGNED, code);
}

void __tsan_init(void);
void __tsan_func_entry(void *code);
void __tsan_func_exit(void *code);
void __tsan_vptr_update(void *slot, void *value);
void __tsan_vptr_read(void *slot);
void __tsan_read_range(void *address, long bytes);
void __tsan_write_range(void *address, long bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes);

void __tsan_init(void) {}
void __tsan_func_entry(void *code) {
    (void)code;
}
void __tsan_func_exit(void *code) {
    (void)code;
}
void __tsan_vptr_update(void *slot, void *value) {
    (void)slot, (void)value;
}
void __tsan_vptr_read(void *slot) {
    (void)slot;
}
void __tsan_read_range(void *address, long bytes) {
    touch_range(address, (size_t)bytes, EMU_READ, CODE);
}
void __tsan_write_range(void *address, long bytes) {
    touch_range(address, (size_t)bytes, EMU_WRITE, CODE);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    touch_range(from, bytes, EMU_READ, CODE);
    touch_range(to, bytes, EMU_WRITE, CODE);
    return memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    touch_range(from, bytes, EMU_READ, CODE);
    touch_range(to, bytes, EMU_WRITE, CODE);
    return memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
    touch_range(to, bytes, EMU_WRITE, CODE);
    return memset(to, value, bytes);
}
