// check_memory.c -- device memory under the checks: a note beside every two bytes of which launch and
// which block wrote and read them last.
//
// Blocks of one launch run in any order, or at the same time. So within a launch no block may write
// what another has read or written, nor read what another has written, unless both are atomic. Blocks
// do run at the same time here: the notes are exchanged atomically, so that of two blocks that meet
// at least one sees the other.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // MAP_ANON, MAP_NORESERVE
#endif
#include "gpu/emulator/check.h"
#include "gpu/emulator/memory.h"

#include <sys/mman.h>

#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE 0
#endif

enum { CELL = 2 };

// A note is launch << 32 | who. Nobody and never: 0. The host: launch HOST.
typedef uint64_t note;
#define WHO(n)    ((uint32_t)(n))
#define LAUNCH(n) ((uint32_t)((n) >> 32))
enum { SEVERAL_BLOCKS = 0x7fffffff };
static const uint32_t atomic_bit = 0x80000000u;
static const note host = (note)0xffffffff << 32;

typedef struct cell {
    note written, read;
} cell;
static cell *cells;
static size_t cell_count;

attn_status emu_device_shadow_open(size_t span) {
    cell_count = span / CELL;
    void *p = mmap(NULL, cell_count * sizeof *cells, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    cells = p == MAP_FAILED ? NULL : p;
    return cells ? attn_ok() : attn_error(ATTN_NO_MEMORY, "no address space for the checks");
}

void emu_device_shadow_fresh(size_t offset, size_t bytes) {
    // Mapping anew zeroes the notes and gives their memory back. Offsets are multiples of 64 KB.
    mmap(cells + offset / CELL, bytes / CELL * sizeof *cells, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANON | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void emu_device_shadow_written(size_t offset, size_t bytes) {
    for (size_t i = offset / CELL; i < (offset + bytes + CELL - 1) / CELL; i++) {
        cells[i].written = host;
        cells[i].read = 0;
    }
}

static __attribute__((noreturn)) void found(size_t offset, emu_site site, const char *what,
                                            note by) {
    char place[80];
    emu_memory_describe(emu_memory_at(offset), place, sizeof place);
    if (by == 0) emu_finding(site, "%s, %s", what, place);
    if ((WHO(by) & ~atomic_bit) == SEVERAL_BLOCKS)
        emu_finding(site, "device-memory race: %s other blocks in the same launch, %s", what,
                    place);
    emu_finding(site, "device-memory race: %s block %u in the same launch, %s", what,
                (WHO(by) & ~atomic_bit) - 1, place);
}

// Does the note say that another block of this launch did it (and not both atomically)?
static int of_another(note n, uint32_t me) {
    return LAUNCH(n) == emu_launch_number() && (WHO(n) & ~atomic_bit) != (me & ~atomic_bit) &&
           !(WHO(n) & me & atomic_bit);
}

static void note_read(cell *c, note mine) {
    note before = __atomic_load_n(&c->read, __ATOMIC_SEQ_CST), after;
    do {
        if (before == mine) return;
        after = mine;
        if (LAUNCH(before) == LAUNCH(mine)) // another block of this launch, or several
            after = (mine & ~(note)0xffffffff) | SEVERAL_BLOCKS;
        if (after == before) return;
    } while (!__atomic_compare_exchange_n(&c->read, &before, after, 0, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST));
}

void emu_device_shadow_access(emu_thread *thread, size_t offset, size_t bytes, int kind,
                              emu_site site) {
    const int atomic = (kind & EMU_ATOMIC) != 0;
    const uint32_t me = (uint32_t)(thread->block->index + 1) | (atomic ? atomic_bit : 0);
    const note mine = (note)emu_launch_number() << 32 | me;
    for (size_t k = 0; k < bytes; k += CELL) {
        cell *c = &cells[(offset + k) / CELL];
        if (kind & EMU_READ) {
            if (!atomic) note_read(c, mine);
            const note w = __atomic_load_n(&c->written, __ATOMIC_SEQ_CST);
            if (w == 0)
                found(offset + k, site, "read of device memory that nothing has written", 0);
            if (of_another(w, me)) found(offset + k, site, "read of what was written by", w);
        }
        if (kind & EMU_WRITE) {
            const note w = __atomic_exchange_n(&c->written, mine, __ATOMIC_SEQ_CST);
            if (bytes < CELL) continue; // single bytes share a cell, where two writers are no race
            if (of_another(w, me)) found(offset + k, site, "write of what was written by", w);
            const note r = __atomic_load_n(&c->read, __ATOMIC_SEQ_CST);
            if (of_another(r, me)) found(offset + k, site, "write of what was read by", r);
        }
    }
}
