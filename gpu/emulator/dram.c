// dram.c -- see dram.h: blocks side by side, and the caches behind them.
//
// A multiprocessor has as many blocks at a time as its threads and its shared memory allow. (Registers
// may allow fewer; the emulator does not know them.) Block i starts on multiprocessor i modulo their
// number, and where a block ends the next one starts. Each block has a clock, which each line it asks for
// moves on by about the latency of the level that answers; the block whose clock is behind is next. So
// blocks drift apart as on a GPU: who finds his lines in a cache overtakes who waits for DRAM.
//
// What the L2 keeps was measured on an H200 (tests/l2-probe): of the 60 MB that it reports, repeated
// reads of up to about 45 MB stay, and of repeated writes about 28 MB are held back, whoever asks. The
// same shares are taken for other GPUs.
#include "gpu/emulator/cache.h"
#include "gpu/emulator/dram.h"
#include "gpu/emulator/gpus.h"

#include <stdlib.h>
#include <string.h>

enum { ANY_DIRTY = EMU_WAYS, L2_DIRTY = 10 };      // of 16 lines of a set
enum { L1_COST = 1, L2_COST = 8, DRAM_COST = 20 }; // about 33, 260 and 650 cycles
enum { TURN = 8 };                                 // lines before another block may be next

static int on;
static emu_cache l2;

// ---- the launch that is replayed ----
typedef struct resident { // a place for a block on a multiprocessor
    long block;
    size_t run; // of its trace
    int line;   // of that run
    uint64_t clock;
    int multiprocessor;
} resident;

static long blocks, next_block;
static int started, multiprocessors, threads_a_block;
static emu_trace *traces; // [blocks]
static emu_cache *l1;     // [multiprocessors]
static resident *heap;    // [residents], the smallest clock first
static int residents;

attn_status emu_dram_begin(void) {
    emu_cache_close(&l2);
    if (!emu_cache_open(&l2, emu_gpu_l2_bytes() / 4 * 3, L2_DIRTY))
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
    l1 = calloc((size_t)multiprocessors, sizeof *l1);
    heap = calloc((size_t)(multiprocessors * emu_gpu_chosen()->blocks), sizeof *heap);
    if (traces && l1 && heap) return attn_ok();
    emu_dram_launch_end();
    return attn_error(ATTN_NO_MEMORY, "kernel %s: no memory for the traces of %ld blocks",
                      launch->kernel, count);
}

void emu_dram_launch_end(void) {
    for (long i = 0; traces && i < blocks; i++) free(traces[i].runs);
    for (int i = 0; l1 && i < multiprocessors; i++) emu_cache_close(&l1[i]);
    free(traces);
    free(l1);
    free(heap);
    traces = NULL, l1 = NULL, heap = NULL;
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
    const size_t l1_bytes = (size_t)gpu->unified_kb * 1024 - (size_t)a_multiprocessor * each;
    for (int i = 0; i < multiprocessors; i++)
        if (!emu_cache_open(&l1[i], l1_bytes, ANY_DIRTY)) abort();
    residents = 0;
    for (; next_block < blocks && next_block < (long)multiprocessors * a_multiprocessor;
         next_block++) {
        const resident r = {next_block, 0, 0, 0, (int)(next_block % multiprocessors)};
        heap[residents++] = r; // in order: equal clocks, rising blocks
    }
    started = 1;
}

// One line of one block; returns what it costs.
static int ask(emu_cache *own, const emu_run *run, uint64_t line) {
    unsigned sectors = run->sectors;
    if (run->kind & EMU_TRACE_WRITE) { // the L1 writes through, and takes in no line for it
        emu_cache_write(&l2, line, sectors);
        return L1_COST;
    }
    if (!(run->kind & EMU_TRACE_PAST_L1)) sectors = emu_cache_read(own, line, sectors);
    if (!sectors) return L1_COST;
    return emu_cache_read(&l2, line, sectors) ? DRAM_COST : L2_COST;
}

void emu_dram_replay(long traced) {
    if (!started) start();
    while (residents > 0) {
        resident *r = &heap[0];
        const emu_trace *trace = &traces[r->block];
        for (int turn = 0; turn < TURN && r->run < trace->count; turn++) {
            const emu_run *run = &trace->runs[r->run];
            r->clock += (uint64_t)ask(&l1[r->multiprocessor], run, run->line + (unsigned)r->line);
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
