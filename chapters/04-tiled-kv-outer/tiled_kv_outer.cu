// tiled_kv_outer.cu -- KV outer, Q inner. This course calls it v2; it is the loop order of the first
// FlashAttention paper (2205.14135, Algorithm 1), while FlashAttention-2 has Q outer (chapter 3).
//
//   for each tile of Bc keys:                       K_j, V_j to shared memory, once
//       for each tile of Br queries:
//           Q_i, O_i, l_i, m_i are read             from device memory, every time
//           S = scale Q_i K_j^T                     in registers
//           m, l, P = online softmax of S
//           O_i = (O_i l_i alpha + P V_j) / l       normalised after every tile, as in the paper
//           O_i, l_i, m_i are written               to device memory, every time; after the last key
//                                                   L_i instead of l_i and m_i
//
// The one thing not to the letter: the paper sets O, l, m to 0, 0, -infinity in device memory at first;
// here the first tile knows that and reads none.
//
// kv-outer: a block a head, all keys. kv-grid: a block for each (head, slice of the keys), the same loops
// over its slice; its O and L are partial, and merge.cu makes them one. A slice that is one tile reads
// and writes no state.
//
// Grid: heads * slices blocks, 1-D; heads are those of K and V, whose query heads are rows of one tall
// Q (kv_tile.cuh). Block: 128 threads. Shared memory: kv_tile.cuh.
// Device bytes, a head, Tc = ceil(kv_len / Bc) tiles of keys in S slices, N = q_len rows:
//   read     4 * (2*kv_len*d + Tc*N*d + (Tc-S)*(N*d + 2N))     merge, if S > 1:  4 * S*(N*d + N)
//   written  4 * (Tc*N*d + (Tc-S)*2N + S*N)                                      4 * (N*d + N)
#include "chapters/04-tiled-kv-outer/tiled_kv_outer.cuh"

// What lies in device memory between two tiles of keys, of one head and slice.
typedef struct kv_state {
    float *o, *m, *l, *lse; // of all heads and slices; m is the maximum times log2(e)
    size_t first;           // the first row of this head and slice
} kv_state;

// m and l as they come: the lanes that share 8 rows read one row's each, or two where there are but 4.
template <int D> struct kv_read {
    enum { X = tile_shape<D>::X, ROWS = X < 8 ? 8 / X : 1 };
    float m[ROWS], l[ROWS]; // of row x + X n
};

// Begins to read O, m and l of the thread's rows.
template <int D>
__device__ __forceinline__ void read_state(float (&o)[8][8], kv_read<D> &read, kv_state state,
                                           kv_shape shape, int first_row, int x) {
    typedef kv_read<D> lanes;
#pragma unroll
    for (int n = 0; n < lanes::ROWS; n++) {
        const int i = x + lanes::X * n;
        const bool exists = i < 8 && first_row + i < shape.rows;
        read.m[n] = exists ? hbm_load(&state.m[state.first + first_row + i]) : -INFINITY;
        read.l[n] = exists ? hbm_load(&state.l[state.first + first_row + i]) : 0;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const bool exists = first_row + i < shape.rows;
        const float *from = state.o + (state.first + first_row + i) * shape.d;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int column = 4 * x + half * (D / 2);
            float *to = o[i] + 4 * half;
            if (shape.vectors) {
                float4 four = make_float4(0, 0, 0, 0);
                if (exists && column < shape.d) four = hbm_load((const float4 *)(from + column));
                to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
            } else {
#pragma unroll
                for (int n = 0; n < 4; n++)
                    to[n] = exists && column + n < shape.d ? hbm_load(&from[column + n]) : 0;
            }
        }
    }
}

// Gives m to all lanes of its row and l to the first, for l is a sum over lanes to which the others have
// added nothing yet; and undoes O's division.
template <int D>
__device__ __forceinline__ void unpack_state(float (&o)[8][8], tile_rows &rows,
                                             const kv_read<D> &read, int x) {
    typedef kv_read<D> lanes;
    const int beside = tile_shape<D>::Y == 1 ? 1 : 2, first = threadIdx.x % 32 - beside * x;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int reader = first + beside * (i % lanes::X);
        const float l = __shfl_sync(0xffffffffu, read.l[i / lanes::X], reader);
        rows.m[i] = __shfl_sync(0xffffffffu, read.m[i / lanes::X], reader);
        rows.l[i] = x == 0 ? l : 0;
#pragma unroll
        for (int c = 0; c < 8; c++) o[i][c] *= l;
    }
}

template <int D>
__device__ __forceinline__ void write_state(const float (&o)[8][8], const tile_rows &rows,
                                            kv_state state, kv_shape shape, int first_row, int x,
                                            bool last) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int row = first_row + i;
        if (row >= shape.rows) continue;
        const size_t at = state.first + row;
        tile_store_row<D / 2>(state.o + at * shape.d, o[i], 4 * x, shape.d, shape.vectors);
        if (x > 0) continue;
        if (last) {
            hbm_store(&state.lse[at], kv_lse(rows, i));
        } else {
            hbm_store(&state.m[at], rows.m[i]);
            hbm_store(&state.l[at], rows.l[i]);
        }
    }
}

