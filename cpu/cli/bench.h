// bench.h -- the part of attention bench that times a GPU.
#ifndef ATTN_BENCH_H
#define ATTN_BENCH_H

#include "cpu/cli/commands.h"

// Prints CSV with provenance; `command` is what a reader types to get the same.
attn_status attn_bench_gpu(const attn_options *options, const char *command);

#endif
