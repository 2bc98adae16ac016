// check_launches.c -- what each launch asked of memory, in the units of a GPU's counters, so that the two
// can stand side by side (plots/requests.sh). The last few launches are kept: those of a pass.
#include "gpu/emulator/check.h"

#include <string.h>

enum { KEPT = 16, KERNEL_NAME = 60 };

typedef struct cost {
    uint64_t cost, ideal;
} cost;

typedef struct launch {
    unsigned number;
    char kernel[KERNEL_NAME];
    cost load, copy, store;         // sectors of device memory; copy: by cp.async
    cost shared_read, shared_write; // passes of shared memory
} launch;

static launch last[KEPT]; // launch n is at n % KEPT
static unsigned newest;

// Called by one thread at a time, while a launch runs.
void emu_launches_add(const char *kernel, int device, int kind, uint64_t paid, uint64_t ideal) {
    newest = emu_launch_number();
    launch *l = &last[newest % KEPT];
    if (l->number != newest) {
        memset(l, 0, sizeof *l);
        l->number = newest;
        snprintf(l->kernel, sizeof l->kernel, "%s", kernel);
    }
    cost *c = kind & EMU_WRITE  ? device ? &l->store : &l->shared_write
              : kind & EMU_COPY ? &l->copy
              : device          ? &l->load
                                : &l->shared_read;
    c->cost += paid, c->ideal += ideal;
}

void emu_launches_print(FILE *file) {
    typedef unsigned long long number;
    for (unsigned n = newest < KEPT ? 1 : newest - KEPT + 1; n <= newest; n++) {
        const launch *l = &last[n % KEPT];
        if (l->number != n) continue; // it asked for nothing
        fprintf(file,
                "launch %u, %s: sectors loaded %llu, copied %llu, stored %llu; shared passes read "
                "%llu, %llu of them conflicts, written %llu, %llu of them conflicts\n",
                n, l->kernel, (number)l->load.cost, (number)l->copy.cost, (number)l->store.cost,
                (number)l->shared_read.cost, (number)(l->shared_read.cost - l->shared_read.ideal),
                (number)l->shared_write.cost,
                (number)(l->shared_write.cost - l->shared_write.ideal));
    }
}
