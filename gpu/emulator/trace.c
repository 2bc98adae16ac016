// trace.c -- see dram.h.
//
// Between two barriers the emulator runs one thread after another, a GPU runs warps side by side, lanes
// together. So each thread's accesses are kept until the block's threads meet; then the first access of
// each lane of a warp makes one request, for all warps in turn, then the second, and so on.
#include "gpu/emulator/cache.h"
#include "gpu/emulator/dram.h"

#include <stdlib.h>
#include <string.h>

typedef struct list {
    uint64_t *sectors; // the sector's number * 2, + 1: written
    int count, capacity;
} list;

struct emu_recorder {
    emu_trace *trace;
    list thread[EMU_MAX_THREADS];
};

emu_recorder *emu_recorder_new(void) {
    return calloc(1, sizeof(emu_recorder));
}

void emu_recorder_free(emu_recorder *recorder) {
    for (int i = 0; recorder && i < EMU_MAX_THREADS; i++) free(recorder->thread[i].sectors);
    free(recorder);
}

void emu_recorder_start(emu_recorder *recorder, emu_trace *trace) {
    recorder->trace = trace;
    for (int i = 0; i < EMU_MAX_THREADS; i++) recorder->thread[i].count = 0;
}

static void add(emu_recorder *recorder, int thread, size_t offset, unsigned write) {
    list *l = &recorder->thread[thread];
    if (l->count == l->capacity) {
        const int capacity = l->capacity ? 2 * l->capacity : 64;
        uint64_t *bigger = realloc(l->sectors, (size_t)capacity * sizeof *bigger);
        if (!bigger) abort(); // a trace with holes would be a wrong figure
        l->sectors = bigger, l->capacity = capacity;
    }
    l->sectors[l->count++] = (uint64_t)(offset / EMU_SECTOR) * 2 + write;
}

void emu_recorder_add(emu_recorder *recorder, int thread, size_t offset, int kind) {
    if (kind & EMU_READ) add(recorder, thread, offset, 0);
    if (kind & EMU_WRITE) add(recorder, thread, offset, 1); // an atomic addition does both
}

static void append(emu_trace *trace, uint64_t line, unsigned sectors, unsigned write) {
    emu_run *last = trace->count ? &trace->runs[trace->count - 1] : NULL;
    if (last && last->line + last->lines == line && last->sectors == sectors &&
        last->write == write && last->lines < UINT16_MAX) {
        last->lines++;
        return;
    }
    if (trace->count == trace->capacity) {
        trace->capacity = trace->capacity ? 2 * trace->capacity : 64;
        trace->runs = realloc(trace->runs, trace->capacity * sizeof *trace->runs);
        if (!trace->runs) abort();
    }
    const emu_run run = {line, 1, (uint8_t)sectors, (uint8_t)write};
    trace->runs[trace->count++] = run;
}

// One request: the lines of the lanes' access number `at`, each once.
static void request(emu_recorder *recorder, const list *lanes, int count, int at) {
    struct {
        uint64_t line;
        unsigned sectors, write;
    } lines[EMU_WARP];
    int used = 0;
    for (int i = 0; i < count; i++) {
        if (at >= lanes[i].count) continue;
        const uint64_t sector = lanes[i].sectors[at] / 2, line = sector / (EMU_LINE / EMU_SECTOR);
        const unsigned write = lanes[i].sectors[at] % 2;
        int k = used - 1; // neighbouring lanes mostly ask for the same line
        while (k >= 0 && (lines[k].line != line || lines[k].write != write)) k--;
        if (k < 0) {
            k = used++;
            lines[k].line = line, lines[k].write = write, lines[k].sectors = 0;
        }
        lines[k].sectors |= 1u << sector % (EMU_LINE / EMU_SECTOR);
    }
    for (int k = 0; k < used; k++)
        append(recorder->trace, lines[k].line, lines[k].sectors, lines[k].write);
}

void emu_recorder_meet(emu_recorder *recorder, int threads) {
    int most = 0;
    for (int i = 0; i < threads; i++)
        if (recorder->thread[i].count > most) most = recorder->thread[i].count;
    for (int at = 0; at < most; at++)
        for (int first = 0; first < threads; first += EMU_WARP)
            request(recorder, &recorder->thread[first],
                    threads - first < EMU_WARP ? threads - first : EMU_WARP, at);
    for (int i = 0; i < threads; i++) recorder->thread[i].count = 0;
}