// q [heads][rows][d]; k, v [heads][kv_len][d]; o [slices][heads][rows][d]; lse, m, l [slices][heads][rows].
template <int D>
__global__ void __launch_bounds__(tile_shape<D>::THREADS, 2)
    kv_outer(const float *q, const float *k, const float *v, float *o, float *lse, float *m,
             float *l, kv_shape shape) {
    typedef tile_shape<D> tile;
    typedef kv_tile<D> kv;
    GPU_DYNAMIC_SHARED(float, shared);

    const size_t head = blockIdx.x / shape.slices, heads = gridDim.x / shape.slices;
    const int slice = (int)(blockIdx.x % shape.slices);
    const int first_tile = slice * shape.slice_tiles;
    const int end_tile = min(first_tile + shape.slice_tiles, shape.key_tiles);
    const size_t k_head = head * shape.kv_len * shape.d;
    const tile_matrix q_matrix = {q + head * shape.rows * shape.d, shape.rows, shape.d,
                                  shape.vectors};
    const tile_matrix k_matrix = {k + k_head, shape.kv_len, shape.d, shape.vectors};
    const tile_matrix v_matrix = {v + k_head, shape.kv_len, shape.d, shape.vectors};
    const kv_state state = {o, m, l, lse, (slice * heads + head) * shape.rows};

    const tile_thread here = tile_thread_here<D>();
    const float *my_q = shared + tile_at<D>(here.query);
    float *my_p = shared + kv::P + tile_at<kv::BC>(here.query);

#pragma unroll 1
    for (int j = first_tile; j < end_tile; j++) {
        const int key = j * kv::BC;
        const bool first = j == first_tile, last = j == end_tile - 1;
        const bool final = last && shape.slices == 1 && shape.kv_len > 0;
        TRACE_KEYS_STAY(key, kv::BC);
        kv_load_k<D>(shared, k_matrix, key);
        kv_load_v<D>(shared, v_matrix, key);
        tile_load<tile::BR, D, tile::THREADS>(shared, q_matrix, 0, 0);
#pragma unroll 1
        for (int i = 0; i < shape.query_tiles; i++) {
            const int first_row = i * tile::BR + here.query;
            float s[8][8], sum_o[8][8];
            kv_read<D> read = {}; // of no meaning in the first tile, which has no state to read
            tile_rows rows;
            TRACE_TILE(i * tile::BR, key, kv::BC);
            if (first)
                tile_clear(sum_o);
            else
                read_state<D>(sum_o, read, state, shape, first_row, here.x); // while S is computed
            tile_arrived(); // Q_i is there, and at first K_j and V_j
            kv_scores<D>(s, shared, my_q, here.x);
            __syncthreads(); // nobody reads Q_i any more: the next tile of Q may overwrite it
            if (i + 1 < shape.query_tiles)
                tile_load<tile::BR, D, tile::THREADS>(shared, q_matrix, (i + 1) * tile::BR, 0);
            if (first)
                tile_rows_begin(rows);
            else
                unpack_state<D>(sum_o, rows, read, here.x);
            kv_softmax<D>(s, my_p, shape.scale, shape.kv_len - key, here.x, rows, sum_o);
            __syncwarp(); // the warp's weights are written
            kv_values<D>(sum_o, shared, my_p, here.x);
            TRACE_DONE(s, kv::BC, rows.l, sum_o, D);
            kv_normalise<D>(sum_o, rows, final);
            write_state<D>(sum_o, rows, state, shape, first_row, here.x, last);
        }
        __syncthreads(); // nobody reads K_j and V_j any more
    }
}

template <int D>
static attn_status launch(const attn_problem *p, const attn_tensors *t, const kv_plan *plan,
                          float *o, float *lse, float *m, float *l) {
    return GPU_LAUNCH((kv_outer<D>), plan->blocks, tile_shape<D>::THREADS,
                      kv_tile<D>::FLOATS * sizeof(float), (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, o, lse, m, l, kv_shape_of(p, plan, t, o));
}

static attn_status forward(const attn_problem *p, const attn_tensors *t, const kv_plan *plan,
                           float *o, float *lse, float *m, float *l) {
    switch (plan->dim) {
    case 32:
        return launch<32>(p, t, plan, o, lse, m, l);
    case 64:
        return launch<64>(p, t, plan, o, lse, m, l);
    case 128:
        return launch<128>(p, t, plan, o, lse, m, l);
    default:
        return launch<256>(p, t, plan, o, lse, m, l);
    }
}

// buffer: m, l (rows.cu)
attn_status kv_outer_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    if (attn_rows(p) == 0) return attn_ok();
    const kv_plan plan = kv_plan_of(p, KV_OUTER);
    return forward(p, t, &plan, (float *)t->o, t->lse, (float *)buffer[0], (float *)buffer[1]);
}

// buffer: m, l, partial O, partial L (rows.cu)
attn_status kv_grid_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    if (attn_rows(p) == 0) return attn_ok();
    const kv_plan plan = kv_plan_of(p, KV_GRID);
    float *m = (float *)buffer[0], *l = (float *)buffer[1];
    if (plan.slices == 1) return forward(p, t, &plan, (float *)t->o, t->lse, m, l);
    float *o_part = (float *)buffer[2], *lse_part = (float *)buffer[3];
    ATTN_TRY(forward(p, t, &plan, o_part, lse_part, m, l));
    return kv_merge(o_part, lse_part, (float *)t->o, t->lse, attn_rows(p), (int)plan.slices,
                    (int)p->head_dim);
}
