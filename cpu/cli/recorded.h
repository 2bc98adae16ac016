// recorded.h -- figures that were measured on a GPU once and are committed, for readers who have none.
#ifndef ATTN_RECORDED_H
#define ATTN_RECORDED_H

#include "cpu/cli/chapter.h"

// Prints what the .csv files in plots/recorded/ (written by `make bench DEVICE=gpu`) hold on the chapter's
// stages, with where it was measured. Prints nothing when there is nothing.
void attn_print_recorded(const attn_chapter *chapter);

#endif
