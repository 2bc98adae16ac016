// check_shared.c -- shared memory under the checks: a note beside every two bytes of who wrote and who
// read them last.
//
// Two accesses are ordered when the same thread makes both, a __syncthreads lies between them, or
// both are of one warp and a __syncwarp of both lanes lies between. Everything else, with a write
// among them, is a race: it may go well on one GPU and badly on the next.
#include "gpu/emulator/check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 2, CELLS = EMU_SHARED_ARENA / CELL, NOBODY = -1, SEVERAL = -2 };

typedef struct cell {
    uint32_t block; // for which block, counted through, the rest was noted; else all is fresh
    uint32_t write_epoch, write_clock;
    uint32_t read_epoch, read_clock; // clock: the lowest of the lanes'
    uint32_t read_lanes;             // of read_warp
    int16_t writer, reader;          // threads
    int16_t read_warp;               // or NOBODY, or SEVERAL
    int16_t other_reader;            // of SEVERAL: one of another warp than `reader`
    uint8_t copying;                 // a cp.async of `writer` is under way
    uint8_t atomic;                  // the last write was atomic
    uint8_t readers_atomic;          // those noted as readers made atomic additions
} cell;

struct emu_shared_shadow {
    uint32_t block;
    cell cells[CELLS];
};

emu_shared_shadow *emu_shadow_new(void) {
    return calloc(1, sizeof(emu_shared_shadow));
}

void emu_shadow_block_start(emu_block *block) {
    emu_check_of(block)->shared->block++;
}

// Has `thread` been told, by a barrier, of what thread `other` did at this epoch and clock?
static int ordered(const emu_thread *thread, int other, uint32_t epoch, uint32_t clock) {
    const emu_block_check *check = emu_check_of(thread->block);
    return other == thread->index || epoch != check->epoch ||
           (other / EMU_WARP == thread->warp->index &&
            check->clock[thread->index][other % EMU_WARP] >= clock);
}

static uint32_t own_clock(const emu_thread *thread) {
    return emu_check_of(thread->block)->clock[thread->index][thread->place.lane];
}

static cell *cell_of(emu_thread *thread, const char *address) {
    emu_shared_shadow *shadow = emu_check_of(thread->block)->shared;
    cell *c = &shadow->cells[(size_t)(address - thread->block->shared) / CELL];
    if (c->block != shadow->block) {
        memset(c, 0, sizeof *c);
        c->block = shadow->block;
        c->writer = c->reader = c->read_warp = NOBODY;
    }
    return c;
}

