// rounding.c -- see rounding.h.
#include "tests/rounding.h"

#include "cpu/mask.h"
#include "cpu/random.h"

#include <math.h>
#include <stdlib.h>

const char *bug_name(bug which) {
    static const char *const names[BUGS] = {
        "none",
        "scale left out",
        "mask off by one",
        "tail key with score 0",
        "O not rescaled",
        "l not rescaled",
        "L in powers of two",
        "wrong key head",
        "D left out",
        "dK without scale",
        "dV of one head only",
        "last query dropped from dK, dV",
    };
    return names[which];
}

const char *kind_name(input_kind kind) {
    static const char *const names[KINDS] = {"normal", "outliers", "wide",
                                             "equal",  "tiny",     "rising"};
    return names[kind];
}

// ---- inputs ----------------------------------------------------------------------------------------

static float *numbers(size_t count, input_kind kind, uint64_t seed, uint64_t stream) {
    float *x = malloc((count + 1) * sizeof *x);
    for (size_t at = 0; at < count; at++) {
        float normal = attn_normal(seed, stream, at);
        x[at] = kind == KIND_EQUAL ? 0.7f : kind == KIND_TINY ? 1e-20f * normal : normal;
        if (kind == KIND_OUTLIERS && attn_uniform(seed, stream + 10, at) < 0.001f)
            x[at] += 10 * attn_normal(seed, stream + 20, at);
    }
    return x;
}

inputs inputs_make(const attn_problem *problem, input_kind kind, uint64_t seed) {
    const size_t q_count = attn_q_elements(problem), kv_count = attn_kv_elements(problem);
    inputs in = {numbers(q_count, kind, seed, 0), numbers(kv_count, kind, seed, 1),
                 numbers(kv_count, kind, seed, 2), numbers(q_count, kind, seed, 3)};
    if (kind == KIND_WIDE) // scores of 5 standard deviations become 1000
        for (size_t at = 0; at < q_count; at++) in.q[at] *= 200;
    if (kind == KIND_RISING)
        for (size_t at = 0; at < kv_count; at++)
            in.k[at] = fabsf(in.k[at]) * (float)(at / problem->head_dim % problem->kv_len) / 64;
    if (kind == KIND_RISING)
        for (size_t at = 0; at < q_count; at++) in.q[at] = fabsf(in.q[at]);
    return in;
}

void inputs_free(inputs *in) {
    free(in->q), free(in->k), free(in->v), free(in->d_o);
}

static fp32_result fp32_result_make(const attn_problem *problem) {
    const size_t q_count = attn_q_elements(problem), kv_count = attn_kv_elements(problem);
    const size_t counts[ATTN_RESULTS] = {q_count, attn_rows(problem), q_count, kv_count, kv_count};
    fp32_result result;
    for (int r = 0; r < ATTN_RESULTS; r++) result.tensor[r] = calloc(counts[r] + 1, sizeof(float));
    return result;
}

void fp32_result_free(fp32_result *result) {
    for (int r = 0; r < ATTN_RESULTS; r++) free(result->tensor[r]);
}

// ---- naive: P is stored, and every sum goes in sequence ----------------------------------------------

static float dot(const float *a, const float *b, int64_t d) {
    float sum = 0;
    for (int64_t c = 0; c < d; c++) sum += a[c] * b[c];
    return sum;
}

fp32_result fp32_naive(const attn_problem *problem, const inputs *in) {
    const int64_t d = problem->head_dim;
    const int group = (int)(problem->heads / problem->kv_heads);
    const attn_band band = attn_band_of(problem);
    fp32_result out = fp32_result_make(problem);
    float *p = malloc((problem->kv_len + 1) * sizeof *p);

    for (int64_t row = 0; row < (int64_t)attn_rows(problem); row++) {
        const int i = (int)(row % problem->q_len);
        const int64_t kv_row = row / problem->q_len / group * problem->kv_len;
        const float *q = in->q + row * d, *d_o = in->d_o + row * d;
        const float *k = in->k + kv_row * d, *v = in->v + kv_row * d;
        float *o = out.tensor[ATTN_RESULT_O] + row * d, *dq = out.tensor[ATTN_RESULT_DQ] + row * d;
        float *dk = out.tensor[ATTN_RESULT_DK] + kv_row * d;
        float *dv = out.tensor[ATTN_RESULT_DV] + kv_row * d;
        const int first = attn_first_key(band, i), end = attn_end_key(band, i);

        float m = -INFINITY, l = 0;
        for (int j = first; j < end; j++) {
            p[j] = problem->scale * dot(q, k + j * d, d);
            m = fmaxf(m, p[j]);
        }
        for (int j = first; j < end; j++) l += p[j] = expf(p[j] - m);
        for (int j = first; j < end; j++) p[j] /= l;
        out.tensor[ATTN_RESULT_LSE][row] = first < end ? m + logf(l) : -INFINITY;
        for (int j = first; j < end; j++)
            for (int64_t c = 0; c < d; c++) o[c] += p[j] * v[j * d + c];

        const float d_i = dot(d_o, o, d);
        for (int j = first; j < end; j++) {
            const float ds = p[j] * (dot(d_o, v + j * d, d) - d_i);
            for (int64_t c = 0; c < d; c++) {
                dq[c] += ds * k[j * d + c];
                dk[j * d + c] += ds * q[c];
                dv[j * d + c] += p[j] * d_o[c];
            }
        }
        for (int64_t c = 0; c < d; c++) dq[c] *= problem->scale;
    }
    for (size_t at = 0; at < attn_kv_elements(problem); at++)
        out.tensor[ATTN_RESULT_DK][at] *= problem->scale;
    free(p);
    return out;
}

