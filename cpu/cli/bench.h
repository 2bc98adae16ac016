// bench.h -- the part of attention bench that times a GPU.
#ifndef ATTN_BENCH_H
#define ATTN_BENCH_H

#include "cpu/cli/commands.h"

// The lines with # at the head of a file of figures: the device and its driver; the date and `what` was
// run. And the pause before each burst of runs.
void attn_bench_origin(const attn_device *device, const char *what);
void attn_bench_pause(void);

// Prints CSV with provenance; `command` is what a reader types to get the same.
attn_status attn_bench_gpu(const attn_options *options, const char *command);

#endif
