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
// Block: 256 threads. Each holds 4 x 4 scores, or 4 x 4 or 4 x 8 outputs, in registers, so that a number
// fetched from shared memory serves four multiply-adds or more; fetched four at a time, 16 or more.
#ifndef PRODUCTS_CUH
#define PRODUCTS_CUH

#include "cpu/mask.h"
#include "gpu/gpu.h"

enum { TILE = 64, CHUNK = 32, THREADS = 256, SPAN = 16 };

// What every kernel needs to find its rows. Head h of batch * heads reads head h / group of K and V.
typedef struct naive_shape {
    attn_band band; // q_len, kv_len, and which keys a query sees
    int d, group;
} naive_shape;

static __host__ __device__ inline int tiles_of(int length) {
    return (length + TILE - 1) / TILE;
}

// Copies 64 rows from first_row on, COLUMNS columns from first_column on, of a [rows][columns] matrix
// to shared memory; what lies outside the matrix becomes 0.
template <int COLUMNS, int PITCH>
__device__ inline void load_tile(float (&tile)[TILE][PITCH], const float *matrix, int rows,
                                 int columns, int first_row, int first_column) {
    for (int e = threadIdx.x; e < TILE * COLUMNS; e += THREADS) {
        const int r = e / COLUMNS, c = e % COLUMNS;
        const int row = first_row + r, column = first_column + c;
        float value = 0;
        if (row < rows && column < columns)
            value = hbm_load(&matrix[(size_t)row * columns + column]);
        tile[r][c] = value;
    }
}

// C[i][j] = factor * sum_c A[i][c] B[j][c]; with MASKED, -infinity where query i does not see key j.
//   a [B][H][q_len][d]   b [B][kv_heads][kv_len][d]   c [B][H][q_len][kv_len]
// Grid: a block for each 64 x 64 tile of C. Shared memory: 2 * 64 * 36 floats.
// Bytes a head: A is read once for each tile of keys, B once for each tile of queries; C is written once.
template <bool MASKED>
__global__ void score_product(const float *a, const float *b, float *c, naive_shape shape,
                              float factor) {
    // + 4: rows begin at multiples of 16 bytes, and eight rows in a sequence begin in different banks.
    GPU_SHARED(float, a_tile, [TILE][CHUNK + 4]);
    GPU_SHARED(float, b_tile, [TILE][CHUNK + 4]);
    const int q_len = shape.band.q_len, kv_len = shape.band.kv_len;
    const int key_tiles = tiles_of(kv_len), query_tiles = tiles_of(q_len);
    const int first_key = (int)(blockIdx.x % key_tiles) * TILE;
    const int first_query = (int)(blockIdx.x / key_tiles % query_tiles) * TILE;
    const size_t head = blockIdx.x / ((size_t)key_tiles * query_tiles);
    a += head * q_len * shape.d;
    b += head / shape.group * kv_len * shape.d;
    c += head * q_len * kv_len;

    const int tx = threadIdx.x % SPAN, ty = threadIdx.x / SPAN;
    float sum[4][4] = {};
    for (int c0 = 0; c0 < shape.d; c0 += CHUNK) {
        load_tile<CHUNK>(a_tile, a, q_len, shape.d, first_query, c0);
        load_tile<CHUNK>(b_tile, b, kv_len, shape.d, first_key, c0);
        __syncthreads(); // both tiles are complete before anyone multiplies
        for (int k = 0; k < CHUNK; k += 4) {
            float4 a4[4], b4[4];
            for (int n = 0; n < 4; n++) {
                a4[n] = shared_load4(&a_tile[ty + SPAN * n][k]);
                b4[n] = shared_load4(&b_tile[tx + SPAN * n][k]);
            }
            for (int y = 0; y < 4; y++)
                for (int x = 0; x < 4; x++) {
                    sum[y][x] += a4[y].x * b4[x].x;
                    sum[y][x] += a4[y].y * b4[x].y;
                    sum[y][x] += a4[y].z * b4[x].z;
                    sum[y][x] += a4[y].w * b4[x].w;
                }
        }
        __syncthreads(); // nobody reads the tiles any more: the next chunk may overwrite them
    }
    for (int y = 0; y < 4; y++) {
        const int i = first_query + ty + SPAN * y;
        if (i >= q_len) continue;
        const int first = attn_first_key(shape.band, i), end = attn_end_key(shape.band, i);
        for (int x = 0; x < 4; x++) {
            const int j = first_key + tx + SPAN * x;
            if (j >= kv_len) continue;
            float value = factor * sum[y][x];
            if (MASKED && (j < first || j >= end)) value = -INFINITY;
            hbm_store(&c[(size_t)i * kv_len + j], value);
        }
    }
}

// Do all queries of one tile see all keys of another? Then the products need not ask pair by pair.
// The band's edges move with the query: the last query has the last first key, the first the first end.
__device__ inline bool tile_is_open(attn_band band, int first_query, int first_key) {
    const int last_query = first_query + TILE - 1;
    return last_query < band.q_len && attn_first_key(band, last_query) <= first_key &&
           attn_end_key(band, first_query) >= first_key + TILE;
}

__device__ inline void to_array(float *to, float4 from) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
}

// W[x][y0 .. y0 + 3], which lie side by side unless x counts keys.
template <bool TRANSPOSED, int PITCH>
__device__ inline void load_weights(float *weight, float (&w_tile)[TILE][PITCH], int x, int y0) {
    if (TRANSPOSED)
        for (int n = 0; n < 4; n++) weight[n] = w_tile[y0 + n][x];
    else
        to_array(weight, shared_load4(&w_tile[x][y0]));
}

