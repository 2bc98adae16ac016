// trace.h -- what a chapter's trace/ folder needs besides the hooks: to say when a traced pass begins and
// ends, and which problems are small enough to print.
#ifndef ATTN_TRACE_H
#define ATTN_TRACE_H

#include "cpu/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

// The most that 100 columns have room for: keys of a tile, columns of O; and rows that a person reads.
enum { TRACE_MOST_KEYS = 8, TRACE_MOST_ROWS = 20, TRACE_MOST_COLUMNS = 2 };

// Lengths up to TRACE_MOST_ROWS, d up to TRACE_MOST_COLUMNS, tiles of up to so many keys.
attn_status trace_supports(const attn_problem *problem, int most_tile_keys);

// From here on hooks print.
//   unit    of the scores and of m: 1, or log 2 where the code keeps them times log2(e)
//   so_far  the bytes that the running kernel has asked for so far, NULL where nobody counts
void trace_begin(const attn_problem *problem, float unit, void (*so_far)(attn_traffic *bytes));
// total: the bytes of the whole pass; NULL where nobody counted.
void trace_end(const attn_traffic *total);

// A number in so many columns, the first of them blank, with `decimals` decimals or as many as fit.
void trace_print(float value, int width, int decimals);

// Of steps.c, for gradients.c: the pass that is traced, NULL between passes, and the tile.
typedef struct trace_tile_place {
    int query, key, keys;
} trace_tile_place;
const attn_problem *trace_problem(void);
trace_tile_place trace_tile_here(void);

#ifdef __cplusplus
}
#endif
#endif
