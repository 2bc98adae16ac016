// Exercise 5: D, dS and dQ.
//
// Keys outside: a block has BC keys, a thread one of them, and with it the key's dK and dV. Queries pass in
// tiles of BR. P is computed again. Given are the tiles, dV and dP; left out is what makes the gradient of the
// scores of them, and how it reaches dQ. Each line follows from its forward line:
//
//   O = P V              dV = P^T dO,  dP = dO V^T
//   P = softmax(S)       dS = P o (dP - D),   D_i = sum_j P_ij dP_ij = dO_i . O_i
//   S = scale Q K^T      dQ = scale dS K,     dK = scale dS^T Q
//
// Device bytes, a head, Tc = ceil(kv_len / BC) (dq is added to, so it is read and written):
//   D        read 4 * 2*q_len*d                                       written 4 * q_len
//   the rest read 4 * (2*kv_len*d + Tc * (2*q_len*d + 2*q_len))       written 4 * 2*kv_len*d, dq: Tc * 4*q_len*d
#include "chapters/05-backward/exercise/exercise.cuh"

// o, d_o [rows][d]; row_sum [rows]. A thread a row.
__global__ void row_sums(const float *o, const float *d_o, float *row_sum, size_t rows, int d) {
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int c = 0; c < d; c++) {
        const float a = hbm_load(&o[row * d + c]), b = hbm_load(&d_o[row * d + c]);
        // Yours (1): D, without P or dP.
        //<answer>
        sum += a * b;
        //<stub> sum += 0 * a * b;
        //</answer>
    }
    hbm_store(&row_sum[row], sum);
}

// q, d_o, dq [heads][q_len][d]; k, v, dk, dv [heads][kv_len][d]; m, lse, row_sum [heads][q_len].
__global__ void gradients(const float *q, const float *k, const float *v, const float *d_o,
                          const float *m, const float *lse, const float *row_sum, float *dq,
                          float *dk, float *dv, exercise_shape shape) {
    GPU_SHARED(float, k_tile, [BC][MAX_D]);
    GPU_SHARED(float, q_tile, [BR][MAX_D]);
    GPU_SHARED(float, do_tile, [BR][MAX_D]);
    GPU_SHARED(float, ds_tile, [BR][BC]);
    const int d = shape.d, key_tiles = (shape.kv_len + BC - 1) / BC, t = threadIdx.x;
    const size_t head = blockIdx.x / key_tiles;
    const int first_key = blockIdx.x % key_tiles * BC;
    const bool exists = first_key + t < shape.kv_len;
    q += head * shape.q_len * d, d_o += head * shape.q_len * d, dq += head * shape.q_len * d;
    m += head * shape.q_len, lse += head * shape.q_len, row_sum += head * shape.q_len;
    (void)m, (void)lse; // one of them will not be needed
    k += head * shape.kv_len * d, v += head * shape.kv_len * d;
    dk += (head * shape.kv_len + first_key + t) * d,
        dv += (head * shape.kv_len + first_key + t) * d;

    float my_v[MAX_D], my_dk[MAX_D] = {}, my_dv[MAX_D] = {};
    load_rows<BC>(k_tile, k, first_key, shape.kv_len, d);
    for (int c = 0; c < d; c++)
        my_v[c] = exists ? hbm_load(&v[(size_t)(first_key + t) * d + c]) : 0;

    for (int first_query = 0; first_query < shape.q_len; first_query += BR) {
        // Of a row of queries each thread wants the same L and D: one loads them, for all.
        GPU_SHARED(float, lse_tile, [BR]);
        GPU_SHARED(float, sum_tile, [BR]);
        load_rows<BR>(q_tile, q, first_query, shape.q_len, d);
        load_rows<BR>(do_tile, d_o, first_query, shape.q_len, d);
        if (t < BR && first_query + t < shape.q_len) {
            // Yours (2): P is computed again from S and one number of its row. The forward pass has kept two,
            // m and L: which of them does e^(S - it) need, to be P without a division?
            //<answer>
            lse_tile[t] = hbm_load(&lse[first_query + t]);
            //<stub> lse_tile[t] = 0;
            //</answer>
            sum_tile[t] = hbm_load(&row_sum[first_query + t]);
        }
        __syncthreads(); // the tile is there

        for (int r = 0; r < BR; r++) {
            float s = 0, dp = 0, p = 0;
            for (int c = 0; c < d; c++) {
                s += q_tile[r][c] * k_tile[t][c];
                dp += do_tile[r][c] * my_v[c];
            }
            if (exists && first_query + r < shape.q_len) p = expf(shape.scale * s - lse_tile[r]);
            for (int c = 0; c < d; c++) my_dv[c] += p * do_tile[r][c];
            // Yours (3): dS of this query and key; a pair that does not exist has p = 0, and dS = 0.
            //<answer>
            const float ds = p == 0 ? 0 : p * (dp - sum_tile[r]); // a NaN stays one
            //<stub> const float ds = 0 * dp;
            //</answer>
            ds_tile[r][t] = ds; // for dQ: other threads have the other keys
            for (int c = 0; c < d; c++) {
                // Yours (4): this query's part of dK.
                //<answer>
                my_dk[c] += shape.scale * ds * q_tile[r][c];
                //<stub> my_dk[c] += 0;
                //</answer>
            }
        }

        // Yours (5): dQ of the tile's queries. This block has only some of the keys, and other blocks, at the
        // same time, the others: each adds its part to dq[(first_query + r) * d + c], of every query that
        // exists, once. The threads share the BR * d numbers out among them; ds_tile has what they need of
        // each other's keys, k_tile the keys.
        //<answer>
        __syncthreads(); // dS is complete
        for (int e = t; e < BR * d; e += BC) {
            const int r = e / d, c = e % d;
            float sum = 0;
            for (int j = 0; j < BC; j++) sum += ds_tile[r][j] * k_tile[j][c];
            if (first_query + r < shape.q_len)
                hbm_atomic_add(&dq[(size_t)(first_query + r) * d + c], shape.scale * sum);
        }
        //<stub> (void)dq; // goes, when yours is there
        //</answer>
        __syncthreads(); // nobody reads the tile any more
    }

    if (!exists) return;
    for (int c = 0; c < d; c++) {
        hbm_store(&dk[c], my_dk[c]);
        hbm_store(&dv[c], my_dv[c]);
    }
}

attn_status exercise_row_sums(const float *o, const float *d_o, float *row_sum, size_t rows,
                              int d) {
    return GPU_LAUNCH(row_sums, (rows + 63) / 64, 64, 0, o, d_o, row_sum, rows, d);
}

attn_status exercise_gradients(const attn_tensors *t, const float *m, const float *row_sum,
                               size_t heads, exercise_shape shape) {
    const size_t blocks = heads * ((shape.kv_len + BC - 1) / BC);
    return GPU_LAUNCH(gradients, blocks, BC, 0, (const float *)t->q, (const float *)t->k,
                      (const float *)t->v, (const float *)t->d_o, m, (const float *)t->lse, row_sum,
                      (float *)t->dq, (float *)t->dk, (float *)t->dv, shape);
}
