// dram.c -- see dram.h: blocks side by side, and the L2 behind them.
//
// A multiprocessor has as many blocks at a time as its threads and its shared memory allow. (Registers
// may allow fewer; the emulator does not know them.) Blocks start in order, and where one ends the next
// starts. Each has a clock, moved on by each line it asks for by about the time that the answer takes; the
// block whose clock is behind is next. So blocks drift apart as on a GPU: who finds his lines in the L2
// overtakes who waits for DRAM.
//
// What the L2 keeps was measured on an H200 (tests/l2-probe): of the 60 MB that it reports, repeated
// reads of up to about 45 MB stay, whichever multiprocessor asks, and up to about 28 MB of writes are
// held back. The same shares are taken for other GPUs. There is no L1 in the model: it shields the L2,
// which changes what reaches DRAM only where a working set is about as large as the L2.
#include "gpu/emulator/cache.h"
#include "gpu/emulator/dram.h"
#include "gpu/emulator/gpus.h"

#include <stdlib.h>
#include <string.h>

enum { DIRTY_LINES = 10 };                            // of the 16 of a set
enum { WRITE_COST = 1, HIT_COST = 2, MISS_COST = 5 }; // in about 130 cycles
enum { TURN = 8 };                                    // lines before another block may be next

static int on;
static emu_cache l2;

// ---- the launch that is replayed ----
typedef struct resident { // a place for a block on a multiprocessor
    long block;
    size_t run; // of its trace
    int line;   // of that run
    uint64_t clock;
} resident;

static long blocks, next_block;
static int started, multiprocessors, threads_a_block;
static emu_trace *traces; // [blocks]
static resident *heap;    // [residents], the smallest clock first
static int residents;

attn_status emu_dram_begin(void) {
    emu_cache_close(&l2);
    if (!emu_cache_open(&l2, emu_gpu_l2_bytes() / 4 * 3, DIRTY_LINES))
        return attn_error(ATTN_NO_MEMORY, "no memory for the model of the L2 cache");
    on = 1;
    return attn_ok();
}

void emu_dram_end(attn_dram *bytes) {
    const attn_dram result = {l2.read_in, l2.written, emu_cache_dirty_bytes(&l2)};
    *bytes = result;
    emu_cache_close(&l2);
    on = 0;
}

int emu_dram_is_on(void) {
    return on;
}

void emu_dram_memset(size_t offset, size_t bytes) {
    for (size_t at = offset / EMU_SECTOR; at * EMU_SECTOR < offset + bytes; at++)
        emu_cache_write(&l2, at / 4, 1u << at % 4);
}

attn_status emu_dram_launch_begin(const emu_launch_state *launch, long count) {
    blocks = count, next_block = 0, started = 0;
    multiprocessors = emu_gpu_multiprocessors();
    threads_a_block = (int)(launch->block.x * launch->block.y * launch->block.z);
    traces = calloc((size_t)blocks, sizeof *traces);
    heap = calloc((size_t)(multiprocessors * emu_gpu_chosen()->blocks), sizeof *heap);
    if (traces && heap) return attn_ok();
    emu_dram_launch_end();
    return attn_error(ATTN_NO_MEMORY, "kernel %s: no memory for the traces of %ld blocks",
                      launch->kernel, count);
}

void emu_dram_launch_end(void) {
    for (long i = 0; traces && i < blocks; i++) free(traces[i].runs);
    free(traces);
    free(heap);
    traces = NULL, heap = NULL;
}

emu_trace *emu_dram_trace(long block) {
    return &traces[block];
}

static int blocks_by_threads(void) {
    const emu_gpu *gpu = emu_gpu_chosen();
    const int warps = (threads_a_block + EMU_WARP - 1) / EMU_WARP;
    const int by_threads = gpu->threads / (warps * EMU_WARP);
    return by_threads < gpu->blocks ? by_threads : gpu->blocks;
}

long emu_dram_batch(void) {
    return (long)multiprocessors * blocks_by_threads();
}

// ---- who is next: a heap by clock, then by block, so that the order is always the same ----
static int is_before(const resident *a, const resident *b) {
    return a->clock != b->clock ? a->clock < b->clock : a->block < b->block;
}

static void sink(int at) {
    for (;;) {
        int least = at;
        for (int child = 2 * at + 1; child <= 2 * at + 2 && child < residents; child++)
            if (is_before(&heap[child], &heap[least])) least = child;
        if (least == at) return;
        const resident r = heap[at];
        heap[at] = heap[least], heap[least] = r;
        at = least;
    }
}

// The first blocks, once the shared memory of one is known. 0 without memory.
static void start(void) {
    const emu_gpu *gpu = emu_gpu_chosen();
    // CUDA reserves 1 KB a block on compute capability 8.0 and later.
    const size_t reserved = gpu->shared_kb > 96 ? 1024 : 0;
    const size_t each = traces[0].shared_bytes + reserved, all = (size_t)gpu->shared_kb * 1024;
    int a_multiprocessor = blocks_by_threads();
    if (each && all / each < (size_t)a_multiprocessor) a_multiprocessor = (int)(all / each);
    if (a_multiprocessor < 1) a_multiprocessor = 1;
    residents = 0;
    for (; next_block < blocks && next_block < (long)multiprocessors * a_multiprocessor;
         next_block++) {
        const resident r = {next_block, 0, 0, 0};
        heap[residents++] = r; // in order: equal clocks, rising blocks
    }
    started = 1;
}

// One line of one block; returns what it costs.
static int ask(const emu_run *run, uint64_t line) {
    if (run->write) {
        emu_cache_write(&l2, line, run->sectors);
        return WRITE_COST;
    }
    return emu_cache_read(&l2, line, run->sectors) ? MISS_COST : HIT_COST;
}

void emu_dram_replay(long traced) {
    if (!started) start();
    while (residents > 0) {
        resident *r = &heap[0];
        const emu_trace *trace = &traces[r->block];
        for (int turn = 0; turn < TURN && r->run < trace->count; turn++) {
            const emu_run *run = &trace->runs[r->run];
            r->clock += (uint64_t)ask(run, run->line + (unsigned)r->line);
            if (++r->line == run->lines) r->run++, r->line = 0;
        }
        if (r->run == trace->count) {
            if (next_block == traced && traced < blocks) return; // its successor is not known yet
            free(traces[r->block].runs);
            memset(&traces[r->block], 0, sizeof traces[0]);
            if (next_block < blocks)
                r->block = next_block++, r->run = 0, r->line = 0;
            else
                *r = heap[--residents];
        }
        sink(0);
    }
}
