// backward_tile.cuh -- whose part of a tile is whose in the backward pass, and the two steps between its
// five products. The products are chapter 3's tile.cuh's, and one more here, with P transposed.
//
// The products of a tile of Br queries and Bc keys have three shapes, and a block's 4 or 8 warps share each:
//
//   S = Q K^T, dP = dO V^T          Br x Bc     P and dS then go through one tile of shared memory
//   dV += P^T dO, dK += dS^T Q      Bc x D      stay in registers while the queries pass by
//   dQ = dS K                       Br x D
//
// A warp has 32 rows of a product and 8C columns, a thread 8 rows and C columns, in all three: 4 lanes
// below each other, 8 beside each other. C follows from the shape.
#ifndef BACKWARD_TILE_CUH
#define BACKWARD_TILE_CUH

#include "chapters/03-tiled-q-outer/tile.cuh"

template <int D_, int BR_, int BC_, int WARPS_> struct backward_shape {
    enum {
        D = D_,
        BR = BR_,
        BC = BC_,
        WARPS = WARPS_,
        THREADS = 32 * WARPS,
        SCORES = BR * BC / (8 * THREADS),     // C of S and dP: 8, 4 or 1
        KEY_COLUMNS = BC * D / (8 * THREADS), // C of dV and dK: 8 or 4
        ROW_COLUMNS = BR * D / (8 * THREADS), // C of dQ: 8 or 4
        // Where what lies in shared memory, in floats: K_j, V_j, Q_i, dO_i, P_ij or dS_ij, L_i, D_i.
        K = 0,
        V = K + tile_at<D>(BC),
        Q = V + tile_at<D>(BC),
        DO = Q + tile_at<D>(BR),
        P = DO + tile_at<D>(BR),
        L = P + tile_at<BC>(BR),
        SUMS = L + BR,
        FLOATS = SUMS + BR,
    };
};

typedef struct backward_sizes {
    int rows; // of Q that read one head of K: group * q_len
    int kv_len, d;
    float scale;
    bool vectors;
} backward_sizes;

// The first row and the first column of this thread's part of a product of ROWS rows. Columns are C in a
// sequence where they are keys (first_key), else 4, and 4 more 32 to the right.
template <int ROWS, int C, int WARPS> struct backward_part {
    int row, first_key, first_column;
    __device__ __forceinline__ backward_part() {
        const int warp = threadIdx.x / 32 % WARPS, lane = threadIdx.x % 32;
        const int down = warp % (ROWS / 32), across = warp / (ROWS / 32);
        const int x = lane / 2 % 8, y = lane % 2 + lane / 16 * 2; // as in tile_thread_here
        row = 32 * down + 8 * y;
        first_column = 8 * C * across + 4 * x;
        // Lanes that shared memory serves together have x = 0 ... 3 or 4 ... 7, and must read rows of K
        // in different groups of 8: tile_at puts a gap behind each.
        first_key = C == 8 ? 64 * across + 8 * x
                           : across * C / 4 * 32 + 8 * (x % 4) + 4 * (x / 4) + across * C % 4;
    }
};

// ---- loading ----
// Starts to copy ROWS numbers, one a row, from `first` on; where there is no row, 0 stands.
template <int ROWS>
__device__ __forceinline__ void backward_load_rows(float *tile, const float *of_rows, int first,
                                                   int rows) {
    const int r = threadIdx.x; // every block has at least as many threads as a tile has rows
    if (r < ROWS) {
        if (first + r < rows)
            cp_async4(&tile[r], &of_rows[first + r]);
        else
            tile[r] = 0;
    }
    cp_async_commit();
}

// ---- between the products ----
// Whether all rows and keys of a tile exist, and how many do from the thread's first ones on.
typedef struct backward_extent {
    bool whole;
    int rows, keys;
} backward_extent;

