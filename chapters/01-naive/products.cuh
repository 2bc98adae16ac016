// products.cuh -- chapter 1's two tiled matrix products, shared by its forward and backward pass.
//
//   score_product     C[i][j] = factor * sum_c A[i][c] B[j][c]
//                       S = scale Q K^T,   dP = dO V^T
//   weighted_rows     C[x][c] = factor * sum_y W[x][y] B[y][c]
//                       O = P V,           dQ = scale dS K
//     ... TRANSPOSED  the same with W^T:
//                       dV = P^T dO,       dK = scale dS^T Q
//
// i counts queries and j keys, c the d columns of a head. Tiles are 64 x 64, as the tiled kernels' of
// later chapters, so that what S and P cost shows in the bytes and nothing else does.
//
// Block: 256 threads. Each holds 4 x 4 scores, or 4 x 4 or 4 x 8 outputs, in registers, and fetches its
// operands from shared memory four numbers at a time: 8 fetches for 64 multiply-adds, or 12 for 128.
#ifndef PRODUCTS_CUH
#define PRODUCTS_CUH

#include "chapters/01-naive/quads.cuh"
#include "cpu/mask.h"

enum { TILE = 64, ROWS = 4, THREADS = SPAN * TILE / ROWS }; // ROWS: a thread's

// What every kernel needs to find its rows. Head h of batch * heads reads head h / group of K and V.
typedef struct naive_shape {
    attn_band band; // q_len, kv_len, and which keys a query sees
    int d, group;
} naive_shape;

static __host__ __device__ inline int tiles_of(int length) {
    return (length + TILE - 1) / TILE;
}

// Do all queries of one tile see all keys of another? Then nobody need ask pair by pair. The band's edges
// move with the query: the last query has the last first key, the first the first end.
__device__ inline bool tile_is_open(attn_band band, int first_query, int first_key) {
    const int last_query = first_query + TILE - 1;
    return last_query < band.q_len && attn_first_key(band, last_query) <= first_key &&
           attn_end_key(band, first_query) >= first_key + TILE;
}

// C[i][j] = factor * sum_c A[i][c] B[j][c]; with MASKED, -infinity where query i does not see key j.
//   a [B][H][q_len][d]   b [B][kv_heads][kv_len][d]   c [B][H][q_len][kv_len]
// Grid: a block for each 64 x 64 tile of C. Shared memory: 2 * 64 * 68 floats.
// Bytes a head: A is read once for each tile of keys, B once for each tile of queries; C is written once.
template <bool MASKED>
__global__ void __launch_bounds__(THREADS, 3)
    score_product(const float *a, const float *b, float *c, naive_shape shape, float factor) {
    // + 4: rows begin at multiples of 16 bytes, and eight rows in a sequence begin in different banks.
    GPU_SHARED(float, a_tile, [TILE][TILE + 4]);
    GPU_SHARED(float, b_tile, [TILE][TILE + 4]);
    const int q_len = shape.band.q_len, kv_len = shape.band.kv_len;
    const int key_tiles = tiles_of(kv_len), query_tiles = tiles_of(q_len);
    const int first_key = (int)(blockIdx.x % key_tiles) * TILE;
    const int first_query = (int)(blockIdx.x / key_tiles % query_tiles) * TILE;
    const int head = blockIdx.x / (key_tiles * query_tiles);
    a += (size_t)head * q_len * shape.d;
    b += (size_t)(head / shape.group) * kv_len * shape.d;
    c += (size_t)head * q_len * kv_len;

    const int tx = span_x(), ty = span_y();
    float sum[ROWS][TILE / SPAN] = {};
    for (int c0 = 0; c0 < shape.d; c0 += TILE) {
        load_tile<TILE, TILE + 4>(a_tile[0], TILE, a, q_len, shape.d, first_query, c0);
        load_tile<TILE, TILE + 4>(b_tile[0], TILE, b, kv_len, shape.d, first_key, c0);
        cp_async_wait<0>(); // this thread's part of both tiles is there
        __syncthreads();    // and everybody's, before anyone multiplies
#pragma unroll 4
        for (int k = 0; k < TILE; k += 4) {
            float4 a4[ROWS];
            for (int y = 0; y < ROWS; y++) a4[y] = shared_load4(&a_tile[ROWS * ty + y][k]);
            for (int x = 0; x < TILE / SPAN; x++) {
                const float4 b4 = shared_load4(&b_tile[tx + SPAN * x][k]);
                for (int y = 0; y < ROWS; y++) sum[y][x] = add_product(sum[y][x], a4[y], b4);
            }
        }
        __syncthreads(); // nobody reads the tiles any more: the next columns may overwrite them
    }
    const bool open = tile_is_open(shape.band, first_query, first_key);
    for (int y = 0; y < ROWS; y++) {
        const int i = first_query + ROWS * ty + y;
        if (i >= q_len) continue;
        const int first = attn_first_key(shape.band, i), end = attn_end_key(shape.band, i);
        for (int x = 0; x < TILE / SPAN; x++) {
            const int j = first_key + tx + SPAN * x;
            float value = factor * sum[y][x];
            if (!open) {
                if (j >= kv_len) continue;
                if (MASKED && (j < first || j >= end)) value = -INFINITY;
            }
            hbm_store(&c[(size_t)i * kv_len + j], value);
        }
    }
}

