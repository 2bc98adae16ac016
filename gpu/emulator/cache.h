// cache.h -- one cache: lines of 128 bytes in four sectors of 32, least recently used goes first.
//
// A read brings in the sectors that are missing, no others. A write brings in nothing: it leaves its
// sectors valid and dirty, and they are written back when their line has to go, or when its set holds
// more dirty lines than it may.
#ifndef GPU_EMULATOR_CACHE_H
#define GPU_EMULATOR_CACHE_H

#include <stddef.h>
#include <stdint.h>

enum { EMU_LINE = 128, EMU_SECTOR = 32, EMU_WAYS = 16 };

typedef struct emu_cache_set {
    uint64_t line[EMU_WAYS];                  // + 1; 0: nothing
    uint64_t used[EMU_WAYS];                  // the access that used it last
    uint8_t valid[EMU_WAYS], dirty[EMU_WAYS]; // a bit a sector
} emu_cache_set;

typedef struct emu_cache {
    emu_cache_set *set;
    size_t sets;
    int dirty_lines;   // that a set may hold
    uint64_t accesses; // so far
    uint64_t read_in;  // bytes
    uint64_t written;  // bytes
} emu_cache;

// An empty cache of about `bytes`, at least one set. 0 without memory.
int emu_cache_open(emu_cache *cache, size_t bytes, int dirty_lines);
void emu_cache_close(emu_cache *cache);
void emu_cache_forget(emu_cache *cache); // all it holds, dirty or not

// Sectors (bits 0 to 3) of line number `line`. Returns those that were not there.
unsigned emu_cache_read(emu_cache *cache, uint64_t line, unsigned sectors);
void emu_cache_write(emu_cache *cache, uint64_t line, unsigned sectors);
uint64_t emu_cache_dirty_bytes(const emu_cache *cache);

#endif
