// band.cuh -- what a causal mask or a sliding window means for a tile: which tiles to visit, which to mask.
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

#endif
