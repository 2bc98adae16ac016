// rows.cu -- exercise 5 as a stage: a plain forward pass, and the learner's kernels behind it.
#include "chapters/05-backward/exercise/exercise.cuh"

enum { THREADS = 64 };

// A thread a row: online softmax of all keys. Keeps m besides L.
__global__ void attend(const float *q, const float *k, const float *v, float *o_out, float *m_out,
                       float *lse, size_t rows, exercise_shape shape) {
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (row >= rows) return;
    const int d = shape.d;
    float my_q[MAX_D], o[MAX_D] = {}, m = -INFINITY, l = 0;
    for (int c = 0; c < d; c++) my_q[c] = hbm_load(&q[row * d + c]);
    for (int j = 0; j < shape.kv_len; j++) {
        const size_t key = (row / shape.q_len * shape.kv_len + j) * d;
        float s = 0;
        for (int c = 0; c < d; c++) s += my_q[c] * hbm_load(&k[key + c]);
        s *= shape.scale;
        const float m_new = fmaxf(m, s), shift = m_new == -INFINITY ? 0 : m_new;
        const float alpha = expf(m - shift), p = expf(s - shift);
        l = l * alpha + p;
        for (int c = 0; c < d; c++) o[c] = o[c] * alpha + p * hbm_load(&v[key + c]);
        m = m_new;
    }
    for (int c = 0; c < d; c++) hbm_store(&o_out[row * d + c], shape.kv_len > 0 ? o[c] / l : 0);
    hbm_store(&m_out[row], m);
    hbm_store(&lse[row], m + logf(l));
}

static exercise_shape shape_of(const attn_problem *p) {
    const exercise_shape shape = {(int)p->q_len, (int)p->kv_len, (int)p->head_dim, p->scale};
    return shape;
}

static attn_status supports(const attn_problem *p) {
    if (p->head_dim <= MAX_D) return attn_ok();
    return attn_error(ATTN_UNSUPPORTED, "the exercise has head dimensions up to %d", MAX_D);
}

static int buffers(const attn_problem *p, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]) {
    const attn_buffer m = {"m", 4 * attn_rows(p), 1}, d = {"d", 4 * attn_rows(p), 0};
    need[0] = pass == ATTN_FORWARD ? m : d;
    return 1;
}

static attn_status forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    const size_t rows = attn_rows(p);
    if (rows == 0) return attn_ok();
    return GPU_LAUNCH(attend, (rows + THREADS - 1) / THREADS, THREADS, 0, (const float *)t->q,
                      (const float *)t->k, (const float *)t->v, (float *)t->o, (float *)buffer[0],
                      t->lse, rows, shape_of(p));
}

static attn_status backward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    const float *m = (const float *)buffer[0];
    float *d = (float *)buffer[1];
    const size_t rows = attn_rows(p);
    if (rows > 0)
        ATTN_TRY(exercise_row_sums((const float *)t->o, (const float *)t->d_o, d, rows,
                                   (int)p->head_dim));
    ATTN_TRY(gpu_memset(t->dq, 0, 4 * attn_q_elements(p)));
    if (attn_kv_elements(p) == 0) return attn_ok();
    return exercise_gradients(t, m, d, (size_t)(p->batch * p->heads), shape_of(p));
}

static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    const uint64_t q = 4 * attn_q_elements(p), kv = 4 * attn_kv_elements(p);
    const uint64_t rows = 4 * attn_rows(p), tiles = ((uint64_t)p->kv_len + BC - 1) / BC;
    if (pass == ATTN_FORWARD) {
        attn_traffic_add(traffic, "q", q, 0);
        attn_traffic_add(traffic, "k", q * (uint64_t)p->kv_len, 0);
        attn_traffic_add(traffic, "v", q * (uint64_t)p->kv_len, 0);
        attn_traffic_add(traffic, "o", 0, q);
        attn_traffic_add(traffic, "m", 0, rows);
        attn_traffic_add(traffic, "lse", 0, rows);
        return;
    }
    attn_traffic_add(traffic, "o", q, 0); // D
    attn_traffic_add(traffic, "do", q, 0);
    attn_traffic_add(traffic, "d", 0, rows);
    attn_traffic_add(traffic, "dq", 0, q); // zeros
    attn_traffic_add(traffic, "q", tiles * q, 0);
    attn_traffic_add(traffic, "do", tiles * q, 0);
    attn_traffic_add(traffic, "lse", tiles * rows, 0);
    attn_traffic_add(traffic, "d", tiles * rows, 0);
    attn_traffic_add(traffic, "k", kv, 0);
    attn_traffic_add(traffic, "v", kv, 0);
    attn_traffic_add(traffic, "dq", tiles * q, tiles * q);
    attn_traffic_add(traffic, "dk", 0, kv);
    attn_traffic_add(traffic, "dv", 0, kv);
}

static double flops(const attn_problem *p, attn_pass pass) {
    return (pass == ATTN_FORWARD ? 4 : 10) * (double)p->head_dim * (double)attn_score_elements(p);
}

static const attn_stage stages[] = {{
    "exercise",
    "exercise 5",
    0,
    0,
    NULL,
    supports,
    buffers,
    forward,
    backward,
    bytes,
    flops,
    NULL,
    NULL,
}};

ATTN_MODULE(5, "Exercise 5", "make grade5", gpu_device(), stages)
