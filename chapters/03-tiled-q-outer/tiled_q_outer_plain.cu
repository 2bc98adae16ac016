// tiled_q_outer_plain.cu -- chapter 3's plain kernel: Q outer, KV inner (this course's v1; the loop order
// of FlashAttention-2, 2307.08691, Algorithm 1), in as few lines as it takes.
//
// A block owns Br queries and walks over all keys, Bc at a time. S and P exist a tile at a time, on the
// chip; m, l and O stay in registers; O is divided by l once, at the end.
//
// Both products are those of chapter 1's kernels, quads.cuh: 16 x Br/4 threads; thread (x, y) has rows
// 4y .. 4y + 3 of the tile, and of each the keys x, x + 16, x + 32 ... and the columns of O 4x .. 4x + 3 of
// each 64. So a row is shared by 16 lanes of one warp: every other one.
//
// Grid: batch * heads * ceil(q_len / Br). Shared memory: the tiles of Q, K, V and P.
// Device bytes, a head, Tr = ceil(q_len / Br):
//   read     4 * (q_len*d + 2*kv_len*d*Tr)         written   4 * (q_len*d + q_len)
#include "chapters/01-naive/quads.cuh"
#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"

enum { ROWS = TRACE_BUILD ? 8 : 4 }; // a thread's

typedef struct plain_shape {
    int q_len, kv_len, d, group, br; // query head h reads key head h / group
    float scale;
} plain_shape;

// Br is at most 128; 64 where shared memory has no room for more, D = 256 and Bc = 64.
template <int BC, int D> constexpr int most_threads() {
    return SPAN / ROWS * (D == 256 && BC == 64 ? 64 : 128);
}

// D: at least d. q, o [B][H][q_len][d]; k, v [B][kv_heads][kv_len][d]; lse [B][H][q_len].
template <int BC, int D>
__global__ void __launch_bounds__(most_threads<BC, D>(), 1)
    q_outer_plain(const float *q, const float *k, const float *v, float *o, float *lse,
                  plain_shape shape) {
    // + 4: rows begin at multiples of 16 bytes, and eight rows in a sequence begin in different banks.
    enum { PITCH = D + 4, P_PITCH = BC + 4 };
    enum { UNROLL = D + BC <= 192 ? 2 : 1 }; // more, and the compiler runs out of registers
    GPU_DYNAMIC_SHARED(float, shared);
    const int d = shape.d, br = shape.br, tx = span_x(), ty = span_y();
    float *q_tile = shared, *k_tile = q_tile + br * PITCH, *v_tile = k_tile + BC * PITCH;
    float *p_tile = v_tile + BC * PITCH;

    const int query_tiles = (shape.q_len + br - 1) / br;
    const int first_query = (int)(blockIdx.x % query_tiles) * br;
    const int head = blockIdx.x / query_tiles;
    q += (size_t)head * shape.q_len * d;
    o += (size_t)head * shape.q_len * d;
    lse += (size_t)head * shape.q_len;
    k += (size_t)(head / shape.group) * shape.kv_len * d;
    v += (size_t)(head / shape.group) * shape.kv_len * d;
    const float *my_q = q_tile + ROWS * ty * PITCH;
    float *my_p = p_tile + ROWS * ty * P_PITCH;

    float m[ROWS], l[ROWS] = {}, sum[ROWS][D / SPAN] = {};
    for (int y = 0; y < ROWS; y++) m[y] = -INFINITY;
    TRACE_QUERIES_STAY(first_query, br);
    load_tile<D, PITCH>(q_tile, br, q, shape.q_len, d, first_query, 0);

    for (int first_key = 0; first_key < shape.kv_len; first_key += BC) {
        TRACE_TILE(first_query, first_key, BC);
        load_tile<D, PITCH>(k_tile, BC, k, shape.kv_len, d, first_key, 0);
        load_tile<D, PITCH>(v_tile, BC, v, shape.kv_len, d, first_key, 0);
        cp_async_wait<0>(); // this thread's part of the tiles is there
        __syncthreads();    // and everybody's, before anyone multiplies

        // S = Q K^T
        float s[ROWS][BC / SPAN] = {};
#pragma unroll(UNROLL)
        for (int c = 0; c < D; c += 4) {
            float4 q4[ROWS];
            for (int y = 0; y < ROWS; y++) q4[y] = shared_load4(&my_q[y * PITCH + c]);
            for (int x = 0; x < BC / SPAN; x++) {
                const float4 k4 = shared_load4(&k_tile[(tx + SPAN * x) * PITCH + c]);
                for (int y = 0; y < ROWS; y++) s[y][x] = add_product(s[y][x], q4[y], k4);
            }
        }

        for (int y = 0; y < ROWS; y++) {
            // Online softmax: chapter 2 derives it. A key that does not exist has no score.
            float largest = m[y], weights = 0;
            for (int x = 0; x < BC / SPAN; x++) {
                const bool exists = first_key + tx + SPAN * x < shape.kv_len;
                s[y][x] = exists ? shape.scale * s[y][x] : -INFINITY;
                largest = fmaxf(largest, s[y][x]);
            }
            for (int offset = SPAN; offset > 1; offset /= 2) // the 16 lanes of a row are two apart
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
            // As long as all scores are -infinity, so is the maximum, and (-inf) - (-inf) is NaN.
            const float shift = largest == -INFINITY ? 0 : largest;
            const float alpha = expf(m[y] - shift);
            TRACE_ROW(y, s[y], 1, m[y], largest, alpha, l[y], sum[y]);
            for (int x = 0; x < BC / SPAN; x++) {
                const float weight = expf(s[y][x] - shift);
                weights += weight;
                my_p[y * P_PITCH + tx + SPAN * x] = weight;
            }
            for (int offset = SPAN; offset > 1; offset /= 2)
                weights += __shfl_xor_sync(0xffffffffu, weights, offset);
            m[y] = largest;
            l[y] = l[y] * alpha + weights;
            for (int n = 0; n < D / SPAN; n++) sum[y][n] *= alpha;
        }
        __syncwarp(); // a row of P is written and read by the same warp

        // O += P V
#pragma unroll(UNROLL)
        for (int j = 0; j < BC; j += 4) {
            float p4[ROWS][4];
            for (int y = 0; y < ROWS; y++) to_array(p4[y], shared_load4(&my_p[y * P_PITCH + j]));
            for (int n = 0; n < 4; n++)
                for (int c = 0; c < D / SPAN; c += 4) {
                    float v4[4];
                    to_array(v4, shared_load4(&v_tile[(j + n) * PITCH + SPAN * c + 4 * tx]));
                    for (int y = 0; y < ROWS; y++)
                        for (int e = 0; e < 4; e++) sum[y][c + e] += p4[y][n] * v4[e];
                }
        }
        TRACE_DONE(my_p, P_PITCH, l, sum, D);
        __syncthreads(); // nobody reads the tiles any more: the next ones may overwrite them
    }

    if (shape.kv_len == 0) cp_async_wait<0>(); // nobody waited for Q
    for (int y = 0; y < ROWS; y++) {
        const int i = first_query + ROWS * ty + y;
        if (i >= shape.q_len) continue;
        const float factor = shape.kv_len > 0 ? 1 / l[y] : 0;
        for (int c = 0; c < D / SPAN; c += 4)
            store_quad(o + (size_t)i * d, SPAN * c + 4 * tx, d, factor, &sum[y][c]);
        if (tx == 0) hbm_store(&lse[i], m[y] + logf(l[y]));
    }
}

