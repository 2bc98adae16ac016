// tile.cuh -- the work on one tile of queries and one tile of keys, in registers and shared memory.
//
// Chapter 3's fast kernel is made of these functions, and so are chapter 4's and 5's: kernels there
// differ in their loops and in nothing else. All sizes follow from D, the head dimension compiled for
// (32, 64, 128 or 256; a smaller d runs in the next larger D, and what lies beyond d is never loaded):
//
//   a thread     8 queries x 8 keys of S, and 8 queries x 8 columns of O
//   a warp       Y x X threads, X = D / 8, Y = 32 / X:  8Y queries x D keys,  8Y queries x D columns
//   a block      4 warps below each other: Br = 32Y = 8192 / D queries, Bc = D keys
//
// So a row of S and the same row of O belong to the same X threads of one warp: the softmax needs
// shuffles only, and P goes from lane to lane through rows of shared memory that no other warp touches.
//
// Why 8 x 8: for a step along the inner dimension a thread reads 8 + 8 floats and does 64 multiply-adds.
// A 4 x 4 tile reads 4 + 4 for 16, and shared memory is then the bottleneck. 8 x 8 twice is 128 of the
// 255 registers that a thread can have.
#ifndef TILE_CUH
#define TILE_CUH

#include "cpu/trace/hooks.h"
#include "gpu/gpu.h"

template <int D_> struct tile_shape {
    static_assert(D_ == 32 || D_ == 64 || D_ == 128 || D_ == 256, "compiled head dimensions");
    enum {
        D = D_,
        WARPS = 4,
        THREADS = 32 * WARPS,
        X = D / 8,  // lanes beside each other: 8 keys, or 8 columns of O each
        Y = 32 / X, // lanes below each other: 8 queries each
        BR = WARPS * 8 * Y,
        BC = D,
    };
};

// ---- how a tile lies in shared memory ----
// Row by row, with a gap of 4 floats after every 8 rows. Lanes beside each other own rows 8 apart and
// read the same column of them at the same time, 16 bytes each; without the gaps these would all begin
// in the same of the 32 banks, with them they begin 4 banks apart, and 8 lanes are served at once.
template <int WIDTH> __host__ __device__ constexpr int tile_at(int row) {
    return row * WIDTH + row / 8 * 4;
}

// ---- which part is whose ----
typedef struct tile_thread {
    int x;     // keys 8x .. 8x + 7 of the tile; columns 4x .. 4x + 3 and D/2 + 4x .. D/2 + 4x + 3
    int query; // its first of 8 queries of the tile
} tile_thread;

// Lanes 2n and 2n + 1 are below each other, not beside: of 8 lanes that shared memory serves together
// only 2 rows of Q and 4 of K are asked for, and what is the same is read once.
template <int D> __device__ __forceinline__ tile_thread tile_thread_here() {
    typedef tile_shape<D> shape;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (shape::Y == 1) return {lane, 8 * warp};
    const int x = lane / 2 % shape::X, y = lane % 2 + lane / (2 * shape::X) * 2;
    return {x, 8 * (warp * shape::Y + y)};
}

// ---- loading ----
typedef struct tile_matrix {
    const float *at; // [rows][columns], of one head, in device memory
    int rows, columns;
    bool vectors;  // every row begins at a multiple of 16 bytes, and columns is a multiple of 4
    int pitch = 0; // from a row to the next, in floats; 0: the rows lie side by side
} tile_matrix;

// May 16 bytes be copied at once? Pointers as the caller got them: heads follow each other densely.
static inline bool tile_vectors(int64_t d, const void *a, const void *b, const void *c,
                                const void *o) {
    return d % 4 == 0 && ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)o) % 16 == 0;
}

