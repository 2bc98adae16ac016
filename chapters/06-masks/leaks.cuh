// leaks.cuh -- what is masked must not leak.
//
// A masked pair has the weight 0, and 0 times a number is 0: for numbers the plain products select. But 0
// times infinity, or times NaN, is NaN. Where some row needs what another must not see, the tile that is
// multiplied by weights is looked through first: x * 0 is 0 for every number, NaN else. If there is
// anything but numbers in it, the products below take the place of the plain ones.
#ifndef LEAKS_CUH
#define LEAKS_CUH

#include "chapters/05-backward/backward_tile.cuh"

// Whether a tile of ROWS rows has anything but numbers in it; the same answer for all lanes of a warp, which
// has read all of it.
template <int ROWS, int WIDTH> __device__ __forceinline__ bool tile_would_leak(const float *tile) {
    float zero = 0;
#pragma unroll 4
    for (int e = threadIdx.x % 32 * 4; e < ROWS * WIDTH; e += 128) {
        float x[4];
        tile_read4(x, tile + tile_at<WIDTH>(e / WIDTH) + e % WIDTH);
        zero += x[0] * 0 + x[1] * 0 + x[2] * 0 + x[3] * 0;
    }
    return __any_sync(0xffffffffu, zero != 0);
}

// The same as tile_values where it would leak: slow, and hardly ever needed. What is chosen is the number of
// V, so that each step rounds as it does there.
//   sees(i, j, weight)   whether row i of p sees its key j, and what stands there
template <int P_WIDTH, int KEYS, int D, int NEXT, int C, class Sees>
__device__ __forceinline__ void tile_values_seen(float (&o)[8][C], const float *p, const float *v,
                                                 Sees sees) {
#pragma unroll 1
    for (int j = 0; j < KEYS; j++) {
        float y[C];
        tile_read_columns<NEXT>(y, v + tile_at<D>(j));
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float weight = p[i * P_WIDTH + j];
            const bool seen = sees(i, j, weight);
#pragma unroll
            for (int c = 0; c < C; c++) o[i][c] = fmaf(weight, seen ? y[c] : 0, o[i][c]);
        }
    }
}

// The same as backward_key_sums: sees(i, j, weight), i a row of the tile, j one of the thread's 8 keys.
template <int WIDTH, int ROWS, int D, int C, class Sees>
__device__ __forceinline__ void key_sums_seen(float (&sum)[8][C], const float *p, const float *g,
                                              Sees sees) {
#pragma unroll 1
    for (int i = 0; i < ROWS; i++) {
        float y[C];
        tile_read_columns<32>(y, g + tile_at<D>(i));
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float weight = p[tile_at<WIDTH>(i) + j];
            const bool seen = sees(i, j, weight);
#pragma unroll
            for (int c = 0; c < C; c++) sum[j][c] = fmaf(weight, seen ? y[c] : 0, sum[j][c]);
        }
    }
}

#endif
