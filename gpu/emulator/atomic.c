// atomic.c -- atomic additions, on device memory (a read and a write are counted) and on shared.
//
// Compiled here, not in the kernel: blocks run in parallel, so they are real atomic operations.
#include "gpu/emulator/memory.h"
#include "gpu/emulator/runtime.h"

#include <string.h>

static void *target(void *address, size_t bytes, int device, const char *site) {
    const int kind = EMU_READ | EMU_WRITE | EMU_ATOMIC;
    if (device) return emu_hbm(address, bytes, kind, site);
    if (emu_memory_is_device(address)) {
        char place[80];
        emu_memory_describe(address, place, sizeof place);
        emu_finding(emu_at(site), "atomicAdd on device memory, %s: write hbm_atomic_add", place);
    }
    return emu_shared_wide(address, bytes, kind, site);
}

static float add_float(uint32_t *p, float value) {
    uint32_t before = __atomic_load_n(p, __ATOMIC_RELAXED), after;
    float x;
    do {
        memcpy(&x, &before, sizeof x);
        const float sum = x + value;
        memcpy(&after, &sum, sizeof after);
    } while (
        !__atomic_compare_exchange_n(p, &before, after, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return x;
}

float emu_atomic_add_float(float *address, float value, int device, const char *site) {
    return add_float(target(address, sizeof *address, device, site), value);
}

void emu_atomic_add_float4(float *address, const float value[4], const char *site) {
    uint32_t *p = target(address, 4 * sizeof *address, 1, site);
    for (int i = 0; i < 4; i++) add_float(p + i, value[i]);
}

double emu_atomic_add_double(double *address, double value, int device, const char *site) {
    uint64_t *p = target(address, sizeof *address, device, site);
    uint64_t before = __atomic_load_n(p, __ATOMIC_RELAXED), after;
    double x;
    do {
        memcpy(&x, &before, sizeof x);
        const double sum = x + value;
        memcpy(&after, &sum, sizeof after);
    } while (
        !__atomic_compare_exchange_n(p, &before, after, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return x;
}

uint32_t emu_atomic_add_32(uint32_t *address, uint32_t value, int device, const char *site) {
    return __atomic_fetch_add((uint32_t *)target(address, sizeof *address, device, site), value,
                              __ATOMIC_RELAXED);
}

uint64_t emu_atomic_add_64(uint64_t *address, uint64_t value, int device, const char *site) {
    return __atomic_fetch_add((uint64_t *)target(address, sizeof *address, device, site), value,
                              __ATOMIC_RELAXED);
}
