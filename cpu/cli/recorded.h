// recorded.h -- figures that were measured on a GPU once and are committed, for readers who have none.
#ifndef ATTN_RECORDED_H
#define ATTN_RECORDED_H

#include "cpu/cli/chapter.h"

// Prints what the .csv files in plots/recorded/ (written by `make bench DEVICE=gpu`) hold on the chapter's
// stages for the recorded problem that is nearest to `problem`, with where it was measured. Prints nothing when
// there is nothing.
void attn_print_recorded(const attn_chapter *chapter, const attn_problem *problem);

// Milliseconds that were recorded for one pass of a stage on this very problem; 0 when there is no such row.
// `machine`: the first line of its file, "NVIDIA H200, compute capability 9.0, CUDA 13.0, ...".
double attn_recorded_ms(const char *stage, attn_pass pass, const attn_problem *problem,
                        char *machine, size_t size);

#endif
