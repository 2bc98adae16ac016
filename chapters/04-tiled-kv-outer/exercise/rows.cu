// rows.cu -- exercise 4 as a stage: attends to each slice, plainly, and has the learner's kernel merge them.
#include "chapters/04-tiled-kv-outer/exercise/exercise.cuh"

enum { THREADS = 64, MAX_D = 128 };

typedef struct exercise_shape {
    int q_len, kv_len, d, group; // query head h reads key head h / group
    float scale;
} exercise_shape;

// A thread a row and slice: online softmax of its keys.
__global__ void attend_to_slice(const float *q, const float *k, const float *v, float *o_part,
                                float *lse_part, size_t rows, exercise_shape shape) {
    const size_t part = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (part >= rows * SLICES) return;
    const size_t row = part % rows;
    const int slice = (int)(part / rows), d = shape.d;
    const size_t kv_head = row / shape.q_len / shape.group;
    float my_q[MAX_D], o[MAX_D] = {}, m = -INFINITY, l = 0;
    for (int c = 0; c < d; c++) my_q[c] = hbm_load(&q[row * d + c]);
    const int end = EXERCISE4_FIRST_OF_SLICE(slice + 1, shape.kv_len);
    for (int j = EXERCISE4_FIRST_OF_SLICE(slice, shape.kv_len); j < end; j++) {
        const size_t key = (kv_head * shape.kv_len + j) * d;
        float s = 0;
        for (int c = 0; c < d; c++) s += my_q[c] * hbm_load(&k[key + c]);
        s *= shape.scale;
        const float m_new = fmaxf(m, s), shift = m_new == -INFINITY ? 0 : m_new;
        const float alpha = expf(m - shift), p = expf(s - shift);
        l = l * alpha + p;
        for (int c = 0; c < d; c++) o[c] = o[c] * alpha + p * hbm_load(&v[key + c]);
        m = m_new;
    }
    for (int c = 0; c < d; c++) hbm_store(&o_part[part * d + c], l > 0 ? o[c] / l : 0);
    hbm_store(&lse_part[part], m + logf(l));
}

static attn_status supports(const attn_problem *p) {
    if (p->head_dim <= MAX_D) return attn_ok();
    return attn_error(ATTN_UNSUPPORTED, "the exercise has head dimensions up to %d", MAX_D);
}

static int buffers(const attn_problem *p, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]) {
    const attn_buffer o_part = {"o_part", 4 * SLICES * attn_q_elements(p), 0};
    const attn_buffer lse_part = {"lse_part", 4 * SLICES * attn_rows(p), 0};
    if (pass == ATTN_BACKWARD) return 0;
    need[0] = o_part, need[1] = lse_part;
    return 2;
}

static attn_status forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    const size_t rows = attn_rows(p);
    const int d = (int)p->head_dim;
    const exercise_shape shape = {(int)p->q_len, (int)p->kv_len, d, (int)(p->heads / p->kv_heads),
                                  p->scale};
    if (rows == 0) return attn_ok();
    float *o_part = (float *)buffer[0], *lse_part = (float *)buffer[1];
    ATTN_TRY(GPU_LAUNCH(attend_to_slice, (rows * SLICES + THREADS - 1) / THREADS, THREADS, 0,
                        (const float *)t->q, (const float *)t->k, (const float *)t->v, o_part,
                        lse_part, rows, shape));
    return exercise_merge(o_part, lse_part, (float *)t->o, t->lse, rows, d);
}

static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    const uint64_t q = 4 * attn_q_elements(p), rows = 4 * attn_rows(p);
    const uint64_t kv = q * (uint64_t)p->kv_len; // each row reads each key for itself
    if (pass == ATTN_BACKWARD) return;
    attn_traffic_add(traffic, "q", SLICES * q, 0);
    attn_traffic_add(traffic, "k", kv, 0);
    attn_traffic_add(traffic, "v", kv, 0);
    attn_traffic_add(traffic, "o_part", SLICES * q, SLICES * q);
    attn_traffic_add(traffic, "lse_part", SLICES * rows, SLICES * rows);
    attn_traffic_add(traffic, "o", 0, q);
    attn_traffic_add(traffic, "lse", 0, rows);
}

static double flops(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? 4 * (double)p->head_dim * (double)attn_score_elements(p) : 0;
}

static const attn_stage stages[] = {{
    "exercise",
    "exercise 4",
    ATTN_HAS_GROUPED_HEADS,
    0,
    NULL,
    supports,
    buffers,
    forward,
    NULL,
    bytes,
    flops,
    NULL,
    NULL,
}};

ATTN_MODULE(4, "Exercise 4", "make grade4", gpu_device(), stages)
