// watched_device.c -- see watched_device.h.
#define _GNU_SOURCE
#include "tests/watched_device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const attn_loaded_stage *with_device(const attn_loaded_stage *row, const attn_device *device,
                                            attn_module *module, attn_loaded_stage *watched) {
    *module = *row->module;
    module->device = device;
    watched->module = module, watched->stage = row->stage;
    return watched;
}

// What has been allocated, by either device.
typedef struct allocation {
    void *memory;
    size_t bytes;
    char *region; // with its guards
    size_t region_bytes;
    void *uploaded; // a copy of what was, or NULL
} allocation;
enum { MAX_ALLOCATIONS = 64 };
static allocation allocations[MAX_ALLOCATIONS];

static allocation *find(const void *memory) {
    for (int i = 0; i < MAX_ALLOCATIONS; i++)
        if (allocations[i].memory == memory) return &allocations[i];
    return NULL;
}

// ---- guarded host memory -------------------------------------------------------------------------------
static guard_side side_of_next;

static attn_status guarded_allocate(const char *name, size_t bytes, void **memory) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page * page;
    allocation *a = find(NULL);
    if (!a) return attn_error(ATTN_NO_MEMORY, "%s: too many tensors for the test", name);
    a->region_bytes = pages + 2 * page;
    a->region = mmap(NULL, a->region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->region == MAP_FAILED) return attn_error(ATTN_NO_MEMORY, "%s: no memory", name);
    if (pages) mprotect(a->region + page, pages, PROT_READ | PROT_WRITE);
    a->bytes = bytes;
    a->memory = a->region + page + (side_of_next == GUARD_AFTER ? pages - bytes : 0);
    memset(a->memory, 0xff, bytes);
    *memory = a->memory;
    return attn_ok();
}

static void guarded_release(void *memory) {
    allocation *a = find(memory);
    munmap(a->region, a->region_bytes);
    memset(a, 0, sizeof *a);
}

static attn_status guarded_upload(void *to, const void *from, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    allocation *a = find(to);
    if (bytes == 0) return attn_ok();
    memcpy(to, from, bytes);
    mprotect(a->region + page, a->region_bytes - 2 * page, PROT_READ); // an input from now on
    return attn_ok();
}

const attn_loaded_stage *watch_host_memory(const attn_loaded_stage *row, guard_side side) {
    static attn_device device;
    static attn_module module;
    static attn_loaded_stage watched;
    side_of_next = side;
    device = *attn_host_device();
    device.allocate = guarded_allocate, device.release = guarded_release;
    device.upload = guarded_upload;
    return with_device(row, &device, &module, &watched);
}

// ---- inputs on any device ------------------------------------------------------------------------------
static const attn_device *real;
static int changed;

static attn_status watched_allocate(const char *name, size_t bytes, void **memory) {
    const attn_status status = real->allocate(name, bytes, memory);
    allocation *a = find(NULL);
    if (status.code == ATTN_OK && a) a->memory = *memory, a->bytes = bytes;
    return status;
}

static attn_status watched_upload(void *to, const void *from, size_t bytes) {
    allocation *a = find(to);
    if (a) {
        a->uploaded = malloc(bytes + 1);
        memcpy(a->uploaded, from, bytes);
    }
    return real->upload(to, from, bytes);
}

static void watched_release(void *memory) {
    allocation *a = find(memory);
    if (a && a->uploaded) {
        void *now = malloc(a->bytes + 1);
        if (real->download(now, memory, a->bytes).code != ATTN_OK ||
            memcmp(now, a->uploaded, a->bytes) != 0)
            changed++;
        free(now);
        free(a->uploaded);
    }
    if (a) memset(a, 0, sizeof *a);
    real->release(memory);
}

const attn_loaded_stage *watch_inputs(const attn_loaded_stage *row) {
    static attn_device device;
    static attn_module module;
    static attn_loaded_stage watched;
    real = row->module->device;
    device = *real;
    device.allocate = watched_allocate, device.release = watched_release;
    device.upload = watched_upload;
    return with_device(row, &device, &module, &watched);
}

int watched_inputs_changed(void) {
    return changed;
}