// Starts to copy rows first_row .. + ROWS - 1, columns first_column .. + WIDTH - 1 of a matrix to a tile;
// what lies outside the matrix becomes 0 there and is not read. The whole block takes part. The tile may
// be read after tile_arrived(), and must be free before: nobody may still read what it held.
template <int ROWS, int WIDTH, int THREADS>
__device__ __forceinline__ void tile_load(float *tile, tile_matrix m, int first_row,
                                          int first_column) {
    const int thread = threadIdx.x % THREADS; // the same; the compiler learns how large it may be
    const int pitch = m.pitch ? m.pitch : m.columns;
    if (m.vectors && first_row + ROWS <= m.rows) {
        // All rows are there, the common case: a thread has 16 bytes of every STEP-th row, and of
        // instructions the copy and the next address.
        enum { STEP = THREADS / (WIDTH / 4) };
        const int r = thread / (WIDTH / 4), c = thread % (WIDTH / 4) * 4;
        const float *from = m.at + (size_t)(first_row + r) * pitch + first_column + c;
        if (first_column + c < m.columns) {
#pragma unroll
            for (int below = 0; below < ROWS; below += STEP) {
                cp_async16(tile + tile_at<WIDTH>(r + below) + c, from);
                from += STEP * pitch;
            }
        } else {
#pragma unroll
            for (int below = 0; below < ROWS; below += STEP)
                shared_store4(tile + tile_at<WIDTH>(r + below) + c, make_float4(0, 0, 0, 0));
        }
    } else {
        const int piece = m.vectors ? 4 : 1; // floats a copy
#pragma unroll 1
        for (int e = piece * thread; e < ROWS * WIDTH; e += piece * THREADS) {
            const int r = e / WIDTH, c = e % WIDTH;
            const int row = first_row + r, column = first_column + c;
            float *to = tile + tile_at<WIDTH>(r) + c;
            const float *from = m.at + (size_t)row * pitch + column;
            const bool exists = row < m.rows && column < m.columns;
            if (m.vectors && exists)
                cp_async16(to, from);
            else if (m.vectors)
                shared_store4(to, make_float4(0, 0, 0, 0));
            else if (exists)
                cp_async4(to, from);
            else
                *to = 0;
        }
    }
    cp_async_commit();
}

// All tiles whose loading was started are there, for all threads of the block; and all threads are here,
// so that what they read before may be overwritten.
__device__ __forceinline__ void tile_arrived() {
    cp_async_wait<0>(); // this thread's own copies
    __syncthreads();    // everybody's
}

// ---- products ----
__device__ __forceinline__ void tile_read4(float *to, const float *shared) {
    const float4 four = shared_load4(shared);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

// A thread has 8 rows of a product and C columns: 8 here and in chapter 4, 8, 4 or 1 in chapter 5.
template <int C> __device__ __forceinline__ void tile_clear(float (&a)[8][C]) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < C; j++) a[i][j] = 0;
}

// sum[i][j] += a[i] * b[j]: 8C multiply-adds, none of which waits for another. Every other row runs
// backwards, so that neighbours share an operand, which the GPU then need not fetch from its register.
template <int C>
__device__ __forceinline__ void tile_outer(float (&sum)[8][C], const float (&a)[8],
                                           const float (&b)[C]) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int n = 0; n < C; n++) {
            const int j = i % 2 ? C - 1 - n : n;
            sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
        }
}

// s += A B^T over WIDTH columns: s[i][j] += sum_c a[i][c] * b[j][c].
//   a   the thread's first row in a tile of pitch A_WIDTH (Q), at the first of the columns
//   b   the thread's first row in a tile of pitch WIDTH (K)
template <int A_WIDTH, int WIDTH, int C>
__device__ __forceinline__ void tile_scores(float (&s)[8][C], const float *a, const float *b) {
#pragma unroll(A_WIDTH > 64 ? 4 : 2) // as measured
    for (int c = 0; c < WIDTH; c += 4) {
        float x[8][4], y[C][4];
#pragma unroll
        for (int i = 0; i < 8; i++) tile_read4(x[i], a + i * A_WIDTH + c);
#pragma unroll
        for (int j = 0; j < C; j++) tile_read4(y[j], b + j * WIDTH + c);
#pragma unroll
        for (int u = 0; u < 4; u++) {
            float row[8], column[C];
#pragma unroll
            for (int i = 0; i < 8; i++) row[i] = x[i][u];
#pragma unroll
            for (int j = 0; j < C; j++) column[j] = y[j][u];
            tile_outer(s, row, column);
        }
    }
}