// ---- online: one pass over tiles of keys, in powers of two; P recomputed from L ------------------------

enum { TILE = 16, LANES = 4 };
static const float LOG2E = 1.44269504f, LN2 = 0.693147181f;

// In lanes, as vector code sums.
static float lane_dot(const float *a, const float *b, int64_t d) {
    float sum[LANES] = {0};
    for (int64_t c = 0; c < d; c++) sum[c % LANES] += a[c] * b[c];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

fp32_result fp32_online(const attn_problem *problem, const inputs *in, bug broken) {
    const int64_t d = problem->head_dim, rows = (int64_t)attn_rows(problem);
    const int heads = (int)problem->heads, kv_heads = (int)problem->kv_heads;
    const attn_band band = attn_band_of(problem);
    const float scale = broken == BUG_SCALE_LEFT_OUT ? 1 : problem->scale;
    fp32_result out = fp32_result_make(problem);
    float *const dk = out.tensor[ATTN_RESULT_DK], *const dv = out.tensor[ATTN_RESULT_DV];
    float *scaled_q = malloc((d + 1) * sizeof *scaled_q);

    for (int64_t row = 0; row < rows; row++) {
        const int i = (int)(row % problem->q_len);
        const int h = (int)(row / problem->q_len % heads);
        const int64_t b = row / problem->q_len / heads;
        const int kv_h = broken == BUG_WRONG_KV_HEAD ? h % kv_heads : h / (heads / kv_heads);
        const int64_t kv_row = (b * kv_heads + kv_h) * problem->kv_len;
        const float *q = in->q + row * d, *d_o = in->d_o + row * d;
        const float *k = in->k + kv_row * d, *v = in->v + kv_row * d;
        float *o = out.tensor[ATTN_RESULT_O] + row * d, *dq = out.tensor[ATTN_RESULT_DQ] + row * d;
        const int first = attn_first_key(band, i);
        const int end = attn_end_key(band, i) - (broken == BUG_MASK_OFF_BY_ONE);
        out.tensor[ATTN_RESULT_LSE][row] = -INFINITY;
        if (first >= end) continue;

        for (int64_t c = 0; c < d; c++) scaled_q[c] = q[c] * (scale * LOG2E);
        float m = -INFINITY, l = 0;
        for (int tile = first; tile < end; tile += TILE) {
            const int stop = tile + TILE < end ? tile + TILE : end;
            float s[TILE] = {0}, new_m = m, sum = 0;
            for (int j = tile; j < stop; j++) {
                s[j - tile] = lane_dot(scaled_q, k + j * d, d);
                new_m = fmaxf(new_m, s[j - tile]);
            }
            if (broken == BUG_TAIL_SCORE_ZERO && stop < tile + TILE) new_m = fmaxf(new_m, 0);
            const float correction = exp2f(m - new_m);
            if (broken != BUG_O_NOT_RESCALED)
                for (int64_t c = 0; c < d; c++) o[c] *= correction;
            for (int j = tile; j < stop; j++) {
                const float weight = exp2f(s[j - tile] - new_m);
                sum += weight;
                for (int64_t c = 0; c < d; c++) o[c] += weight * v[j * d + c];
            }
            if (broken == BUG_TAIL_SCORE_ZERO && stop < tile + TILE) sum += exp2f(0 - new_m);
            l = (broken == BUG_L_NOT_RESCALED ? l : l * correction) + sum;
            m = new_m;
        }
        const float inverse = 1 / l;
        for (int64_t c = 0; c < d; c++) o[c] *= inverse;
        const float lse = m * LN2 + logf(l);
        out.tensor[ATTN_RESULT_LSE][row] = broken == BUG_LSE_IN_POWERS_OF_TWO ? lse * LOG2E : lse;

        const float d_i = broken == BUG_D_LEFT_OUT ? 0 : lane_dot(d_o, o, d);
        const int to_keys = !(broken == BUG_LAST_QUERY_DROPPED && i == problem->q_len - 1);
        const int to_dv = !(broken == BUG_DV_OF_FIRST_HEAD && h % (heads / kv_heads) != 0);
        for (int j = end - 1; j >= first; j--) { // the other way round
            const float p = exp2f(lane_dot(scaled_q, k + j * d, d) - lse * LOG2E);
            const float ds = p * (lane_dot(d_o, v + j * d, d) - d_i);
            for (int64_t c = 0; c < d; c++) {
                dq[c] += ds * scale * k[j * d + c];
                if (!to_keys) continue;
                dk[(kv_row + j) * d + c] +=
                    (broken == BUG_DK_WITHOUT_SCALE ? ds : ds * scale) * q[c];
                if (to_dv) dv[(kv_row + j) * d + c] += p * d_o[c];
            }
        }
    }
    free(scaled_q);
    return out;
}

// ---- the list of problems, and the measurement ------------------------------------------------------

attn_problem problem_of(int i) {
    static const struct {
        int batch, heads, kv_heads, q_len, kv_len, head_dim, causal, left, right;
        float scale; // 0: the default
    } list[PROBLEMS] = {
        {1, 1, 1, 1, 1, 256, 0, 0, 0, 0},     {1, 1, 1, 1, 2, 256, 0, 0, 0, 0},
        {1, 1, 1, 33, 33, 1, 0, 0, 0, 0},     {1, 2, 2, 64, 64, 64, 0, 0, 0, 0},
        {1, 1, 1, 127, 127, 64, 1, 0, 0, 0},  {1, 1, 1, 200, 200, 128, 0, 0, 0, 0},
        {1, 1, 1, 31, 31, 256, 0, 0, 0, 0},   {1, 4, 2, 65, 65, 40, 0, 0, 0, 0},
        {2, 4, 1, 33, 65, 32, 1, 0, 0, 0},    {1, 1, 1, 65, 33, 64, 1, 0, 0, 0},
        {1, 1, 1, 65, 33, 8, 2, 0, 0, 0},     {1, 2, 1, 80, 80, 16, 1, 16, 0, 0},
        {1, 1, 1, 80, 100, 33, 0, 7, 5, 0},   {1, 1, 1, 50, 50, 64, 0, 0, 0, -0.125f},
        {1, 1, 1, 16, 16, 64, 0, 0, 0, 1.0f}, {1, 1, 1, 40, 40, 64, 0, 0, 0, 1e-3f},
        {1, 1, 1, 1, 300, 64, 0, 0, 0, 0},    {1, 1, 1, 300, 1, 64, 0, 0, 0, 0},
        {1, 1, 1, 4, 1000, 64, 0, 0, 0, 0},   {1, 1, 1, 3, 4096, 16, 0, 0, 0, 0},
    };
    attn_problem problem = attn_problem_of(list[i].q_len, list[i].kv_len, list[i].head_dim);
    problem.batch = list[i].batch;
    problem.heads = list[i].heads;
    problem.kv_heads = list[i].kv_heads;
    problem.causal = (attn_causal)list[i].causal;
    problem.window_left = list[i].left;
    problem.window_right = list[i].right;
    if (list[i].scale != 0) problem.scale = list[i].scale;
    return problem;
}

ratios measure(const attn_problem *problem, input_kind kind, uint64_t seed, bug broken) {
    ratios all;
    inputs in = inputs_make(problem, kind, seed);
    attn_reference right;
    const attn_inputs tensors = {.q = in.q, .k = in.k, .v = in.v, .d_o = in.d_o};
    attn_reference_compute(problem, &tensors, &right);
    fp32_result naive = fp32_naive(problem, &in), online = fp32_online(problem, &in, broken);
    for (int at = 0; at < ATTN_RESULTS; at++) {
        const attn_result r = (attn_result)at;
        const double *expected = attn_reference_result(&right, r);
        const double bound = attn_naive_bound(r, &right.size);
        const double naive_error = attn_compare(r, problem, naive.tensor[r], expected, bound).worst;
        const double allowed = attn_allowed(r, &right.size, naive_error);
        all.naive[r] = naive_error / bound;
        const double error = attn_compare(r, problem, online.tensor[r], expected, allowed).worst;
        all.online[r] = error / allowed;
        all.bound[r] = error / bound;
    }
    fp32_result_free(&naive);
    fp32_result_free(&online);
    attn_reference_free(&right);
    inputs_free(&in);
    return all;
}
