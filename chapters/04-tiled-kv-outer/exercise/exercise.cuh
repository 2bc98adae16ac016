// exercise.cuh -- what exercise 4 is given, and what it gives.
#ifndef EXERCISE4_CUH
#define EXERCISE4_CUH

#include "chapters/04-tiled-kv-outer/exercise/slices.h"
#include "gpu/gpu.h"

enum { SLICES = EXERCISE4_SLICES };

// o_part [SLICES][rows][d], lse_part [SLICES][rows]; o [rows][d], lse [rows].
attn_status exercise_merge(const float *o_part, const float *lse_part, float *o, float *lse,
                           size_t rows, int d);

#endif
