// dry.c -- EMULATED_DRY=1: no block runs. What a stage would launch is noted instead, and the device's
// report lists it, a line each:
//
//   launch BLOCKS THREADS SHARED kernel      threads a block; bytes of dynamic shared memory a block
//
// So a problem of any size tells its grids without having any tensor. It begins with
//
//   multiprocessors N
#include "gpu/emulator/gpus.h"
#include "gpu/emulator/runtime.h"

#include <stdlib.h>

enum { MOST_LAUNCHES = 64 };
static struct {
    long blocks;
    int threads;
    size_t shared;
    char kernel[100];
} launches[MOST_LAUNCHES];
static int count;

int emu_dry(void) {
    const char *text = getenv("EMULATED_DRY");
    return text && text[0] == '1';
}

void emu_dry_launch(const char *kernel, long blocks, int threads, size_t shared) {
    if (count == MOST_LAUNCHES) return; // no pass has nearly as many
    launches[count].blocks = blocks, launches[count].threads = threads;
    launches[count].shared = shared;
    snprintf(launches[count].kernel, sizeof launches[count].kernel, "%s", kernel);
    count++;
}

void emu_dry_print(FILE *file) {
    fprintf(file, "multiprocessors %d\n", emu_gpu_multiprocessors());
    for (int i = 0; i < count; i++)
        fprintf(file, "launch %ld %d %zu %s\n", launches[i].blocks, launches[i].threads,
                launches[i].shared, launches[i].kernel);
    count = 0;
}
