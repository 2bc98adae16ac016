// kv_tile.cuh -- what chapter 4's kernels share: a tile of K and a tile of V, both on the chip, both whole.
//
// The work on tiles is chapter 3's (tile.cuh), and so is the tile of queries, Br = 8192 / D. Chapter 3
// could let K and V pass in chunks. With the keys outside they must stay while all queries pass, so
//
//   Bc = min(D, 8192 / D)     32, 64, 64, 32 keys for D = 32, 64, 128, 256: at most 32 KB of K, of V
//
// Where that is fewer than the D keys that a warp's lanes have room for (D = 128, 256), lanes that would
// have no key take a part of the columns of K instead, and shuffles add the parts up.
//
// Shared memory: Q (32 KB), K, V and P: 72, 97, 113, 101 KB for the four D, two blocks a multiprocessor.
#ifndef KV_TILE_CUH
#define KV_TILE_CUH

#include "chapters/03-tiled-q-outer/tile.cuh"

template <int D> struct kv_tile {
    typedef tile_shape<D> tile;
    enum {
        BC = D < 8192 / D ? D : 8192 / D,
        X = BC / 8,          // lanes beside each other that have keys of their own
        PARTS = tile::X / X, // lanes that share 8 keys: each has a part of the columns
        WIDTH = D / PARTS,   // ... of so many columns
        // Where things begin in shared memory, in floats. K lies in PARTS pieces of BC keys x WIDTH.
        K_PIECE = tile_at<WIDTH>(BC),
        K = tile_at<D>(tile::BR),
        V = K + PARTS * K_PIECE,
        P = V + tile_at<D>(BC),
        FLOATS = P + tile_at<BC>(tile::BR),
    };
};

// The rows of one head of K and V and of all query heads that read them. Those follow each other in
// memory, so they are just more rows: heads that are grouped share every load of K and V.
typedef struct kv_shape {
    int rows, kv_len, d; // rows = q_len * heads / kv_heads
    int query_tiles;
    int key_tiles; // at least 1: without keys, an empty one
    int slices,
        slice_tiles; // the key tiles are cut into slices of so many; the last may have fewer
    float scale;
    bool vectors;
} kv_shape;

template <int D> __device__ __forceinline__ void kv_load_k(float *shared, tile_matrix k, int key) {
    typedef kv_tile<D> kv;
#pragma unroll
    for (int n = 0; n < kv::PARTS; n++)
        tile_load<kv::BC, kv::WIDTH, kv::tile::THREADS>(shared + kv::K + n * kv::K_PIECE, k, key,
                                                        n * kv::WIDTH);
}

template <int D> __device__ __forceinline__ void kv_load_v(float *shared, tile_matrix v, int key) {
    tile_load<kv_tile<D>::BC, D, tile_shape<D>::THREADS>(shared + kv_tile<D>::V, v, key, 0);
}

// s = Q_i K_j^T; my_q: the thread's first row of Q_i.
template <int D>
__device__ __forceinline__ void kv_scores(float (&s)[8][8], const float *shared, const float *my_q,
                                          int x) {
    typedef kv_tile<D> kv;
    const int part = x / kv::X;
    tile_clear(s);
    tile_scores<D, kv::WIDTH>(s, my_q + part * kv::WIDTH,
                              shared + kv::K + part * kv::K_PIECE +
                                  tile_at<kv::WIDTH>(8 * (x % kv::X)));
    const int beside = kv::tile::Y == 1 ? 1 : 2; // lanes x and x + 1 are so far apart
#pragma unroll
    for (int w = beside * kv::X; w < beside * kv::tile::X; w *= 2)
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) s[i][j] += __shfl_xor_sync(0xffffffffu, s[i][j], w);
}

// Scores become weights under the new maximum, in registers and in P; m, l and o follow (tile.cuh). Of the
// lanes that share keys the first has them: for the others no key exists. The caller sees to it that
// the warp's last reading of P is over, and begins the next after a __syncwarp() or a barrier.
template <int D>
__device__ __forceinline__ void kv_softmax(float (&s)[8][8], float *my_p, float scale, int keys,
                                           int x, tile_rows &rows, float (&o)[8][8]) {
    typedef kv_tile<D> kv;
    const bool all = kv::PARTS == 1 && keys >= kv::BC;
    const float factor = tile_scale(s, scale, (keys < kv::BC ? keys : kv::BC) - 8 * x, all);
    tile_softmax<D>(s, factor, rows, o);
    if (x < kv::X) tile_write_weights<kv::BC>(my_p + 8 * x, s);
}

template <int D>
__device__ __forceinline__ void kv_values(float (&o)[8][8], const float *shared, const float *my_p,
                                          int x) {
    tile_values<kv_tile<D>::BC, kv_tile<D>::BC, D, D / 2>(o, my_p, shared + kv_tile<D>::V + 4 * x);
}

// O = o / l, and every lane gets its rows' whole l. As long as all scores of a row are -infinity, l and o
// are 0. If these were all its keys (`final`), its softmax does not exist and O is 0/0; but if others
// are to come, in the next tile or in another slice, O must still be 0 then.
template <int D>
__device__ __forceinline__ void kv_normalise(float (&o)[8][8], tile_rows &rows, bool final) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float l = tile_row_sum<D>(rows.l[i]);
        const float factor = l == 0 && !final ? 0 : 1 / l;
        rows.l[i] = l;
#pragma unroll
        for (int c = 0; c < 8; c++) o[i][c] *= factor;
    }
}

__device__ __forceinline__ float kv_lse(const tile_rows &rows, int i) {
    return fmaf(rows.m[i], TILE_LN_2, logf(rows.l[i])); // in natural units
}

#endif