// A pair without its row or without its key has no weight and no gradient, whatever was computed for it:
// the zeros in its place times infinity, in a row or key that does exist, are NaN.
template <int C>
__device__ __forceinline__ void backward_select(float (&s)[8][C], const backward_extent &extent) {
    if (extent.whole) return;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++)
            if (i >= extent.rows || j >= extent.keys) s[i][j] = 0;
}

// s becomes P: P_ij = e^(scale S_ij - L_i). No maximum and no sum: L has both, m + log l. So no score is
// above L; if it seems so, then because both are rounded, and by much if they are large. (Written so that
// NaN stays NaN, which fminf would lose.)
//   lse   the thread's first of 8 rows
template <int C>
__device__ __forceinline__ void backward_weights(float (&s)[8][C], const float *lse, float scale,
                                                 const backward_extent &extent) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float shift = lse[i] * TILE_LOG2_E;
#pragma unroll
        for (int j = 0; j < C; j++) {
            const float exponent = fmaf(s[i][j] * scale, TILE_LOG2_E, -shift);
            s[i][j] = tile_exp2(exponent > 0 ? 0 : exponent);
        }
    }
    backward_select(s, extent);
}

// dp becomes dS, the softmax's gradient: dS_ij = P_ij (dP_ij - D_i).
template <int C>
__device__ __forceinline__ void backward_softmax(float (&dp)[8][C], const float (&p)[8][C],
                                                 const float *row_sum,
                                                 const backward_extent &extent) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) dp[i][j] = p[i][j] * (dp[i][j] - row_sum[i]);
    backward_select(dp, extent);
}

// The thread's 8 x C part of P or dS, to and from its place in a tile of WIDTH keys.
template <int WIDTH, int C>
__device__ __forceinline__ void backward_put(float *tile, const float (&s)[8][C]) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float *row = tile + i * WIDTH;
        if constexpr (C == 1) {
            row[0] = s[i][0];
        } else {
#pragma unroll
            for (int j = 0; j < C; j += 4)
                shared_store4(row + j, make_float4(s[i][j], s[i][j + 1], s[i][j + 2], s[i][j + 3]));
        }
    }
}
template <int WIDTH, int C>
__device__ __forceinline__ void backward_take(float (&s)[8][C], const float *tile) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float *row = tile + i * WIDTH;
        if constexpr (C == 1) {
            s[i][0] = row[0];
        } else {
#pragma unroll
            for (int j = 0; j < C; j += 4) tile_read4(&s[i][j], row + j);
        }
    }
}

// Adds factor * four to columns column .. column + 3 of a row of d, atomically.
__device__ __forceinline__ void backward_add4(float *row, int column, int d, float factor,
                                              const float *four, bool vectors) {
    if (vectors) {
        if (column < d)
            hbm_atomic_add4(row + column, make_float4(factor * four[0], factor * four[1],
                                                      factor * four[2], factor * four[3]));
        return;
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
        if (column + n < d) hbm_atomic_add(&row[column + n], factor * four[n]);
}

// ---- the product with P transposed ----
// sum += P^T G over ROWS queries: sum[j][.] += sum_i p[i][j] * g[i][.].
//   p   a tile of ROWS rows, WIDTH keys, at the thread's first key of 8
//   g   a tile of ROWS rows, D columns, at the thread's first column; the next 4 are 32 to the right
template <int WIDTH, int ROWS, int D, int C>
__device__ __forceinline__ void backward_key_sums(float (&sum)[8][C], const float *p,
                                                  const float *g) {
#pragma unroll 1
    for (int i = 0; i < ROWS; i += 8) // 8 rows to a gap
#pragma unroll
        for (int u = 0; u < 8; u++) {
            float weight[8], y[C];
            const float *row = p + tile_at<WIDTH>(i) + u * WIDTH;
            tile_read4(weight, row);
            tile_read4(weight + 4, row + 4);
            tile_read_columns<32>(y, g + tile_at<D>(i) + u * D);
            tile_outer(sum, weight, y);
        }
}

#endif
