// exercise.cuh -- what exercise 3 is given: its sizes, and how rows come to the chip.
#ifndef EXERCISE3_CUH
#define EXERCISE3_CUH

#include "chapters/03-tiled-q-outer/exercise/tiles.h"
#include "gpu/gpu.h"

enum { BR = EXERCISE3_BR, BC = EXERCISE3_BC, MAX_D = 128 };

typedef struct exercise_shape {
    int q_len, kv_len, d, group; // query head h reads key head h / group
    float scale;
} exercise_shape;

// Rows first .. first + BC - 1 of a [rows][d] matrix, into a tile in shared memory; the whole block takes
// part. Rows that do not exist are not read: they become 0.
template <int PITCH>
__device__ void load_rows(float (*tile)[PITCH], const float *matrix, int first, int rows, int d) {
    for (int e = threadIdx.x; e < BC * d; e += blockDim.x) {
        const int row = e / d, c = e % d;
        tile[row][c] = first + row < rows ? hbm_load(&matrix[(size_t)(first + row) * d + c]) : 0;
    }
}

attn_status exercise_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer);

#endif