// 4 or 8 columns of a row: 4 side by side, and 4 more NEXT columns to the right.
template <int NEXT, int C>
__device__ __forceinline__ void tile_read_columns(float (&to)[C], const float *row) {
    static_assert(C == 4 || C == 8, "one or two reads of 16 bytes");
#pragma unroll
    for (int c = 0; c < C; c += 4) tile_read4(to + c, row + c / 4 * NEXT);
}

// o += P V over KEYS keys: o[i][.] += sum_j p[i][j] * v[j][.].
//   p   the thread's first row in a tile of pitch P_WIDTH, at the first of the keys
//   v   a tile of KEYS rows, D columns, at the thread's first column; the next 4 lie NEXT to the right
template <int P_WIDTH, int KEYS, int D, int NEXT, int C>
__device__ __forceinline__ void tile_values(float (&o)[8][C], const float *p, const float *v) {
#pragma unroll 1
    for (int j = 0; j < KEYS;
         j += 8) // 8 rows of V to a gap: all addresses are constants away from one
#pragma unroll
        for (int h = 0; h < 8; h += 4) {
            float x[8][4];
#pragma unroll
            for (int i = 0; i < 8; i++) tile_read4(x[i], p + i * P_WIDTH + j + h);
#pragma unroll
            for (int u = 0; u < 4; u++) {
                float weight[8], y[C];
#pragma unroll
                for (int i = 0; i < 8; i++) weight[i] = x[i][u];
                tile_read_columns<NEXT>(y, v + tile_at<D>(j) + (h + u) * D);
                tile_outer(o, weight, y);
            }
        }
}

// ---- softmax ----
// 2^x, flushing results below 2^-126 to 0: one instruction (PTX ISA, "ex2"), where exp2f takes four to
// keep those. A weight that small would not change its row's sum, which is at least 1.
__device__ __forceinline__ float tile_exp2(float x) {
#if defined(__CUDA_ARCH__)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// Over the X lanes that share the thread's queries.
template <int D> __device__ __forceinline__ float tile_row_max(float value) {
    const int first = tile_shape<D>::Y == 1 ? 1 : 2; // lanes 2n, 2n + 1 are below each other
#pragma unroll
    for (int w = first; w < first * tile_shape<D>::X; w *= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, w));
    return value;
}
template <int D> __device__ __forceinline__ float tile_row_sum(float value) {
    const int first = tile_shape<D>::Y == 1 ? 1 : 2;
#pragma unroll
    for (int w = first; w < first * tile_shape<D>::X; w *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, w);
    return value;
}

constexpr float TILE_LOG2_E = 1.44269504088896341f, TILE_LN_2 = 0.69314718055994531f;

// Makes scores of products, scale * s * log2(e), so that a weight is a power of two; keys that do not
// exist get minus infinity, whatever was computed for them. `keys`: how many there are from the thread's
// first key on; `all`: the whole tile has keys.
// Returns the factor that is still to be applied. In the common case that is all of it, for tile_softmax
// can multiply and subtract in one instruction. Not so with a scale below 0, where the largest product
// is the smallest score, nor where minus infinity stands in for a key: times a scale of 0 it is NaN.
__device__ __forceinline__ float tile_scale(float (&s)[8][8], float scale, int keys, bool all) {
    if (all && scale > 0 && scale < 1e30f) return scale * TILE_LOG2_E;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) s[i][j] = j < keys ? s[i][j] * scale : -INFINITY;
    return TILE_LOG2_E;
}

// The state of a row after some keys: m the largest score times log2(e), l the sum of 2^(s - m) over this
// thread's keys alone, o the sum of 2^(s - m) v. Begins with m = -infinity, l = 0, o = 0 (chapter 2
// derives it).
typedef struct tile_rows {
    float m[8], l[8];
} tile_rows;

__device__ __forceinline__ void tile_rows_begin(tile_rows &rows) {
#pragma unroll
    for (int i = 0; i < 8; i++) rows.m[i] = -INFINITY, rows.l[i] = 0;
}

