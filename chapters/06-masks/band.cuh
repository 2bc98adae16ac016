// band.cuh -- what a causal mask or a sliding window means for a tile: which tiles to visit, which to mask,
// and what must not leak.
//
// Every mask of this file is a band: query i sees key j when first <= j - i < end (cpu/mask.h). Its edges
// move with the query, one key a query. So a rectangle of queries and keys is one of three things:
//
//   outside      no pair in it sees each other: it is not visited at all
//   whole        every pair does: nothing is asked, the kernels of chapters 3 and 5 run unchanged
//   on an edge   some do: pair by pair, -infinity for a score, 0 for a weight or a gradient
#ifndef BAND_CUH
#define BAND_CUH

#include "chapters/05-backward/backward_tile.cuh"
#include "cpu/mask.h"

// ---- which tiles ----
typedef struct band_range {
    int begin, end; // empty when begin >= end
} band_range;

// The keys that some query of [first, end) sees. (As the edges move up with the query, the first query has
// the first of them and the last query the last.)
static __host__ __device__ inline band_range band_keys(attn_band band, int first, int end) {
    return {attn_first_key(band, first), attn_end_key(band, end - 1)};
}

// The queries that see some key of [first, end): j - band.end < i <= j - band.first for one of them.
static __host__ __device__ inline band_range band_queries(attn_band band, int first, int end) {
    const int begin = first - band.end + 1, last = end - 1 - band.first;
    return {begin > 0 ? begin : 0, last < band.q_len - 1 ? last + 1 : band.q_len};
}

// Whether every query of [query, query + queries) exists and sees every key of [key, key + keys).
static __device__ inline bool band_whole(attn_band band, int query, int queries, int key,
                                         int keys) {
    return query + queries <= band.q_len && attn_first_key(band, query + queries - 1) <= key &&
           attn_end_key(band, query) >= key + keys;
}

// ---- pairs on an edge ----
__device__ __forceinline__ bool band_sees(attn_band band, int query, int key) {
    const int distance = key - query;
    return distance >= band.first && distance < band.end && query < band.q_len && key < band.kv_len;
}

// Puts `masked` where query + i does not see key + j, whatever stands there: chosen, not added, for it may
// be NaN.
template <int C>
__device__ __forceinline__ void band_select(float (&s)[8][C], attn_band band, int query, int key,
                                            float masked) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++)
            if (!band_sees(band, query + i, key + j)) s[i][j] = masked;
}

// ---- what must not leak ----
// A masked pair has the weight 0, and 0 times a number is 0: for numbers the plain products select. But 0
// times infinity, or times NaN, is NaN. On an edge, where some row needs what another must not see, the
// tile that is multiplied by weights is looked through first: x * 0 is 0 for every number, NaN else.
//
// Whether a tile of ROWS rows has anything but numbers in it; the same answer for all lanes of a warp, which
// has read all of it.
template <int ROWS, int WIDTH> __device__ __forceinline__ bool band_would_leak(const float *tile) {
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
//   query, key   of p[0][0]
template <int P_WIDTH, int KEYS, int D, int NEXT, int C>
__device__ __forceinline__ void band_values(float (&o)[8][C], const float *p, const float *v,
                                            attn_band band, int query, int key) {
#pragma unroll 1
    for (int j = 0; j < KEYS; j++) {
        float y[C];
        tile_read_columns<NEXT>(y, v + tile_at<D>(j));
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const bool sees = band_sees(band, query + i, key + j);
#pragma unroll
            for (int c = 0; c < C; c++)
                o[i][c] = fmaf(p[i * P_WIDTH + j], sees ? y[c] : 0, o[i][c]);
        }
    }
}

// The same as backward_key_sums.
//   query of p's first row, key of the thread's first of 8 keys
template <int WIDTH, int ROWS, int D, int C>
__device__ __forceinline__ void band_key_sums(float (&sum)[8][C], const float *p, const float *g,
                                              attn_band band, int query, int key) {
#pragma unroll 1
    for (int i = 0; i < ROWS; i++) {
        float y[C];
        tile_read_columns<32>(y, g + tile_at<D>(i));
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const bool sees = band_sees(band, query + i, key + j);
#pragma unroll
            for (int c = 0; c < C; c++)
                sum[j][c] = fmaf(p[tile_at<WIDTH>(i) + j], sees ? y[c] : 0, sum[j][c]);
        }
    }
}

#endif
