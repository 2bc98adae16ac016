// memory.c -- see memory.h.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // MAP_ANON, MAP_NORESERVE
#endif
#include "gpu/emulator/dram.h"
#include "gpu/emulator/memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif

static const size_t slot_bytes = (size_t)1 << EMU_SLOT_BITS; // holds pages of 4, 16 and 64 KB

static char *range;   // what kernels see: span bytes, never accessible
static char *backing; // where the bytes are: span bytes, accessible where there is a buffer
static size_t span;
static uint16_t *buffer_of_slot; // [span / slot_bytes], 0 where there is none

// Index 0 is no buffer. Free entries have no address.
static emu_buffer buffers[EMU_MAX_BUFFERS];
static int buffer_count = 1;

static char *reserve(size_t bytes, int protection) {
    void *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static uint64_t physical_memory(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : (uint64_t)16 << 30;
}

attn_status emu_memory_open(void) {
    if (range) return attn_ok();
    // Twice the machine's memory leaves room between buffers. Address space costs nothing, but a system
    // may limit it: ask for less until it agrees.
    span = (size_t)1 << 30;
    while (span < 2 * physical_memory()) span *= 2;
    for (; span >= (size_t)1 << 30; span /= 2) {
        range = reserve(2 * span, PROT_NONE);
        if (!range) continue;
        buffer_of_slot =
            (uint16_t *)reserve(span / slot_bytes * sizeof *buffer_of_slot, PROT_READ | PROT_WRITE);
        attn_status checks = attn_ok();
        if (buffer_of_slot && emu_check) checks = emu_check->open(span);
        if (buffer_of_slot && checks.code == ATTN_OK) {
            // Slots are aligned; the first is left out, so that no buffer follows other memory.
            size_t ragged = (uintptr_t)range % slot_bytes;
            if (ragged) range += slot_bytes - ragged, span -= slot_bytes;
            backing = range + span;
            emu_trap_install();
            return attn_ok();
        }
        if (buffer_of_slot) munmap(buffer_of_slot, span / slot_bytes * sizeof *buffer_of_slot);
        munmap(range, 2 * span);
        range = NULL;
    }
    return attn_error(ATTN_NO_MEMORY, "the emulator finds no 2 GB of address space for its device "
                                      "memory; a limit on virtual memory (ulimit -v) may be set");
}

static size_t slots_for(size_t bytes) {
    return bytes / slot_bytes + 1; // at least a byte more than asked for: buffers never touch
}

// The first free run of slots after slot 0, by walking over the buffers in the way.
static size_t find_slots(size_t wanted) {
    const size_t slots = span / slot_bytes;
    size_t at = 1;
    while (at + wanted <= slots) {
        size_t free_slots = 0;
        while (free_slots < wanted && buffer_of_slot[at + free_slots] == 0) free_slots++;
        if (free_slots == wanted) return at;
        const emu_buffer *b = &buffers[buffer_of_slot[at + free_slots]];
        at = emu_memory_offset(b->address) / slot_bytes + slots_for(b->bytes);
    }
    return 0;
}

attn_status emu_memory_allocate(const char *name, size_t bytes, void **memory) {
    *memory = NULL;
    ATTN_TRY(emu_memory_open());
    const int cost = emu_check ? emu_check->memory_cost : 1;
    const uint64_t available = emu_memory_free_bytes();
    if (bytes > span / 2 || (available != 0 && bytes > available))
        return attn_error(ATTN_NO_MEMORY,
                          "%s needs %.1f MB of emulated device memory; %.1f MB are free%s", name,
                          (double)bytes / 1e6, (double)available / 1e6,
                          cost > 1 ? " (checks take nine bytes for each)" : "");
    int index = 1;
    while (index < buffer_count && buffers[index].address) index++;
    const size_t slots = slots_for(bytes), first = find_slots(slots);
    if (index == EMU_MAX_BUFFERS || first == 0)
        return attn_error(ATTN_NO_MEMORY, "%s: the emulator holds at most %d buffers in %.0f GB",
                          name, EMU_MAX_BUFFERS - 1, (double)span / 1e9);

    char *at = range + first * slot_bytes;
    const size_t pages = (bytes + slot_bytes - 1) / slot_bytes * slot_bytes;
    if (pages && mprotect(at + (backing - range), pages, PROT_READ | PROT_WRITE) != 0)
        return attn_error(ATTN_NO_MEMORY, "%s: the system gives no %.1f MB of memory", name,
                          (double)bytes / 1e6);
    memset(at + (backing - range), 0xff, bytes);
    if (emu_check && bytes) emu_check->memory_fresh(first * slot_bytes, pages);

    emu_buffer *b = &buffers[index];
    snprintf(b->name, sizeof b->name, "%s", name);
    b->address = at, b->bytes = bytes;
    for (size_t i = 0; i < slots; i++) buffer_of_slot[first + i] = (uint16_t)index;
    if (index == buffer_count) buffer_count++;
    *memory = at;
    return attn_ok();
}

int emu_memory_index(const void *address) {
    return emu_memory_is_device(address) ? buffer_of_slot[emu_memory_offset(address) / slot_bytes]
                                         : 0;
}

void emu_memory_release(void *memory) {
    const int index = emu_memory_index(memory);
    emu_buffer *b = &buffers[index];
    if (index == 0 || b->address != memory) return;
    const size_t first = emu_memory_offset(memory) / slot_bytes, slots = slots_for(b->bytes);
    const size_t pages = (b->bytes + slot_bytes - 1) / slot_bytes * slot_bytes;
    // Mapping anew gives the memory back and makes the pages inaccessible, on every system.
    if (pages)
        mmap(b->address + (backing - range), pages, PROT_NONE,
             MAP_PRIVATE | MAP_ANON | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (size_t i = 0; i < slots; i++) buffer_of_slot[first + i] = 0;
    memset(b, 0, sizeof *b);
}

uint64_t emu_memory_free_bytes(void) {
    const uint64_t host = attn_host_device()->free_bytes();
    return host / (uint64_t)(emu_check ? emu_check->memory_cost : 1);
}

int emu_memory_is_device(const void *address) {
    return (size_t)((const char *)address - range) < span;
}

size_t emu_memory_offset(const void *address) {
    return (size_t)((const char *)address - range);
}

const void *emu_memory_at(size_t offset) {
    return range + offset;
}

void *emu_memory_behind(const void *address, size_t bytes) {
    const emu_buffer *b = &buffers[emu_memory_index(address)];
    const size_t at = (size_t)((const char *)address - b->address);
    if (!b->address || at > b->bytes || bytes > b->bytes - at) return NULL;
    return (char *)address + (backing - range);
}

void emu_memory_describe(const void *address, char *text, size_t size) {
    const char *p = address;
    const emu_buffer *in = &buffers[emu_memory_index(p)];
    const emu_buffer *next = &buffers[emu_memory_index(p + slot_bytes)];
    // Outside of both, it is meant for the nearer one.
    const int before_next =
        next->address > p && (!in->address || next->address - p < p - (in->address + in->bytes));
    if (before_next)
        snprintf(text, size, "tensor %s - %td of %zu bytes", next->name, next->address - p,
                 next->bytes);
    else if (in->address)
        snprintf(text, size, "tensor %s + %td of %zu bytes", in->name, p - in->address, in->bytes);
    else
        snprintf(text, size, "no tensor at this address");
}

int emu_memory_buffers(void) {
    return buffer_count;
}

const emu_buffer *emu_memory_buffer(int index) {
    return &buffers[index];
}

void emu_bytes_so_far(attn_traffic *bytes) {
    uint64_t(*count)[2] = emu_current()->block->bytes;
    for (int i = 1; i < buffer_count; i++)
        if (count[i][0] | count[i][1])
            attn_traffic_add(bytes, buffers[i].name, count[i][0], count[i][1]);
}

void *emu_hbm(const void *address, size_t bytes, int kind, const char *site) {
    emu_thread *thread = emu_current();
    thread->site = site;
    const int index = emu_memory_index(address);
    const emu_buffer *b = &buffers[index];
    const size_t at = (size_t)((const char *)address - b->address);
    const char *what = kind & EMU_ATOMIC ? "atomic access" : kind & EMU_WRITE ? "write" : "read";
    char place[80];
    if (!b->address || at >= b->bytes || bytes > b->bytes - at) {
        if (!emu_memory_is_device(address))
            emu_finding(emu_at(site),
                        "%s of device memory at an address that is not device memory (%p)", what,
                        (void *)address);
        emu_memory_describe(address, place, sizeof place);
        emu_finding(emu_at(site), "out-of-bounds %s of %zu bytes in device memory, %s", what, bytes,
                    place);
    }
    if (at % bytes) {
        emu_memory_describe(address, place, sizeof place);
        emu_finding(emu_at(site), "misaligned %s of %zu bytes in device memory, %s", what, bytes,
                    place);
    }
    uint64_t *count = thread->block->bytes[index];
    if (kind & EMU_READ) count[0] += bytes;
    if (kind & EMU_WRITE) count[1] += bytes;
    if (__builtin_expect(thread->block->recorder != NULL, 0))
        emu_recorder_add(thread->block->recorder, thread->index, emu_memory_offset(address), kind);
    if (emu_check)
        emu_check->hbm_access(thread, emu_memory_offset(address), bytes, kind, emu_at(site));
    return (char *)address + (backing - range);
}