// Online softmax of a tile: s, times `factor`, becomes the weights 2^(s - m) under the new maximum m, and
// what was summed before is rescaled to it.
template <int D>
__device__ __forceinline__ void tile_softmax(float (&s)[8][8], float factor, tile_rows &rows,
                                             float (&o)[8][8]) {
    bool far = false;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float largest = s[i][0];
#pragma unroll
        for (int j = 1; j < 8; j++) largest = fmaxf(largest, s[i][j]);
        // fmaxf passes over NaN, but the weight of a NaN is NaN.
        const float m = fmaxf(rows.m[i], tile_row_max<D>(largest) * factor);
        // Scores that are all minus infinity have no maximum to subtract: (-inf) - (-inf) is NaN.
        const float alpha = tile_exp2(rows.m[i] - (m == -INFINITY ? 0 : m));
        TRACE_ROW(i, s[i], factor, rows.m[i], m, alpha, rows.l[i], o[i]);
        rows.m[i] = m;
        rows.l[i] *= alpha;
#pragma unroll
        for (int c = 0; c < 8; c++) o[i][c] *= alpha;
        far |= fabsf(m) > 0x1p24f && m != -INFINITY;
    }
    // s * factor - m in one instruction has the product unrounded, and m is rounded: the largest score's
    // weight is then not 1 but 2 to the power of that rounding. This cancels in O / l, unless m is so large
    // that the power overflows. So products of large scores are rounded, too.
    if (far) {
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) s[i][j] *= factor;
        factor = 1;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float shift = rows.m[i] == -INFINITY ? 0 : rows.m[i];
        float sum = 0;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            s[i][j] = tile_exp2(fmaf(s[i][j], factor, -shift));
            sum += s[i][j];
        }
        rows.l[i] += sum;
    }
}

// Writes the thread's weights to its place in P (pitch WIDTH), where the other lanes of its warp, and
// they alone, read them. Call __syncwarp() or a barrier before they do, and one before the next write.
template <int WIDTH>
__device__ __forceinline__ void tile_write_weights(float *p, const float (&s)[8][8]) {
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            shared_store4(p + i * WIDTH + j,
                          make_float4(s[i][j], s[i][j + 1], s[i][j + 2], s[i][j + 3]));
}

// ---- writing O and L ----
// Writes the thread's columns of one row, as tile_read_columns reads them: to [columns].
template <int NEXT, int C>
__device__ __forceinline__ void tile_store_row(float *to, const float (&o)[C], int first_column,
                                               int columns, bool vectors) {
#pragma unroll
    for (int c = 0; c < C; c += 4) {
        const int column = first_column + c / 4 * NEXT;
        if (vectors) {
            if (column < columns)
                hbm_store((float4 *)(to + column), make_float4(o[c], o[c + 1], o[c + 2], o[c + 3]));
        } else {
#pragma unroll
            for (int n = 0; n < 4; n++)
                if (column + n < columns) hbm_store(&to[column + n], o[c + n]);
        }
    }
}

// O = o / l and L = m + log l, m back in natural units: the only division and the only logarithm.
//   o_out [q_len][d], its rows `pitch` apart, lse [q_len] of one head; first_query: the thread's, in the head
// A row that sees no key (its bit in `seeing` is 0) has O = 0, L = -infinity. (With keys whose scores are
// all -infinity, l = 0, and O is 0/0: that softmax does not exist.)
template <int D>
__device__ __forceinline__ void
tile_finish(float *o_out, float *lse, float (&o)[8][8], const tile_rows &rows, int first_query,
            int x, int q_len, unsigned seeing, int d, int pitch, bool vectors) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float l = tile_row_sum<D>(rows.l[i]); // all lanes take part, whatever they will store
        const int query = first_query + i;
        if (query >= q_len) continue;
        const float factor = 1 / l;
#pragma unroll
        for (int c = 0; c < 8; c++) o[i][c] = seeing >> i & 1 ? o[i][c] * factor : 0;
        tile_store_row<D / 2>(o_out + (size_t)query * pitch, o[i], 4 * x, d, vectors);
        if (x == 0) hbm_store(&lse[query], fmaf(rows.m[i], TILE_LN_2, logf(l)));
    }
}

#endif
