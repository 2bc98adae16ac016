// exercise.cuh -- what exercise 5 is given, and what it gives.
#ifndef EXERCISE5_CUH
#define EXERCISE5_CUH

#include "chapters/05-backward/exercise/tiles.h"
#include "gpu/gpu.h"

enum { BR = EXERCISE5_BR, BC = EXERCISE5_BC, MAX_D = 64 };

typedef struct exercise_shape {
    int q_len, kv_len, d;
    float scale;
} exercise_shape;

// Rows first .. first + ROWS - 1 of a [rows][d] matrix, into a tile in shared memory; the whole block takes
// part. Rows that do not exist are not read: they become 0.
template <int ROWS>
__device__ void load_rows(float (*tile)[MAX_D], const float *matrix, int first, int rows, int d) {
    for (int e = threadIdx.x; e < ROWS * d; e += blockDim.x) {
        const int row = e / d, c = e % d;
        tile[row][c] = first + row < rows ? hbm_load(&matrix[(size_t)(first + row) * d + c]) : 0;
    }
}

// D: o, d_o [rows][d]; row_sum [rows].
attn_status exercise_row_sums(const float *o, const float *d_o, float *row_sum, size_t rows, int d);

// dQ, which holds zeros and is added to, dK and dV, of `heads` heads. m and lse: what the forward pass has
// kept of each row, its largest score and L.
attn_status exercise_gradients(const attn_tensors *t, const float *m, const float *row_sum,
                               size_t heads, exercise_shape shape);

#endif