static int compiled_dim(const attn_problem *p) {
    return p->head_dim <= 64 ? 64 : p->head_dim <= 128 ? 128 : 256;
}

uint64_t q_outer_plain_shared_bytes(const attn_problem *p) {
    const uint64_t br = q_outer_plain_tile(p, p->br), bc = q_outer_plain_tile(p, p->bc);
    return 4 * ((br + 2 * bc) * (compiled_dim(p) + 4) + br * (bc + 4));
}

template <int BC> static attn_status launch(const attn_problem *p, const attn_tensors *t) {
    const int br = q_outer_plain_tile(p, p->br);
    const plain_shape shape = {
        (int)p->q_len, (int)p->kv_len, (int)p->head_dim, (int)(p->heads / p->kv_heads), br,
        p->scale};
    const uint64_t blocks = (uint64_t)(p->batch * p->heads) * (((uint64_t)p->q_len + br - 1) / br);
    const int threads = SPAN * br / ROWS;
    const uint64_t shared_bytes = q_outer_plain_shared_bytes(p);
    const float *q = (const float *)t->q, *k = (const float *)t->k, *v = (const float *)t->v;
    if (compiled_dim(p) == 64)
        return GPU_LAUNCH((q_outer_plain<BC, 64>), blocks, threads, shared_bytes, q, k, v,
                          (float *)t->o, t->lse, shape);
    if (compiled_dim(p) == 128)
        return GPU_LAUNCH((q_outer_plain<BC, 128>), blocks, threads, shared_bytes, q, k, v,
                          (float *)t->o, t->lse, shape);
    if constexpr (BC < 128) // no GPU has the shared memory for both
        return GPU_LAUNCH((q_outer_plain<BC, 256>), blocks, threads, shared_bytes, q, k, v,
                          (float *)t->o, t->lse, shape);
    return attn_error(ATTN_UNSUPPORTED, "q-outer-plain: tiles of 128 keys at head_dim %d", shape.d);
}

attn_status q_outer_plain_forward(const attn_problem *p, const attn_tensors *t,
                                  void *const *buffer) {
    (void)buffer; // needs none
    if (attn_rows(p) == 0) return attn_ok();
    switch (q_outer_plain_tile(p, p->bc)) {
    case 16:
        return launch<16>(p, t);
    case 32:
        return launch<32>(p, t);
    case 64:
        return launch<64>(p, t);
    default:
        return launch<128>(p, t);
    }
}
