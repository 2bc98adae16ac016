// check.c -- joins the checks to the emulator (see check.h).
#include "gpu/emulator/check.h"
#include "gpu/emulator/memory.h"

#include <stdlib.h>
#include <string.h>

emu_block_check *emu_check_of(emu_block *block) {
    return block->check;
}

static int prepare(emu_block *block) {
    emu_block_check *check = calloc(1, sizeof *check);
    if (!check) return 0;
    check->shared = emu_shadow_new(), check->requests = emu_requests_new();
    block->check = check;
    return check->shared && check->requests;
}

static void block_start(emu_block *block) {
    emu_block_check *check = block->check;
    check->epoch++;
    for (int i = 0; i < block->threads; i++) {
        memset(check->clock[i], 0, sizeof check->clock[i]);
        check->clock[i][i % EMU_WARP] = 1;
    }
    emu_shadow_block_start(block);
}

static void flush_all(emu_block *block) {
    for (int w = 0; w * EMU_WARP < block->threads; w++) emu_requests_flush(block, w);
}

static void barrier(emu_block *block) {
    emu_check_of(block)->epoch++;
    flush_all(block);
}

static void warp_barrier(emu_warp *warp, unsigned mask) {
    emu_block *block = warp->thread->block;
    emu_block_check *check = emu_check_of(block);
    uint32_t(*clock)[EMU_WARP] = &check->clock[warp->index * EMU_WARP];
    uint32_t joined[EMU_WARP] = {0};
    for (int i = 0; i < warp->lanes; i++)
        for (int k = 0; mask >> i & 1 && k < EMU_WARP; k++)
            if (clock[i][k] > joined[k]) joined[k] = clock[i][k];
    for (int i = 0; i < warp->lanes; i++) {
        if (!(mask >> i & 1)) continue;
        memcpy(clock[i], joined, sizeof joined);
        clock[i][i]++;
    }
    const unsigned all = warp->lanes == EMU_WARP ? ~0u : (1u << warp->lanes) - 1;
    if (mask == all) emu_requests_flush(block, warp->index);
}

static void block_end(emu_block *block) {
    flush_all(block);
    emu_requests_gather(block);
}

static void shared_access(emu_thread *thread, void *address, size_t bytes, int kind,
                          emu_site site) {
    emu_shadow_access(thread, address, bytes, kind, site);
    if (!(kind & EMU_ATOMIC))
        emu_requests_add(thread, (uintptr_t)address - (uintptr_t)thread->block->shared, bytes, kind,
                         0, site);
}

static void hbm_access(emu_thread *thread, size_t offset, size_t bytes, int kind, emu_site site) {
    emu_device_shadow_access(thread, offset, bytes, kind, site);
    if (!(kind & EMU_ATOMIC)) emu_requests_add(thread, offset, bytes, kind, 1, site);
}

static const emu_checks checks = {
    .prepare = prepare,
    .block_start = block_start,
    .block_end = block_end,
    .barrier = barrier,
    .warp_barrier = warp_barrier,
    .shared_access = shared_access,
    .hbm_access = hbm_access,
    .copy_issued = emu_shadow_copy_issued,
    .copy_landed = emu_shadow_copy_landed,
    .memory_fresh = emu_device_shadow_fresh,
    .memory_written = emu_device_shadow_written,
    .open = emu_device_shadow_open,
    .report = emu_requests_print,
    .memory_cost = EMU_DEVICE_SHADOW_COST,
};
const emu_checks *const emu_check = &checks;
const char *const emu_device_kind = "check";
