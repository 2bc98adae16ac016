// block.c -- one block from its first thread to its last: taking turns, and __syncthreads.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // MAP_ANON
#endif
#include "gpu/emulator/dram.h"

#include <string.h>
#include <sys/mman.h>

#if defined(EMU_ASAN) // red zones make frames larger
const size_t emu_stack_bytes = 240 * 1024;
#else
const size_t emu_stack_bytes = 112 * 1024;
#endif
const size_t emu_stack_guard = 16 * 1024; // a page of every system

int emu_block_prepare_stacks(emu_block *block, int threads) {
    if (threads <= block->stack_count) return 1;
    const size_t each = emu_stack_guard + emu_stack_bytes;
    if (block->stacks) munmap(block->stacks, each * (size_t)block->stack_count);
    block->stack_count = 0;
    block->stacks =
        mmap(NULL, each * (size_t)threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (block->stacks == MAP_FAILED) block->stacks = NULL;
    if (!block->stacks) return 0;
    // A guard below each stack turns an overflow into a fault. Systems limit how many there can be;
    // without one an overflow is not noticed.
    for (int i = 0; i < threads; i++)
        if (mprotect(block->stacks + each * (size_t)i, emu_stack_guard, PROT_NONE) != 0) break;
    block->stack_count = threads;
    return 1;
}

static void go_to(emu_thread *next) {
    emu_thread *thread = emu_current();
    emu_here = &next->place;
    if (thread->state == EMU_RETURNED) emu_fiber_leave(&thread->fiber, &next->fiber);
    emu_fiber_switch(&thread->fiber, &next->fiber);
}

static __attribute__((noreturn)) void go_home(emu_thread *thread) {
    emu_here = NULL;
    emu_fiber_leave(&thread->fiber, &thread->block->home);
}

// All threads wait and none can go on: say for what.
static __attribute__((noreturn)) void report_deadlock(emu_block *block) {
    for (int i = 0; i < block->threads; i++) {
        emu_thread *t = &block->thread[i];
        if (t->state != EMU_IN_WARP) continue;
        const unsigned missing = t->mask & ~t->warp->waiting;
        emu_here = &t->place;
        emu_finding(emu_at(t->site),
                    "a warp operation with mask %08x never completes: lanes %08x do not come%s",
                    t->mask, missing, missing & t->warp->returned ? " (they have returned)" : "");
    }
    emu_finding(emu_at(block->barrier_site), "the block waits for ever"); // cannot happen
}

void emu_yield(void) {
    emu_thread *thread = emu_current();
    emu_block *block = thread->block;
    int i = thread->index;
    for (int k = 0; k < block->threads; k++) {
        if (++i == block->threads) i = 0;
        emu_thread *next = &block->thread[i];
        if (next->state != EMU_READY) continue;
        if (next != thread) go_to(next);
        return;
    }
    if (block->returned == block->threads) go_home(thread);
    report_deadlock(block);
}

static void open_barrier(emu_block *block) {
    if (block->returned)
        emu_warning(block->barrier_site,
                    "threads returned before the barrier that the others wait in; today's GPUs do "
                    "not count them, the CUDA guide does not promise it");
    if (emu_check) emu_check->barrier(block);
    if (block->recorder) emu_recorder_meet(block->recorder, block->threads);
    for (int i = 0; i < block->threads; i++)
        if (block->thread[i].state == EMU_AT_BARRIER) block->thread[i].state = EMU_READY;
    block->at_barrier = 0;
}

void emu_block_barrier(const char *site) {
    emu_thread *thread = emu_current();
    emu_block *block = thread->block;
    if (block->at_barrier && block->barrier_site != site && strcmp(block->barrier_site, site) != 0)
        emu_finding(emu_at(site),
                    "barrier divergence: other threads wait in the __syncthreads at %s",
                    block->barrier_site);
    block->barrier_site = thread->site = site;
    thread->state = EMU_AT_BARRIER;
    if (++block->at_barrier + block->returned == block->threads)
        open_barrier(block);
    else
        emu_yield();
}

static void thread_main(void) {
    emu_thread *thread = emu_current();
    emu_block *block = thread->block;
    emu_fiber_started(&block->home);
    block->launch->thread_main(block->launch->arguments);
    emu_async_check_done(thread);
    thread->state = EMU_RETURNED;
    thread->warp->returned |= 1u << thread->place.lane;
    block->returned++;
    if (block->at_barrier && block->at_barrier + block->returned == block->threads)
        open_barrier(block);
    if (block->returned == block->threads) emu_shared_check_red_zones(block);
    emu_yield();
}

static uint3 split(unsigned long index, uint3 size) {
    uint3 v = {(unsigned)(index % size.x), (unsigned)(index / size.x % size.y),
               (unsigned)(index / size.x / size.y)};
    return v;
}

void emu_block_run(emu_block *block, emu_launch_state *launch, long index) {
    const uint3 position = split((unsigned long)index, launch->grid);
    const size_t each = emu_stack_guard + emu_stack_bytes;
    block->launch = launch;
    block->index = index;
    block->threads = (int)(launch->block.x * launch->block.y * launch->block.z);
    block->returned = block->at_barrier = 0;
    memset(&block->home, 0, sizeof block->home);
    emu_shared_reset(block);
    for (int i = 0; i < block->threads; i++) {
        emu_thread *t = &block->thread[i];
        emu_warp *w = &block->warp[i / EMU_WARP];
        if (i % EMU_WARP == 0) {
            const int left = block->threads - i;
            w->index = i / EMU_WARP, w->lanes = left < EMU_WARP ? left : EMU_WARP;
            w->waiting = w->returned = 0, w->thread = t;
        }
        t->place.thread = split((unsigned long)i, launch->block);
        t->place.block = position;
        t->place.block_dim = launch->block, t->place.grid_dim = launch->grid;
        t->place.lane = i % EMU_WARP;
        t->block = block, t->warp = w, t->index = i;
        t->state = EMU_READY, t->site = NULL;
        t->copy_count = t->groups_committed = 0;
        // Staggered tops: at equal distances, all stacks would share a few sets of the cache.
        emu_fiber_prepare(&t->fiber, block->stacks + each * (size_t)i + emu_stack_guard,
                          emu_stack_bytes - (size_t)(i % 32) * 64, thread_main);
    }
    if (emu_check) emu_check->block_start(block);
    if (block->recorder) emu_recorder_start(block->recorder, emu_dram_trace(index));
    emu_here = &block->thread[0].place;
    emu_fiber_switch(&block->home, &block->thread[0].fiber);
    if (__atomic_load_n(&launch->failed, __ATOMIC_ACQUIRE))
        for (int i = 0; i < block->threads; i++) emu_fiber_forget(&block->thread[i].fiber);
    if (block->recorder) {
        emu_recorder_meet(block->recorder, block->threads);
        emu_dram_trace(index)->shared_bytes = block->shared_bytes;
    }
    if (emu_check) emu_check->block_end(block);
}