// factor * value[0..3] to columns column .. column + 3 of a row of d: in one request where rows begin at
// multiples of 16 bytes, else one by one.
__device__ inline void store_quad(float *row, int column, int d, float factor, const float *value) {
    if (d % 4 == 0) {
        if (column < d)
            hbm_store((float4 *)&row[column], make_float4(factor * value[0], factor * value[1],
                                                          factor * value[2], factor * value[3]));
        return;
    }
    for (int n = 0; n < 4; n++)
        if (column + n < d) hbm_store(&row[column + n], factor * value[n]);
}

// C[x][c] = factor * sum_y W[x][y] B[y][c] over the pairs that see each other. W [B][H][q_len][kv_len].
//   not TRANSPOSED: x is a query, y a key;  b [B][kv_heads][kv_len][d]   c [B][H][q_len][d]
//   TRANSPOSED:     x is a key, y a query;  b [B][H][q_len][d]           c [B][kv_heads][kv_len][d]
//                   and the sum runs over all query heads that share the key's head
// Grid: a block for each 64 rows x COLUMNS columns of C.
// Shared memory: 64 * 68 + 64 * 64 floats for 64 columns, 64 * 64 + 64 * 128 for 128.
// Bytes a head: W is read once for each COLUMNS columns, B once for each tile of rows of C.
//
// What is masked is left out of the sum, not multiplied by a weight of 0: 0 * NaN is NaN.
template <int COLUMNS, bool TRANSPOSED>
__global__ void weighted_rows(const float *w, const float *b, float *c, naive_shape shape,
                              float factor) {
    // [query][key] either way, as W lies in memory. The padding keeps two rows apart in the banks; with
    // 128 columns there is no room for it, the two tiles fill the 48 KB that a block may declare.
    constexpr int PITCH = COLUMNS == 64 ? TILE + 4 : TILE;
    GPU_SHARED(float, w_tile, [TILE][PITCH]);
    GPU_SHARED(float, b_tile, [TILE][COLUMNS]);
    const int q_len = shape.band.q_len, kv_len = shape.band.kv_len, d = shape.d;
    const int x_len = TRANSPOSED ? kv_len : q_len, y_len = TRANSPOSED ? q_len : kv_len;
    const int column_tiles = (d + COLUMNS - 1) / COLUMNS, x_tiles = tiles_of(x_len);
    const int first_column = (int)(blockIdx.x % column_tiles) * COLUMNS;
    const int first_x = (int)(blockIdx.x / column_tiles % x_tiles) * TILE;
    const size_t c_head = blockIdx.x / ((size_t)column_tiles * x_tiles);
    const int heads_summed = TRANSPOSED ? shape.group : 1;

    const int tx = threadIdx.x % SPAN, ty = threadIdx.x / SPAN;
    constexpr int QUADS = COLUMNS / TILE; // a thread's columns: four together, in each 64 of them
    float sum[4][4 * QUADS] = {};
    for (int g = 0; g < heads_summed; g++) {
        const size_t w_head = TRANSPOSED ? c_head * shape.group + g : c_head;
        const size_t b_head = TRANSPOSED ? w_head : c_head / shape.group;
        const float *w_matrix = w + w_head * q_len * kv_len;
        const float *b_matrix = b + b_head * y_len * d;
        for (int first_y = 0; first_y < y_len; first_y += TILE) {
            const int first_query = TRANSPOSED ? first_y : first_x;
            const int first_key = TRANSPOSED ? first_x : first_y;
            load_tile<TILE>(w_tile, w_matrix, q_len, kv_len, first_query, first_key);
            load_tile<COLUMNS>(b_tile, b_matrix, y_len, d, first_y, first_column);
            __syncthreads(); // both tiles are complete before anyone multiplies
            const bool open = tile_is_open(shape.band, first_query, first_key);
            for (int y0 = 0; y0 < TILE; y0 += 4) {
                float weight[4][4]; // of row r, for y0 .. y0 + 3
                for (int r = 0; r < 4; r++)
                    load_weights<TRANSPOSED>(weight[r], w_tile, ty + SPAN * r, y0);
                for (int n = 0; n < 4; n++) {
                    const int y = y0 + n;
                    float b4[4 * QUADS];
                    for (int quad = 0; quad < QUADS; quad++)
                        to_array(&b4[4 * quad], shared_load4(&b_tile[y][TILE * quad + 4 * tx]));
                    for (int r = 0; r < 4; r++) {
                        const int x = ty + SPAN * r;
                        const int i = first_query + (TRANSPOSED ? y : x);
                        const int j = first_key + (TRANSPOSED ? x : y);
                        if (!open && (i >= q_len || j < attn_first_key(shape.band, i) ||
                                      j >= attn_end_key(shape.band, i)))
                            continue;
                        for (int c = 0; c < 4 * QUADS; c++) sum[r][c] += weight[r][n] * b4[c];
                    }
                }
            }
            __syncthreads(); // nobody reads the tiles any more: the next ones may overwrite them
        }
    }
    c += c_head * x_len * d;
    for (int r = 0; r < 4; r++)
        for (int quad = 0; quad < QUADS; quad++) {
            const int x = ty + SPAN * r + first_x;
            if (x < x_len)
                store_quad(c + (size_t)x * d, first_column + TILE * quad + 4 * tx, d, factor,
                           &sum[r][4 * quad]);
        }
}

#endif