// sum[r][.] += sum_y W[x][y] B[y][.] over the pairs of one tile that see each other, x the thread's row r,
// y its tile's other index. OPEN: all do, so nobody asks.
//
// What is masked is left out of the sum, not multiplied by a weight of 0: 0 * NaN is NaN.
template <bool OPEN, bool TRANSPOSED, int COLUMNS>
__device__ inline void
add_rows(float (&sum)[ROWS][COLUMNS / SPAN], const float (&w_tile)[TILE][TILE],
         const float (&b_tile)[TILE][COLUMNS], attn_band band, int first_query, int first_key) {
    const int tx = span_x(), ty = span_y();
#pragma unroll(OPEN ? 4 : 1)
    for (int y0 = 0; y0 < TILE; y0 += 4) {
        // Weights of four rows of C and four y: [row][y], or [y][row] where W lies the other way.
        float weight[4][4];
        const int row = TRANSPOSED ? y0 : ROWS * ty, column = TRANSPOSED ? ROWS * ty : y0;
        for (int n = 0; n < 4; n++)
            to_array(weight[n], shared_load4(&w_tile[row + n][swapped(row, column)]));
        for (int n = 0; n < 4; n++) {
            float b[COLUMNS / SPAN];
            for (int c = 0; c < COLUMNS / SPAN; c += 4)
                to_array(&b[c], shared_load4(&b_tile[y0 + n][SPAN * c + 4 * tx]));
            for (int r = 0; r < ROWS; r++) {
                const int i = first_query + (TRANSPOSED ? y0 + n : ROWS * ty + r);
                const int j = first_key + (TRANSPOSED ? ROWS * ty + r : y0 + n);
                if (!OPEN &&
                    (i >= band.q_len || j < attn_first_key(band, i) || j >= attn_end_key(band, i)))
                    continue;
                const float w = TRANSPOSED ? weight[n][r] : weight[r][n];
                for (int c = 0; c < COLUMNS / SPAN; c++) sum[r][c] += w * b[c];
            }
        }
    }
}

// C[x][c] = factor * sum_y W[x][y] B[y][c] over the pairs that see each other. W [B][H][q_len][kv_len].
//   not TRANSPOSED: x is a query, y a key;  b [B][kv_heads][kv_len][d]   c [B][H][q_len][d]
//   TRANSPOSED:     x is a key, y a query;  b [B][H][q_len][d]           c [B][kv_heads][kv_len][d]
//                   and the sum runs over all query heads that share the key's head
// Grid: a block for each 64 rows x COLUMNS columns of C.
// Shared memory: 64 * 64 + 64 * COLUMNS floats; with 128 columns the 48 KB that a block may declare.
// Bytes a head: W is read once for each COLUMNS columns, B once for each tile of rows of C.
template <int COLUMNS, bool TRANSPOSED>
__global__ void __launch_bounds__(THREADS, COLUMNS == 64 ? 3 : 2)
    weighted_rows(const float *w, const float *b, float *c, naive_shape shape, float factor) {
    GPU_SHARED(float, w_tile, [TILE][TILE]); // [query][key], as W lies in memory; swapped()
    GPU_SHARED(float, b_tile, [TILE][COLUMNS]);
    const int q_len = shape.band.q_len, kv_len = shape.band.kv_len, d = shape.d;
    const int x_len = TRANSPOSED ? kv_len : q_len, y_len = TRANSPOSED ? q_len : kv_len;
    const int column_tiles = (d + COLUMNS - 1) / COLUMNS, x_tiles = tiles_of(x_len);
    const int first_column = (int)(blockIdx.x % column_tiles) * COLUMNS;
    const int first_x = (int)(blockIdx.x / column_tiles % x_tiles) * TILE;
    const int c_head = blockIdx.x / (column_tiles * x_tiles);
    const int heads_summed = TRANSPOSED ? shape.group : 1;

    float sum[ROWS][COLUMNS / SPAN] = {};
    for (int g = 0; g < heads_summed; g++) {
        const int w_head = TRANSPOSED ? c_head * shape.group + g : c_head;
        const int b_head = TRANSPOSED ? w_head : c_head / shape.group;
        const float *w_matrix = w + (size_t)w_head * q_len * kv_len;
        const float *b_matrix = b + (size_t)b_head * y_len * d;
        for (int first_y = 0; first_y < y_len; first_y += TILE) {
            const int first_query = TRANSPOSED ? first_y : first_x;
            const int first_key = TRANSPOSED ? first_x : first_y;
            load_tile<TILE, TILE, true>(w_tile[0], TILE, w_matrix, q_len, kv_len, first_query,
                                        first_key);
            load_tile<COLUMNS, COLUMNS>(b_tile[0], TILE, b_matrix, y_len, d, first_y, first_column);
            cp_async_wait<0>(); // this thread's part of both tiles is there
            __syncthreads();    // and everybody's, before anyone multiplies
            if (tile_is_open(shape.band, first_query, first_key))
                add_rows<true, TRANSPOSED, COLUMNS>(sum, w_tile, b_tile, shape.band, first_query,
                                                    first_key);
            else
                add_rows<false, TRANSPOSED, COLUMNS>(sum, w_tile, b_tile, shape.band, first_query,
                                                     first_key);
            __syncthreads(); // nobody reads the tiles any more: the next ones may overwrite them
        }
    }
    c += (size_t)c_head * x_len * d;
    for (int r = 0; r < ROWS; r++) {
        const int x = first_x + ROWS * span_y() + r;
        for (int n = 0; n < COLUMNS / SPAN && x < x_len; n += 4)
            store_quad(c + (size_t)x * d, first_column + SPAN * n + 4 * span_x(), d, factor,
                       &sum[r][n]);
    }
}

#endif
