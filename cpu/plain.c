// plain.c -- see plain.h. reference.c has the equations; here they are computed in fp32, and the mask
// is cpu/mask.h's band.
#include "cpu/plain.h"

#include "cpu/dropout.h"
#include "cpu/mask.h"

#include <math.h>
#include <stdlib.h>

// One query head of one sequence, or of a batch's member. Pointers are to the first rows.
typedef struct part {
    attn_problem problem; // its own: these lengths, one sequence
    attn_layout stride;
    attn_band band;
    const float *q, *k, *v, *d_o, *bias;
    const unsigned char *mask;
    float *o, *lse, *dq, *dk, *dv, *dbias;
    float slope;     // ALiBi's
    uint32_t number; // of the head in dropout's counter
    attn_dropout drop;
} part;

static part part_of(const attn_problem *p, const attn_tensors *t, int64_t batch, int64_t head,
                    int64_t s) {
    const attn_sequence rows = attn_sequence_of(p, s);
    const attn_layout stride = attn_layout_of(p);
    const int64_t kv_head = head / (p->heads / p->kv_heads);
    part at = {.problem = attn_problem_of_sequence(p, s), .stride = stride};
    const int64_t q = batch * stride.q.batch + head * stride.q.head + rows.q_first * stride.q.row;
    const int64_t o = batch * stride.o.batch + head * stride.o.head + rows.q_first * stride.o.row;
    const int64_t k =
        batch * stride.k.batch + kv_head * stride.k.head + rows.kv_first * stride.k.row;
    const int64_t v =
        batch * stride.v.batch + kv_head * stride.v.head + rows.kv_first * stride.v.row;
    at.band = attn_band_of(&at.problem);
    at.q = (const float *)t->q + q, at.k = (const float *)t->k + k, at.v = (const float *)t->v + v;
    at.o = (float *)t->o + o;
    at.lse = t->lse + (batch * p->heads + head) * p->q_len + rows.q_first;
    if (t->d_o) {
        at.d_o = (const float *)t->d_o + o, at.dq = (float *)t->dq + q;
        at.dk = (float *)t->dk + k, at.dv = (float *)t->dv + v;
    }
    const int64_t bias =
        (p->bias_batch == 1 ? 0 : batch) * p->bias_heads + (p->bias_heads == 1 ? 0 : head);
    const int64_t mask =
        (p->mask_batch == 1 ? 0 : batch) * p->mask_heads + (p->mask_heads == 1 ? 0 : head);
    if (p->bias_heads != 0) at.bias = t->bias + bias * p->q_len * p->kv_len;
    if (p->bias_heads != 0 && t->dbias) at.dbias = t->dbias + bias * p->q_len * p->kv_len;
    if (p->mask_heads != 0) at.mask = t->mask + mask * p->q_len * p->kv_len;
    if (p->alibi) at.slope = exp2f(-8.0f * (float)(head + 1) / (float)p->heads);
    at.number = (uint32_t)((p->sequences != 0 ? s : batch) * p->heads + head);
    at.drop = attn_dropout_of(p);
    return at;
}

static float dot(const float *a, const float *b, int64_t d) {
    float sum = 0;
    for (int64_t c = 0; c < d; c++) sum += a[c] * b[c];
    return sum;
}

static void add_multiple(float *sum, float factor, const float *row, int64_t d) {
    for (int64_t c = 0; c < d; c++) sum[c] += factor * row[c];
}

static int sees(const part *at, int i, int j) {
    return at->mask == NULL || at->mask[i * at->problem.kv_len + j] != 0;
}

// scale * q_i . k_j, capped.
static float capped(const part *at, int i, int j) {
    const float x = at->problem.scale * dot(at->q + i * at->stride.q.row,
                                            at->k + j * at->stride.k.row, at->problem.head_dim);
    const float cap = at->problem.softcap;
    return cap != 0 ? cap * tanhf(x / cap) : x;
}

static float score(const part *at, int i, int j) {
    const attn_problem *p = &at->problem;
    const int64_t own = p->causal == ATTN_CAUSAL_TOP_LEFT ? i : i + p->kv_len - p->q_len;
    float s = capped(at, i, j);
    if (at->bias) s += at->bias[i * p->kv_len + j];
    if (p->alibi) s -= at->slope * fabsf((float)(own - j));
    return s;
}

static float kept(const part *at, int i, int j) {
    if (at->problem.dropout == 0) return 1;
    return attn_dropout_factor(at->drop, at->number, (uint32_t)i, (uint32_t)j);
}

// Row i of P, 0 where a key is not seen, and L.
static float softmax_row(const part *at, int i, float *p) {
    const int first = attn_first_key(at->band, i), end = attn_end_key(at->band, i);
    float m = -INFINITY, l = 0;
    int seen = 0;
    for (int j = 0; j < at->band.kv_len; j++) p[j] = 0;
    for (int j = first; j < end; j++) {
        if (!sees(at, i, j)) continue;
        p[j] = score(at, i, j);
        m = fmaxf(m, p[j]), seen++;
    }
    if (seen == 0) return -INFINITY;
    const float shift = m == -INFINITY ? 0 : m;
    for (int j = first; j < end; j++)
        if (sees(at, i, j)) p[j] = expf(p[j] - shift), l += p[j];
    for (int j = first; j < end; j++)
        if (sees(at, i, j)) p[j] /= l;
    return shift + logf(l);
}