__attribute__((noreturn, format(printf, 4, 5))) static void
found(const emu_thread *thread, const char *address, emu_site site, const char *format, ...) {
    char place[120], what[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    emu_shared_describe(thread->block, address, place, sizeof place);
    emu_finding(site, "%s, %s", what, place);
}

static void check_bounds(emu_thread *thread, const char *p, size_t bytes, int kind, emu_site site) {
    const emu_block *block = thread->block;
    const char *what = kind & EMU_WRITE ? "write" : "read";
    int inside = 0;
    for (int i = 0; i < block->shared_count && !inside; i++) {
        const emu_shared_place *a = &block->shared_array[i];
        inside = p >= a->memory && p + bytes <= a->memory + a->bytes;
    }
    if (!inside)
        found(thread, p, site, "out-of-bounds %s of %zu bytes in shared memory", what, bytes);
    if (!(kind & EMU_UNALIGNED) && (uintptr_t)p % bytes)
        found(thread, p, site, "misaligned %s of %zu bytes in shared memory", what, bytes);
}

// The thread, or one of the threads, that read the cell and is not known to have finished; or NOBODY.
static int unordered_reader(const emu_thread *thread, const cell *c) {
    const emu_block_check *check = emu_check_of(thread->block);
    if (c->read_warp == NOBODY || c->read_epoch != check->epoch) return NOBODY;
    if (c->read_warp == SEVERAL) // nobody is ordered after two warps before the next __syncthreads
        return c->reader / EMU_WARP != thread->warp->index ? c->reader : c->other_reader;
    for (int lane = 0; lane < EMU_WARP; lane++) {
        const int reader = c->read_warp * EMU_WARP + lane;
        if (c->read_lanes >> lane & 1 && !ordered(thread, reader, c->read_epoch, c->read_clock))
            return reader;
    }
    return NOBODY;
}

static const char *did(const cell *c) {
    return c->readers_atomic ? "atomically changed" : "read";
}

static void check_write(emu_thread *thread, const char *p, const cell *c, int atomic,
                        const char *what, emu_site site) {
    if (c->copying)
        found(thread, p, site, "shared-memory race: %s, while a cp.async of thread %d is under way",
              what, c->writer);
    if (c->writer != NOBODY && !(atomic && c->atomic) &&
        !ordered(thread, c->writer, c->write_epoch, c->write_clock))
        found(thread, p, site,
              "shared-memory race: %s, and thread %d wrote it since the last barrier", what,
              c->writer);
    const int reader = unordered_reader(thread, c);
    if (reader != NOBODY && !(atomic && c->readers_atomic))
        found(thread, p, site, "shared-memory race: %s, and thread %d %s it since the last barrier",
              what, reader, did(c));
}

static void check_read(emu_thread *thread, const char *p, const cell *c, int atomic,
                       emu_site site) {
    if (c->copying)
        found(thread, p, site,
              "shared-memory race: read, while a cp.async of thread %d is under way: "
              "cp_async_wait, then a "
              "barrier",
              c->writer);
    if (c->writer == NOBODY) found(thread, p, site, "read of uninitialised shared memory");
    if (atomic) return; // what else there is, check_write says
    if (!ordered(thread, c->writer, c->write_epoch, c->write_clock))
        found(thread, p, site,
              "shared-memory race: read, and thread %d wrote it since the last barrier", c->writer);
    const int reader = c->readers_atomic ? unordered_reader(thread, c) : NOBODY;
    if (reader != NOBODY)
        found(thread, p, site,
              "shared-memory race: read, and thread %d %s it since the last barrier", reader,
              did(c));
}

static void note_write(emu_thread *thread, cell *c, int atomic, int copying) {
    // A plain write that the same thread follows by an atomic one is still a plain write to the others,
    // until they are ordered after it.
    if (atomic && c->writer == thread->index && !c->atomic && !c->copying &&
        c->write_epoch == emu_check_of(thread->block)->epoch && c->write_clock == own_clock(thread))
        return;
    c->writer = (int16_t)thread->index;
    c->write_epoch = emu_check_of(thread->block)->epoch, c->write_clock = own_clock(thread);
    c->atomic = (uint8_t)atomic, c->copying = (uint8_t)copying;
    if (!atomic) c->read_warp = NOBODY;
}

static void note_read(emu_thread *thread, cell *c, int atomic) {
    const uint32_t epoch = emu_check_of(thread->block)->epoch, clock = own_clock(thread);
    const int warp = thread->warp->index, lane = thread->place.lane;
    if (c->readers_atomic != atomic) { // all of them come before this access, or a race was found
        c->read_warp = NOBODY;
        c->readers_atomic = (uint8_t)atomic;
    }
    if (c->read_warp == SEVERAL && c->read_epoch == epoch) return;
    // Readers that this one is ordered after need not be kept: who is ordered after it is after them.
    if (c->read_warp == NOBODY || c->read_epoch != epoch || unordered_reader(thread, c) == NOBODY) {
        c->read_warp = (int16_t)warp, c->read_lanes = 0;
        c->read_epoch = epoch, c->read_clock = clock;
    } else if (c->read_warp != warp) {
        c->read_warp = SEVERAL;
        c->other_reader = (int16_t)thread->index;
        return;
    }
    c->read_lanes |= 1u << lane;
    if (clock < c->read_clock) c->read_clock = clock;
    c->reader = (int16_t)thread->index;
}

void emu_shadow_access(emu_thread *thread, void *address, size_t bytes, int kind, emu_site site) {
    char *p = address;
    const int atomic = (kind & EMU_ATOMIC) != 0;
    check_bounds(thread, p, bytes, kind, site);
    for (size_t k = 0; k < bytes; k += CELL) {
        cell *c = cell_of(thread, p + k);
        if (bytes <
            CELL) { // single bytes share a cell with a neighbour: no race is claimed for them
            if (kind & EMU_READ && c->writer == NOBODY)
                found(thread, p, site, "read of uninitialised shared memory");
            if (kind & EMU_WRITE && c->writer == NOBODY) note_write(thread, c, atomic, 0);
            continue;
        }
        if (kind & EMU_READ) check_read(thread, p + k, c, atomic, site);
        if (kind & EMU_WRITE) check_write(thread, p + k, c, atomic, "write", site);
        if (kind & EMU_READ) note_read(thread, c, atomic);
        if (kind & EMU_WRITE) note_write(thread, c, atomic, 0);
    }
}

// From its issue until its wait a copy may land at any moment. So it must not meet anyone who may still
// read or write the place, and nobody may touch it until it has landed.
void emu_shadow_copy_issued(emu_thread *thread, void *to, size_t bytes, emu_site site) {
    check_bounds(thread, to, bytes, EMU_WRITE, site);
    for (size_t k = 0; k < bytes; k += CELL) {
        cell *c = cell_of(thread, (char *)to + k);
        check_write(thread, (char *)to + k, c, 0, "cp.async overwrites it", site);
        note_write(thread, c, 0, 1);
    }
}

void emu_shadow_copy_landed(emu_thread *thread, void *to, size_t bytes) {
    for (size_t k = 0; k < bytes; k += CELL)
        note_write(thread, cell_of(thread, (char *)to + k), 0, 0);
}
