// cache.c -- see cache.h.
#include "gpu/emulator/cache.h"

#include <stdlib.h>
#include <string.h>

int emu_cache_open(emu_cache *cache, size_t bytes, int dirty_lines) {
    memset(cache, 0, sizeof *cache);
    cache->sets = bytes / (EMU_WAYS * EMU_LINE);
    // Odd, so that rows a power of two apart do not share few sets; GPUs hash addresses for that.
    cache->sets = cache->sets < 1 ? 1 : cache->sets - (cache->sets % 2 == 0);
    cache->dirty_lines = dirty_lines;
    cache->set = calloc(cache->sets, sizeof *cache->set);
    return cache->set != NULL;
}

void emu_cache_close(emu_cache *cache) {
    free(cache->set);
    memset(cache, 0, sizeof *cache);
}

void emu_cache_forget(emu_cache *cache) {
    memset(cache->set, 0, cache->sets * sizeof *cache->set);
}

static void write_back(emu_cache *cache, emu_cache_set *set, int way) {
    cache->written += EMU_SECTOR * (unsigned)__builtin_popcount(set->dirty[way]);
    set->dirty[way] = 0;
}

// The way of the line, which is there from now on.
static int find(emu_cache *cache, emu_cache_set *set, uint64_t line) {
    int oldest = 0;
    for (int way = 0; way < EMU_WAYS; way++)
        if (set->line[way] == line + 1) return way;
    for (int way = 1; way < EMU_WAYS; way++)
        if (set->used[way] < set->used[oldest]) oldest = way;
    write_back(cache, set, oldest);
    set->line[oldest] = line + 1;
    set->valid[oldest] = 0;
    return oldest;
}

unsigned emu_cache_read(emu_cache *cache, uint64_t line, unsigned sectors) {
    emu_cache_set *set = &cache->set[line % cache->sets];
    const int way = find(cache, set, line);
    const unsigned missing = sectors & ~(unsigned)set->valid[way];
    set->valid[way] |= (uint8_t)sectors;
    set->used[way] = ++cache->accesses;
    cache->read_in += EMU_SECTOR * (unsigned)__builtin_popcount(missing);
    return missing;
}

void emu_cache_write(emu_cache *cache, uint64_t line, unsigned sectors) {
    emu_cache_set *set = &cache->set[line % cache->sets];
    const int way = find(cache, set, line);
    set->valid[way] |= (uint8_t)sectors;
    set->dirty[way] |= (uint8_t)sectors;
    set->used[way] = ++cache->accesses;
    int dirty = 0, oldest = -1;
    for (int w = 0; w < EMU_WAYS; w++) {
        if (!set->dirty[w]) continue;
        dirty++;
        if (oldest < 0 || set->used[w] < set->used[oldest]) oldest = w;
    }
    if (dirty > cache->dirty_lines) write_back(cache, set, oldest);
}

uint64_t emu_cache_dirty_bytes(const emu_cache *cache) {
    uint64_t bytes = 0;
    for (size_t s = 0; s < cache->sets; s++)
        for (int way = 0; way < EMU_WAYS; way++)
            bytes += EMU_SECTOR * (unsigned)__builtin_popcount(cache->set[s].dirty[way]);
    return bytes;
}