static void forward_part(const part *at, float *p) {
    const int64_t d = at->problem.head_dim;
    for (int i = 0; i < at->band.q_len; i++) {
        float *o = at->o + i * at->stride.o.row;
        at->lse[i] = softmax_row(at, i, p);
        for (int64_t c = 0; c < d; c++) o[c] = 0;
        for (int j = attn_first_key(at->band, i); j < attn_end_key(at->band, i); j++)
            if (sees(at, i, j))
                add_multiple(o, p[j] * kept(at, i, j), at->v + j * at->stride.v.row, d);
    }
}

// Row i: P and, in dp, dP and then dS. Adds to dq, dk, dv and dbias.
static void backward_row(const part *at, int i, float *p, float *dp) {
    const int first = attn_first_key(at->band, i), end = attn_end_key(at->band, i);
    const int64_t d = at->problem.head_dim;
    const float *q = at->q + i * at->stride.q.row, *d_o = at->d_o + i * at->stride.o.row;
    const float cap = at->problem.softcap;
    float row_sum = 0; // D
    softmax_row(at, i, p);
    for (int j = first; j < end; j++) {
        if (!sees(at, i, j)) continue;
        dp[j] = kept(at, i, j) * dot(d_o, at->v + j * at->stride.v.row, d);
        row_sum += p[j] * dp[j];
    }
    for (int j = first; j < end; j++) {
        if (!sees(at, i, j)) continue;
        float ds = p[j] * (dp[j] - row_sum);
        if (at->dbias) at->dbias[i * at->problem.kv_len + j] += ds;
        if (cap != 0) {
            const float t = capped(at, i, j) / cap;
            ds *= 1 - t * t;
        }
        add_multiple(at->dq + i * at->stride.q.row, at->problem.scale * ds,
                     at->k + j * at->stride.k.row, d);
        add_multiple(at->dk + j * at->stride.k.row, at->problem.scale * ds, q, d);
        add_multiple(at->dv + j * at->stride.v.row, p[j] * kept(at, i, j), d_o, d);
    }
}

static void clear(float *tensor, attn_stride stride, int64_t rows, int64_t d) {
    for (int64_t row = 0; row < rows; row++)
        for (int64_t c = 0; c < d; c++) tensor[row * stride.row + c] = 0;
}

static attn_status no_memory(const attn_problem *problem) {
    return attn_error(ATTN_NO_MEMORY,
                      "a row of S and P for %lld keys needs more memory than there is",
                      (long long)problem->kv_len);
}

static int64_t sequences_of(const attn_problem *problem) {
    return problem->sequences != 0 ? problem->sequences : 1;
}

attn_status attn_plain_forward(const attn_problem *problem, const attn_tensors *tensors,
                               void *const *buffer) {
    (void)buffer;
    int failed = 0;
#pragma omp parallel for schedule(dynamic)
    for (int64_t n = 0; n < problem->batch * problem->heads; n++) {
        float *p = malloc(sizeof(float) * (size_t)problem->kv_len + 1);
        for (int64_t s = 0; p && s < sequences_of(problem); s++) {
            const part at = part_of(problem, tensors, n / problem->heads, n % problem->heads, s);
            forward_part(&at, p);
        }
        if (!p) {
#pragma omp atomic write
            failed = 1;
        }
        free(p);
    }
    return failed ? no_memory(problem) : attn_ok();
}

// In one thread: the heads of a group add to the same rows of dK and dV, and a bias may be shared by all.
attn_status attn_plain_backward(const attn_problem *problem, const attn_tensors *tensors,
                                void *const *buffer) {
    (void)buffer;
    const int64_t group = problem->heads / problem->kv_heads, d = problem->head_dim;
    float *p = malloc(2 * sizeof(float) * (size_t)problem->kv_len + 1);
    if (!p) return no_memory(problem);
    for (size_t e = 0; tensors->dbias && e < attn_bias_elements(problem); e++)
        tensors->dbias[e] = 0;
    for (int64_t n = 0; n < problem->batch * problem->heads; n++)
        for (int64_t s = 0; s < sequences_of(problem); s++) {
            const part at = part_of(problem, tensors, n / problem->heads, n % problem->heads, s);
            clear(at.dq, at.stride.q, at.band.q_len, d);
            if (n % problem->heads % group == 0) {
                clear(at.dk, at.stride.k, at.band.kv_len, d);
                clear(at.dv, at.stride.v, at.band.kv_len, d);
            }
            for (int i = 0; i < at.band.q_len; i++) backward_row(&at, i, p, p + problem->kv_len);
        }
    free(p);
    return attn_ok();
}
