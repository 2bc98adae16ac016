// quads.cuh -- four floats at a time, 16 bytes: how chapter 1's products, and after them chapter 3's plain
// kernel, load their tiles and read them; and which thread has which part of a tile of results.
//
// The threads of a block stand in rows of SPAN. Thread (x, y) has some rows of the tile, 4y .. 4y + 3, and
// of each either the columns x, x + 16, x + 32 ... (scores), or 4x .. 4x + 3 of every 64 (outputs).
#ifndef QUADS_CUH
#define QUADS_CUH

#include "cpu/trace/hooks.h"
#include "gpu/gpu.h"

enum { SPAN = TRACE_BUILD ? 1 : 16 }; // make trace3 has one thread a block

// Lanes 2n and 2n + 1 of a warp are threads (n, y) and (n, y + 1), below each other. A read of 16 bytes a
// lane takes shared memory four passes, but two when lanes i and i ^ 1 want the same for all i, or lanes i
// and i ^ 2 do. Here the former share their columns, the latter their rows, so that all reads take two.
__device__ inline int span_x() {
    return threadIdx.x % (2 * SPAN) / 2;
}
__device__ inline int span_y() {
    return threadIdx.x / (2 * SPAN) * 2 + threadIdx.x % 2;
}

// May the rows of a [rows][columns] matrix be read and written 16 bytes at a time?
__device__ inline bool has_quads(const float *matrix, int columns) {
    return columns % 4 == 0 && (uintptr_t)matrix % 16 == 0;
}

// Where column c of row r lies in a tile whose rows have no gap between them. Lanes that read rows 4 apart
// at the same column would all begin in the same of the 32 banks and wait for each other; so in every other
// four rows neighbouring quads change places.
__device__ inline int swapped(int r, int c) {
    return c ^ (r & 4);
}

// Starts to copy `count` rows from first_row on, COLUMNS columns from first_column on, of a [rows][columns]
// matrix to a tile in shared memory; what lies outside the matrix becomes 0 there and is not read. The
// whole block takes part, COLUMNS / 4 threads or more. No copy passes through registers (cp.async), so all
// of them are under way at once; they are there when each thread has waited for its own, by
// cp_async_wait<0>(), and then all for each other, at a barrier.
template <int COLUMNS, int PITCH, bool SWAPPED = false>
__device__ inline void load_tile(float *tile, int count, const float *matrix, int rows, int columns,
                                 int first_row, int first_column) {
    if (has_quads(matrix, columns)) {
        enum { ABREAST = COLUMNS / 4 }; // threads that copy one row
        const int c = threadIdx.x % ABREAST * 4, column = first_column + c;
        for (int r = threadIdx.x / ABREAST; r < count; r += blockDim.x / ABREAST) {
            const int row = first_row + r;
            float *to = &tile[r * PITCH + (SWAPPED ? swapped(r, c) : c)];
            if (row < rows && column < columns)
                cp_async16(to, &matrix[(size_t)row * columns + column]);
            else
                shared_store4(to, make_float4(0, 0, 0, 0));
        }
    } else {
        for (int e = threadIdx.x; e < count * COLUMNS; e += blockDim.x) {
            const int r = e / COLUMNS, c = e % COLUMNS;
            const int row = first_row + r, column = first_column + c;
            float *to = &tile[r * PITCH + (SWAPPED ? swapped(r, c) : c)];
            if (row < rows && column < columns)
                cp_async4(to, &matrix[(size_t)row * columns + column]);
            else
                *to = 0;
        }
    }
    cp_async_commit();
}

__device__ inline void to_array(float *to, float4 from) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
}

// sum + a . b: four multiply-adds, one after the other.
__device__ inline float add_product(float sum, float4 a, float4 b) {
    sum += a.x * b.x;
    sum += a.y * b.y;
    sum += a.z * b.z;
    sum += a.w * b.w;
    return sum;
}

// factor * value[0..3] to columns column .. column + 3 of a row of `columns`, as far as these exist.
__device__ inline void store_quad(float *row, int column, int columns, float factor,
                                  const float *value) {
    if (has_quads(row, columns)) {
        if (column < columns)
            hbm_store((float4 *)&row[column], make_float4(factor * value[0], factor * value[1],
                                                          factor * value[2], factor * value[3]));
        return;
    }
    for (int n = 0; n < 4; n++)
        if (column + n < columns) hbm_store(&row[column + n], factor * value[n]);
}

#endif
