// Exercise 6: the bounds of a causal mask, where q_len and kv_len differ.
//
// The kernel is exercise 3's: a block has BR queries, a thread one of them, and K and V pass in tiles of BC.
// New is that a query does not see all keys. The queries are the *last* q_len of kv_len positions, so
//
//   query i sees key j   when   j <= i + kv_len - q_len
//
//         keys        keys           q_len = kv_len: the usual triangle.
//       x . . .     x x x . .        q_len < kv_len: new queries behind a cache of keys.
//       x x . .     x x x x .        q_len > kv_len: the first q_len - kv_len queries see nothing.
//       x x x .     x x x x x
//
// Tiles that no query of the block sees are not visited: they are not even read, and the closed form counts
// on it. K and V are read, for each block, up to the last key that its last query sees.
#include "chapters/06-masks/exercise/exercise.cuh"

// The end of the keys that query i sees: keys 0 .. end - 1. 0 when it sees none, never above kv_len.
__device__ int end_of_keys(int i, exercise_shape shape) {
    // Yours (1).
    //<answer>
    const int end = i + shape.kv_len - shape.q_len + 1;
    return end < 0 ? 0 : end > shape.kv_len ? shape.kv_len : end;
    //<stub> return i < 0 ? 0 : shape.kv_len;
    //</answer>
}

// q, o_out [B][H][q_len][d]; k, v [B][kv_heads][kv_len][d]; lse [B][H][q_len].
__global__ void exercise(const float *q, const float *k, const float *v, float *o_out, float *lse,
                         exercise_shape shape) {
    GPU_SHARED(float, k_tile, [BC][MAX_D]);
    GPU_SHARED(float, v_tile, [BC][MAX_D]);
    const int d = shape.d, query_tiles = (shape.q_len + BR - 1) / BR;
    const int first_query = blockIdx.x % query_tiles * BR, head = blockIdx.x / query_tiles;
    const int i = first_query + threadIdx.x; // this thread's query
    q += ((size_t)head * shape.q_len + i) * d;
    k += (size_t)(head / shape.group) * shape.kv_len * d;
    v += (size_t)(head / shape.group) * shape.kv_len * d;

    const bool exists = i < shape.q_len; // threads without a query load tiles all the same
    exercise_row row;
    row.m = -INFINITY, row.l = 0;
    for (int c = 0; c < d; c++) {
        row.q[c] = exists ? hbm_load(&q[c]) : 0;
        row.o[c] = 0;
    }

    // Yours (2): the end of the keys that *some* query of this block sees, the same for all its threads. The
    // block's last query may lie beyond q_len.
    //<answer>
    const int last_query = min(first_query + BR, shape.q_len) - 1;
    const int end = end_of_keys(last_query, shape);
    //<stub> const int end = shape.kv_len;
    //</answer>
    // Yours (3): how many tiles have keys before that end.
    //<answer>
    const int key_tiles = (end + BC - 1) / BC;
    //<stub> const int key_tiles = end / BC;
    //</answer>
    for (int tile = 0; tile < key_tiles; tile++) {
        const int first_key = tile * BC;
        load_rows(k_tile, k, first_key, end, d); // keys that nobody in the block sees become 0
        load_rows(v_tile, v, first_key, end, d);
        __syncthreads(); // all rows are there
        float s[BC];
        for (int j = 0; j < BC; j++) {
            float product = 0;
            for (int c = 0; c < d; c++) product += row.q[c] * k_tile[j][c];
            // Yours (4): within a tile this query may see some keys and others not.
            //<answer>
            s[j] = first_key + j < end_of_keys(i, shape) ? shape.scale * product : -INFINITY;
            //<stub> s[j] = shape.scale * product;
            //</answer>
        }
        take_tile(&row, s, v_tile, d);
        __syncthreads(); // nobody reads the tile any more
    }

    if (!exists) return;
    o_out += ((size_t)head * shape.q_len + i) * d;
    for (int c = 0; c < d; c++) {
        // Yours (5): a query that sees no key has O = 0.
        //<answer>
        const float value = row.l == 0 ? 0 : row.o[c] / row.l; // NaN stays NaN
        //<stub> const float value = row.o[c] / row.l;
        //</answer>
        hbm_store(&o_out[c], value);
    }
    hbm_store(&lse[(size_t)head * shape.q_len + i], row.m + logf(row.l));
}

attn_status exercise_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    (void)buffer; // needs none
    if (attn_rows(p) == 0) return attn_ok();
    const exercise_shape shape = {(int)p->q_len, (int)p->kv_len, (int)p->head_dim,
                                  (int)(p->heads / p->kv_heads), p->scale};
    const uint64_t blocks = (uint64_t)(p->batch * p->heads) * ((p->q_len + BR - 1) / BR);
    return GPU_LAUNCH(exercise, blocks, BR, 0, (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, (float *)t->o, t->lse, shape);
}
