// exercise.cuh -- what exercise 6 is given: its sizes, the state of a row, and the work on one tile.
#ifndef EXERCISE6_CUH
#define EXERCISE6_CUH

#include "chapters/06-masks/exercise/tiles.h"
#include "gpu/gpu.h"

enum { BR = EXERCISE6_BR, BC = EXERCISE6_BC, MAX_D = 128 };

typedef struct exercise_shape {
    int q_len, kv_len, d, group; // query head h reads key head h / group
    float scale;
} exercise_shape;

// A thread's query, and its online softmax so far.
typedef struct exercise_row {
    float q[MAX_D], o[MAX_D], m, l;
} exercise_row;

// Rows first .. first + BC - 1 of a [rows][d] matrix, into a tile in shared memory; the whole block takes
// part. Rows that do not exist are not read: they become 0.
template <int PITCH>
__device__ void load_rows(float (*tile)[PITCH], const float *matrix, int first, int rows, int d) {
    for (int e = threadIdx.x; e < BC * d; e += blockDim.x) {
        const int row = e / d, c = e % d;
        tile[row][c] = first + row < rows ? hbm_load(&matrix[(size_t)(first + row) * d + c]) : 0;
    }
}

// Online softmax of a tile (chapter 3): s [BC], where a pair that is not seen has -infinity. What it leaves
// out: a V that is not seen is multiplied by its weight of 0, not skipped, and 0 times NaN is NaN. The
// chapter's kernels skip it: masked_forward.cu, step 3.
template <int PITCH>
__device__ void take_tile(exercise_row *row, const float *s, const float (*v_tile)[PITCH], int d) {
    float m_new = row->m;
    for (int j = 0; j < BC; j++) m_new = fmaxf(m_new, s[j]);
    const float shift = m_new == -INFINITY ? 0 : m_new; // (-inf) - (-inf) is NaN
    const float alpha = expf(row->m - shift);
    row->m = m_new;
    row->l *= alpha;
    for (int c = 0; c < d; c++) row->o[c] *= alpha;
    for (int j = 0; j < BC; j++) {
        const float p = expf(s[j] - shift);
        row->l += p;
        for (int c = 0; c < d; c++) row->o[c] += p * v_tile[j][c];
    }
}

attn_status exercise_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer);

#endif
