// Exercise 3: the loop over tiles of keys.
//
// A block owns BR queries, a thread one of them. So q, o, m and l are the thread's own, and only K and V, a
// tile of BC keys at a time, are shared. What is left out: that loop, and the end of a row.
//
// It is right when O and L are, whether tiles divide the lengths or not; when no barrier is missing (the
// check build looks); and when it asks of device memory, a head, no more and no less than
//
//   read  4 * (q_len*d + 2*kv_len*d*ceil(q_len/BR))       written  4 * (q_len*d + q_len)
//
// Simple, not fast: tiled_q_outer_plain.cu has the same loop with the work spread better.
#include "chapters/03-tiled-q-outer/exercise/exercise.cuh"

// q, o_out [B][H][q_len][d]; k, v [B][kv_heads][kv_len][d]; lse [B][H][q_len].
__global__ void exercise(const float *q, const float *k, const float *v, float *o_out, float *lse,
                         exercise_shape shape) {
    GPU_SHARED(float, k_tile, [BC][MAX_D]);
    GPU_SHARED(float, v_tile, [BC][MAX_D]);
    const int d = shape.d, query_tiles = (shape.q_len + BR - 1) / BR;
    const int i = blockIdx.x % query_tiles * BR + threadIdx.x; // this thread's query
    const int head = blockIdx.x / query_tiles;
    q += ((size_t)head * shape.q_len + i) * d;
    k += (size_t)(head / shape.group) * shape.kv_len * d;
    v += (size_t)(head / shape.group) * shape.kv_len * d;

    const bool exists = i < shape.q_len; // threads without a query load tiles all the same
    float my_q[MAX_D], o[MAX_D], m = -INFINITY, l = 0;
    for (int c = 0; c < d; c++) {
        my_q[c] = exists ? hbm_load(&q[c]) : 0;
        o[c] = 0;
    }

    // Yours (1): for each tile of BC keys, from key 0 on, the last tile perhaps with fewer,
    //   a. load_rows(k_tile, k, first_key, shape.kv_len, d), and the same for V;
    //   b. wait until all threads have loaded: any thread reads what any other has brought;
    //   c. score the tile's keys, s[j] = scale * q . K_j. A key that does not exist has no score: its weight
    //      is to be e^-infinity = 0, and a score of 0 would give it a weight like any other;
    //   d. online softmax, as in chapter 2 but a tile at a time: the new maximum m; alpha = e^(m_old - m_new),
    //      by which l and o are multiplied, for they were summed with the old one; the weights e^(s[j] - m);
    //   e. add the weights to l, and the weights times the rows of V to o;
    //   f. wait again: who is done would load the next tile while others still read this one.
    //<answer>
    for (int first_key = 0; first_key < shape.kv_len; first_key += BC) {
        load_rows(k_tile, k, first_key, shape.kv_len, d);
        load_rows(v_tile, v, first_key, shape.kv_len, d);
        __syncthreads(); // all rows are there

        float s[BC], m_new = m;
        for (int j = 0; j < BC; j++) {
            float product = 0;
            for (int c = 0; c < d; c++) product += my_q[c] * k_tile[j][c];
            s[j] = first_key + j < shape.kv_len ? shape.scale * product : -INFINITY;
            m_new = fmaxf(m_new, s[j]);
        }
        // As long as all scores are -infinity, so is the maximum, and (-inf) - (-inf) is NaN.
        const float shift = m_new == -INFINITY ? 0 : m_new;
        const float alpha = expf(m - shift);
        l *= alpha;
        for (int c = 0; c < d; c++) o[c] *= alpha;
        for (int j = 0; j < BC; j++) {
            const float p = expf(s[j] - shift);
            l += p;
            for (int c = 0; c < d; c++) o[c] += p * v_tile[j][c];
        }
        m = m_new;
        __syncthreads(); // nobody reads the tile any more
    }
    //<stub> (void)k, (void)v, (void)k_tile, (void)v_tile, (void)my_q; // goes, once yours is there
    //</answer>

    if (!exists) return;
    o_out += ((size_t)head * shape.q_len + i) * d;
    for (int c = 0; c < d; c++) {
        // Yours (2): the end of a row. Without any key (kv_len = 0) O is 0.
        //<answer>
        const float value = shape.kv_len > 0 ? o[c] / l : 0;
        //<stub> const float value = o[c];
        //</answer>
        hbm_store(&o_out[c], value);
    }
    // Yours (3): L, the natural logarithm of the sum of e^score over all keys, from m and l.
    //<answer>
    hbm_store(&lse[(size_t)head * shape.q_len + i], m + logf(l));
    //<stub> hbm_store(&lse[(size_t)head * shape.q_len + i], m + l);
    //</answer>
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
