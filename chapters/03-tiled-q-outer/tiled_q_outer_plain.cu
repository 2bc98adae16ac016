// tiled_q_outer_plain.cu -- chapter 3's plain kernel: Q outer, KV inner (this course's v1; the loop order
// of FlashAttention-2, 2307.08691, Algorithm 1), in as few lines as it takes.
//
// A block owns Br queries and walks over all keys, Bc at a time. S and P exist a tile at a time, on the
// chip; m, l and O stay in registers; O is divided by l once, at the end.
//
// Block: 16 x Br/4 threads. Thread (tx, ty) has rows ty, ty + Br/4, ty + 2Br/4, ty + 3Br/4 of the tile,
// and of each the keys and the columns of O tx, tx + 16, tx + 32 ... So a row is shared by 16 lanes
// of one warp. Grid: batch * heads * ceil(q_len / Br). Shared memory: the tiles of Q, K, V and P.
// Device bytes, a head, Tr = ceil(q_len / Br):
//   read     4 * (q_len*d + 2*kv_len*d*Tr)         written   4 * (q_len*d + q_len)
#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"

enum { LANES = 16, ROWS = 4 }; // lanes that share a row; rows a thread

typedef struct plain_shape {
    int q_len, kv_len, d, group, br; // query head h reads key head h / group
    float scale;
} plain_shape;

// Rows first .. first + count - 1 of a [rows][d] matrix to shared memory, D columns a row; what is not
// there becomes 0. The odd pitch, D + 1, puts neighbouring rows into different banks.
template <int D>
__device__ static void load_rows(float *tile, const float *matrix, int first, int count, int rows,
                                 int d) {
    for (int e = threadIdx.x; e < count * D; e += blockDim.x) {
        const int r = e / D, c = e % D;
        float value = 0;
        if (first + r < rows && c < d) value = hbm_load(&matrix[(size_t)(first + r) * d + c]);
        tile[r * (D + 1) + c] = value;
    }
}

// D: at least d. q, o [B][H][q_len][d]; k, v [B][kv_heads][kv_len][d]; lse [B][H][q_len].
template <int BC, int D>
__global__ void __launch_bounds__(512, 1)
    q_outer_plain(const float *q, const float *k, const float *v, float *o, float *lse,
                  plain_shape shape) {
    GPU_DYNAMIC_SHARED(float, shared);
    enum { PITCH = D + 1, P_PITCH = BC + 1 };
    const int d = shape.d, br = shape.br;
    float *q_tile = shared, *k_tile = q_tile + br * PITCH, *v_tile = k_tile + BC * PITCH;
    float *p_tile = v_tile + BC * PITCH;

    const int tx = threadIdx.x % LANES, ty = threadIdx.x / LANES, row_step = br / ROWS;
    const unsigned query_tiles = (shape.q_len + br - 1) / br;
    const int first_query = (int)(blockIdx.x % query_tiles) * br;
    const size_t head = blockIdx.x / query_tiles;
    q += head * shape.q_len * d;
    o += head * shape.q_len * d;
    lse += head * shape.q_len;
    k += head / shape.group * shape.kv_len * d;
    v += head / shape.group * shape.kv_len * d;

    float m[ROWS], l[ROWS] = {}, sum[ROWS][D / LANES] = {};
    for (int y = 0; y < ROWS; y++) m[y] = -INFINITY;
    load_rows<D>(q_tile, q, first_query, br, shape.q_len, d);

    for (int first_key = 0; first_key < shape.kv_len; first_key += BC) {
        load_rows<D>(k_tile, k, first_key, BC, shape.kv_len, d);
        load_rows<D>(v_tile, v, first_key, BC, shape.kv_len, d);
        __syncthreads(); // the tiles are complete before anyone multiplies

        // S = scale Q K^T
        float s[ROWS][BC / LANES] = {};
#pragma unroll 4 // more of it, and the compiler runs out of registers
        for (int c = 0; c < D; c++)
            for (int y = 0; y < ROWS; y++)
                for (int x = 0; x < BC / LANES; x++)
                    s[y][x] += q_tile[(ty + row_step * y) * PITCH + c] *
                               k_tile[(tx + LANES * x) * PITCH + c];

        for (int y = 0; y < ROWS; y++) {
            // Online softmax: chapter 2 derives it. A key that does not exist has no score.
            float largest = m[y], weights = 0;
            for (int x = 0; x < BC / LANES; x++) {
                const bool exists = first_key + tx + LANES * x < shape.kv_len;
                s[y][x] = exists ? shape.scale * s[y][x] : -INFINITY;
                largest = fmaxf(largest, s[y][x]);
            }
            for (int offset = LANES / 2; offset > 0; offset /= 2)
                largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
            // As long as all scores are -infinity, so is the maximum, and (-inf) - (-inf) is NaN.
            const float shift = largest == -INFINITY ? 0 : largest;
            const float alpha = expf(m[y] - shift);
            for (int x = 0; x < BC / LANES; x++) {
                const float weight = expf(s[y][x] - shift);
                weights += weight;
                p_tile[(ty + row_step * y) * P_PITCH + tx + LANES * x] = weight;
            }
            for (int offset = LANES / 2; offset > 0; offset /= 2)
                weights += __shfl_xor_sync(0xffffffffu, weights, offset);
            m[y] = largest;
            l[y] = l[y] * alpha + weights;
            for (int n = 0; n < D / LANES; n++) sum[y][n] *= alpha;
        }
        __syncwarp(); // a row of P is written and read by the same warp

        // O += P V
#pragma unroll 2
        for (int j = 0; j < BC; j++)
            for (int y = 0; y < ROWS; y++)
                for (int n = 0; n < D / LANES; n++)
                    sum[y][n] += p_tile[(ty + row_step * y) * P_PITCH + j] *
                                 v_tile[j * PITCH + tx + LANES * n];
        __syncthreads(); // nobody reads the tiles any more: the next ones may overwrite them
    }

    for (int y = 0; y < ROWS; y++) {
        const int i = first_query + ty + row_step * y;
        if (i >= shape.q_len) continue;
        for (int n = 0; n < D / LANES; n++)
            if (tx + LANES * n < d)
                hbm_store(&o[(size_t)i * d + tx + LANES * n],
                          shape.kv_len > 0 ? sum[y][n] / l[y] : 0);
        if (tx == 0) hbm_store(&lse[i], m[y] + logf(l[y]));
    }
}

static int compiled_dim(const attn_problem *p) {
    return p->head_dim <= 64 ? 64 : p->head_dim <= 128 ? 128 : 256;
}

uint64_t q_outer_plain_shared_bytes(const attn_problem *p) {
    const uint64_t br = q_outer_plain_tile(p, p->br), bc = q_outer_plain_tile(p, p->bc);
    return 4 * ((br + 2 * bc) * (compiled_dim(p) + 1) + br * (bc + 1));
}

template <int BC> static attn_status launch(const attn_problem *p, const attn_tensors *t) {
    const int br = q_outer_plain_tile(p, p->br);
    const plain_shape shape = {
        (int)p->q_len, (int)p->kv_len, (int)p->head_dim, (int)(p->heads / p->kv_heads), br,
        p->scale};
    const uint64_t blocks = (uint64_t)(p->batch * p->heads) * (((uint64_t)p->q_len + br - 1) / br);
    const int threads = LANES * br / ROWS;
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
