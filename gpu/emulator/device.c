// device.c -- the emulator as an attn_device (cpu/stage.h).
#include "gpu/emulator/dram.h"
#include "gpu/emulator/gpus.h"
#include "gpu/emulator/memory.h"
#include "gpu/emulator/runtime.h"
#include "gpu/device.h"

#include <stdio.h>
#include <string.h>

static attn_traffic traffic;

void emu_count(const char *name, uint64_t read, uint64_t written) {
    attn_traffic_add(&traffic, name, read, written);
}

static attn_status device_open(void) {
    ATTN_TRY(emu_gpu_choose());
    return emu_memory_open();
}

static void device_describe(char *text, size_t size) {
    snprintf(text, size,
             "emulator%s, %zu KB of shared memory a block as on the %s, %d CPU thread%s",
             emu_check ? " with checks" : "", emu_shared_limit() / 1024, emu_gpu_name(),
             emu_os_threads(), emu_os_threads() == 1 ? "" : "s");
}

static attn_status outside(const char *what, const void *memory, size_t bytes) {
    char place[80];
    emu_memory_describe(memory, place, sizeof place);
    return attn_error(ATTN_BAD_INPUT, "%s of %zu bytes does not lie inside one device buffer: %s",
                      what, bytes, place);
}

static attn_status device_upload(void *to_device, const void *from_host, size_t bytes) {
    if (bytes == 0) return attn_ok();
    void *behind = emu_memory_behind(to_device, bytes);
    if (!behind) return outside("an upload", to_device, bytes);
    memcpy(behind, from_host, bytes);
    if (emu_check) emu_check->memory_written(emu_memory_offset(to_device), bytes);
    return attn_ok();
}

static attn_status device_download(void *to_host, const void *from_device, size_t bytes) {
    if (bytes == 0) return attn_ok();
    const void *behind = emu_memory_behind(from_device, bytes);
    if (!behind) return outside("a download", from_device, bytes);
    memcpy(to_host, behind, bytes);
    return attn_ok();
}

// Launches have finished when they return, and have returned what they found.
static attn_status device_synchronize(void) {
    return attn_ok();
}

static void device_reset_traffic(void) {
    memset(&traffic, 0, sizeof traffic);
}

static void device_traffic(attn_traffic *copy) {
    *copy = traffic;
}

static void device_report(FILE *file) {
    if (emu_dry()) emu_dry_print(file);
    emu_warnings_print(file);
    if (emu_check) emu_check->report(file);
}

attn_status gpu_memset(void *memory, int byte, size_t bytes) {
    if (bytes == 0 || emu_dry()) return attn_ok();
    void *behind = emu_memory_behind(memory, bytes);
    if (!behind) return outside("gpu_memset", memory, bytes);
    memset(behind, byte, bytes);
    emu_count(emu_memory_buffer(emu_memory_index(memory))->name, 0, bytes);
    if (emu_dram_is_on()) emu_dram_memset(emu_memory_offset(memory), bytes);
    if (emu_check) emu_check->memory_written(emu_memory_offset(memory), bytes);
    return attn_ok();
}

int gpu_multiprocessors(void) {
    return emu_gpu_multiprocessors();
}

uint64_t gpu_shared_bytes(void) {
    return emu_shared_limit();
}

const attn_device *gpu_device(void) {
    static attn_device device = {
        .open = device_open,
        .describe = device_describe,
        .allocate = emu_memory_allocate,
        .release = emu_memory_release,
        .upload = device_upload,
        .download = device_download,
        .synchronize = device_synchronize,
        .free_bytes = emu_memory_free_bytes,
        .reset_traffic = device_reset_traffic,
        .traffic = device_traffic,
        .report = device_report,
        .empty_l2 = emu_dram_begin,
        .dram = emu_dram_end,
        .known_gpu = emu_gpu_known,
    };
    device.kind = emu_device_kind;
    return &device;
}
