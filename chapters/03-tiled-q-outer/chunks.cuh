// chunks.cuh -- how K and V get to the chip with Q outer: in chunks of 16 KB, some columns of all keys of K_j
// or some keys of V_j, through two slots of shared memory, a ring. From D = 128 on a whole K_j and V_j besides
// Q and P would leave room for one block a multiprocessor; so there is room for two.
#ifndef CHUNKS_CUH
#define CHUNKS_CUH

#include "chapters/03-tiled-q-outer/tile.cuh"

// A tile of K goes in COUNT chunks of BC keys x K_WIDTH columns, one of V in COUNT of V_KEYS keys x D.
template <int D> struct tile_chunks {
    enum {
        BC = tile_shape<D>::BC,
        COUNT = D * BC > 4096 ? D *BC / 4096 : 1,
        K_WIDTH = D / COUNT,
        V_KEYS = BC / COUNT,
        FLOATS =
            tile_at<K_WIDTH>(BC) > tile_at<D>(V_KEYS) ? tile_at<K_WIDTH>(BC) : tile_at<D>(V_KEYS),
    };
};

template <int D> constexpr size_t chunk_shared_bytes() {
    typedef tile_shape<D> tile;
    return sizeof(float) *
           (tile_at<D>(tile::BR) + tile_at<tile::BC>(tile::BR) + 2 * tile_chunks<D>::FLOATS);
}

// Starts to copy chunk n of the tile whose first key is `key`: the first COUNT are K's, then come V's.
// Chunk 2 * COUNT is the next tile's first. Where k ends there is nothing to copy.
template <int D>
__device__ __forceinline__ void chunk_fetch(float *ring, tile_matrix k, tile_matrix v, int key,
                                            int n) {
    typedef tile_chunks<D> chunks;
    typedef tile_shape<D> tile;
    float *slot = ring + n % 2 * chunks::FLOATS;
    if (n == 2 * chunks::COUNT) n = 0, key += tile::BC;
    if (key >= k.rows) return;
    if (n < chunks::COUNT)
        tile_load<tile::BC, chunks::K_WIDTH, tile::THREADS>(slot, k, key, n * chunks::K_WIDTH);
    else
        tile_load<chunks::V_KEYS, D, tile::THREADS>(slot, v,
                                                    key + (n - chunks::COUNT) * chunks::V_KEYS, 0);
}

#endif
