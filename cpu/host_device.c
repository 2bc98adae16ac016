// host_device.c -- the attn_device of stages that run as plain C: its memory is the process' own.
#include "cpu/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static attn_status host_open(void) {
    return attn_ok();
}

static void host_describe(char *text, size_t size) {
#ifdef _OPENMP
    snprintf(text, size, "this machine's CPU, C with OpenMP");
#else
    snprintf(text, size, "this machine's CPU, C without OpenMP: one thread");
#endif
}

static uint64_t host_free_bytes(void) {
    uint64_t bytes = 0;
#if defined(_SC_AVPHYS_PAGES)
    // Linux lends free memory to its file cache; MemAvailable is what a program can really have.
    FILE *meminfo = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long long kib;
    while (meminfo && fgets(line, sizeof line, meminfo))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) bytes = (uint64_t)kib * 1024;
    if (meminfo) fclose(meminfo);
    if (bytes == 0) bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
#elif defined(_SC_PHYS_PAGES)
    bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
#endif
    return bytes;
}

static attn_status host_allocate(const char *name, size_t bytes, void **memory) {
    *memory = NULL;
    const size_t alignment = 64; // a cache line, and the widest vector
    const uint64_t available = host_free_bytes();
    // Asked before malloc, which promises memory that is not there and leaves the writer to be
    // killed.
    if ((available != 0 && bytes > available) || bytes > SIZE_MAX - alignment ||
        posix_memalign(memory, alignment, bytes + alignment) != 0) {
        char wanted[32], there[32];
        attn_bytes_text((double)bytes, wanted, sizeof wanted);
        attn_bytes_text((double)available, there, sizeof there);
        return attn_error(ATTN_NO_MEMORY, "%s needs %s of memory; %s are free", name, wanted,
                          there);
    }
    memset(*memory, 0xff, bytes);
    return attn_ok();
}

static void host_release(void *memory) {
    free(memory);
}

static attn_status host_copy(void *to, const void *from, size_t bytes) {
    if (bytes != 0) memcpy(to, from, bytes);
    return attn_ok();
}

static attn_status host_synchronize(void) {
    return attn_ok();
}

static double start_time;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void host_timer_start(void) {
    start_time = now();
}
static double host_timer_stop(void) {
    return now() - start_time;
}

const attn_device *attn_host_device(void) {
    static const attn_device device = {
        .kind = "host",
        .open = host_open,
        .describe = host_describe,
        .allocate = host_allocate,
        .release = host_release,
        .upload = host_copy,
        .download = host_copy,
        .synchronize = host_synchronize,
        .free_bytes = host_free_bytes,
        .timer_start = host_timer_start,
        .timer_stop = host_timer_stop,
    };
    return &device;
}
