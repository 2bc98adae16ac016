// gpus.c -- see gpus.h.
//
// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": 7.0 (V100), 7.5 (T4), 8.0
// (A100), 8.6 (RTX 3090), 8.9 (RTX 4090, L4), 9.0 (H100, H200), 10.0 (B200), 12.0 (RTX 5090).
// Multiprocessors and L2 are those of NVIDIA's architecture papers and data sheets.
#include "gpu/emulator/gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const emu_gpu gpus[] = {
    {"H100", 227, 2048, 32, 228, 132, 50},   {"H200", 227, 2048, 32, 228, 132, 60},
    {"B200", 227, 2048, 32, 228, 148, 126},  {"A100", 163, 2048, 32, 164, 108, 40},
    {"V100", 96, 2048, 32, 96, 80, 6},       {"T4", 64, 1024, 16, 64, 40, 4},
    {"RTX3090", 99, 1536, 16, 100, 82, 6},   {"RTX4090", 99, 1536, 24, 100, 128, 72},
    {"RTX5090", 99, 1536, 24, 100, 170, 96}, {"L4", 99, 1536, 24, 100, 58, 48},
};
enum { GPUS = sizeof gpus / sizeof gpus[0] };
static const emu_gpu *chosen = &gpus[0];
static int parts = 1; // the emulated part is one of so many
static char name[24] = "H100";

attn_status emu_gpu_choose(void) {
    const char *wanted = getenv("EMULATED_GPU");
    if (!wanted || !*wanted) return attn_ok();
    const size_t length = strcspn(wanted, "/");
    char *end = NULL;
    const long divisor = wanted[length] ? strtol(wanted + length + 1, &end, 10) : 1;
    for (int i = 0; i < GPUS; i++)
        if (strlen(gpus[i].name) == length && strncasecmp(wanted, gpus[i].name, length) == 0) {
            if ((end && (*end || end == wanted + length + 1)) || divisor < 1 ||
                divisor > gpus[i].multiprocessors)
                return attn_error(ATTN_BAD_INPUT,
                                  "EMULATED_GPU=%.40s: behind the / stands a whole number from 1 "
                                  "to %d, the multiprocessors there are",
                                  wanted, gpus[i].multiprocessors);
            chosen = &gpus[i];
            parts = (int)divisor;
            snprintf(name, sizeof name, parts > 1 ? "%s/%d" : "%s", chosen->name, parts);
            return attn_ok();
        }
    char list[200] = "";
    for (int i = 0; i < GPUS; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
                 gpus[i].name);
    return attn_error(ATTN_BAD_INPUT, "EMULATED_GPU=%.40s is not one of %s", wanted, list);
}

const emu_gpu *emu_gpu_chosen(void) {
    return chosen;
}

const char *emu_gpu_known(int index, uint64_t *shared_bytes) {
    if (index < 0 || index >= GPUS) return NULL;
    *shared_bytes = (uint64_t)gpus[index].block_shared_kb * 1024;
    return gpus[index].name;
}

const char *emu_gpu_name(void) {
    return name;
}

size_t emu_shared_limit(void) {
    return (size_t)chosen->block_shared_kb * 1024;
}

int emu_gpu_multiprocessors(void) {
    return chosen->multiprocessors / parts;
}

size_t emu_gpu_l2_bytes(void) {
    return ((size_t)chosen->l2_mb << 20) * (size_t)emu_gpu_multiprocessors() /
           (size_t)chosen->multiprocessors;
}
