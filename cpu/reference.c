// reference.c -- see reference.h. The equations, in the order in which they stand in a textbook:
//
//   S_ij = scale * q_i . k_j        L_i = log sum_j exp(S_ij)        P_ij = exp(S_ij - L_i)
//   O_i  = sum_j P_ij v_j
//   D_i  = dO_i . O_i               dP_ij = dO_i . v_j               dS_ij = P_ij (dP_ij - D_i)
//   dQ_i = scale * sum_j dS_ij k_j  dK_j = scale * sum_i dS_ij q_i   dV_j = sum_i P_ij dO_i
//
// A row of O, L and dQ is the work of one thread, then a row of dK and dV is. So no sum is shared
// between threads, and none depends on how many there are. Scores are computed wherever they are
// needed: that costs time, and saves both memory and reasoning.
#include "cpu/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    const attn_problem *problem;
    const float *q, *k, *v, *d_o;
    double *o, *lse, *dq, *dk, *dv;
    double *d; // D_i, [B][H][N]
} call;

// The definition in problem.h, word for word.
static int sees(const attn_problem *problem, int64_t i, int64_t j) {
    int64_t own = i + problem->kv_len - problem->q_len;
    if (problem->causal == ATTN_CAUSAL_TOP_LEFT) own = i;

    if (problem->causal != ATTN_CAUSAL_OFF && j > own) return 0;
    if (problem->window_left != 0 && j <= own - problem->window_left) return 0;
    if (problem->window_right != 0 && j >= own + problem->window_right) return 0;
    return 1;
}

// sum_c a_c b_c, and sum_c |a_c| |b_c|. A product of two floats is exact in double. Eight partial
// sums, for a compiler may not reorder one sum to use its vector registers, but can keep eight.
enum { LANES = 8 };

static double dot(const float *a, const float *b, int64_t d) {
    double sum[LANES] = {0};
    int64_t c = 0;
    for (; c + LANES <= d; c += LANES)
        for (int t = 0; t < LANES; t++) sum[t] += (double)a[c + t] * (double)b[c + t];
    for (; c < d; c++) sum[c % LANES] += (double)a[c] * (double)b[c];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static double dot_of_sizes(const float *a, const float *b, int64_t d) {
    double sum[LANES] = {0};
    int64_t c = 0;
    for (; c + LANES <= d; c += LANES)
        for (int t = 0; t < LANES; t++) sum[t] += fabs((double)a[c + t] * (double)b[c + t]);
    for (; c < d; c++) sum[c % LANES] += fabs((double)a[c] * (double)b[c]);
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static void add_scaled(double *sum, double factor, const float *vector, int64_t d) {
    for (int64_t c = 0; c < d; c++) sum[c] += factor * vector[c];
}

static void raise_to(double *maximum, double value) { // NaN and infinity raise nothing
    if (isfinite(value) && value > *maximum) *maximum = value;
}

static void raise_to_sizes(double *maximum, const float *vector, int64_t d) {
    for (int64_t c = 0; c < d; c++) raise_to(maximum, fabs((double)vector[c]));
}

static void raise_to_drift(double *maximum, int64_t terms, const double *sums, int64_t d) {
    for (int64_t c = 0; c < d; c++) raise_to(maximum, (double)terms * fabs(sums[c]));
}

// O, L and dQ of one query. `row` counts through [B][H][N].
static void compute_query(const call *in, int64_t row, attn_magnitudes *size) {
    const attn_problem *problem = in->problem;
    const int64_t d = problem->head_dim, keys = problem->kv_len;
    const int64_t i = row % problem->q_len, head = row / problem->q_len; // head: of [B][H]
    const int64_t kv_head = head / (problem->heads / problem->kv_heads); // of [B][H_kv]
    const double scale = problem->scale;
    const float *q = in->q + row * d, *k = in->k + kv_head * keys * d,
                *v = in->v + kv_head * keys * d;
    double *o = in->o + row * d; // 0 so far

    int64_t seen = 0;
    double m = -INFINITY;
    for (int64_t j = 0; j < keys; j++) {
        if (!sees(problem, i, j)) continue;
        double s = scale * dot(q, k + j * d, d);
        if (s > m) m = s;
        seen++;
        raise_to(&size->s, fabs(s));
        raise_to(&size->s_terms, fabs(scale) * dot_of_sizes(q, k + j * d, d));
    }
    if (seen > size->keys) size->keys = seen;
    in->lse[row] = -INFINITY;
    if (in->d_o != NULL) in->d[row] = 0;
    if (seen == 0) return;

    // exp(s - m) cannot overflow. For a row of nothing but -inf s - m would be NaN, but its L is -inf.
    // A row with a score of +inf is NaN throughout, as in every softmax: no weight of it means anything.
    const double shift = m == -INFINITY ? 0 : m;
    double l = 0;
    for (int64_t j = 0; j < keys; j++) {
        if (!sees(problem, i, j)) continue;
        double weight = exp(scale * dot(q, k + j * d, d) - shift);
        l += weight;
        add_scaled(o, weight, v + j * d, d);
    }
    for (int64_t c = 0; c < d; c++) o[c] /= l;
    const double lse = in->lse[row] = shift + log(l);
    raise_to(&size->lse, fabs(lse));
    raise_to_sizes(&size->q, q, d);
    raise_to_drift(&size->drift[ATTN_RESULT_O], seen, o, d);

    if (in->d_o == NULL) return;
    const float *d_o = in->d_o + row * d;
    double *dq = in->dq + row * d;
    double d_i = 0, sum_ds = 0;
    for (int64_t c = 0; c < d; c++) d_i += d_o[c] * o[c];
    for (int64_t j = 0; j < keys; j++) {
        if (!sees(problem, i, j)) continue;
        double p = exp(scale * dot(q, k + j * d, d) - lse);
        double dp = dot(d_o, v + j * d, d);
        double ds = p * (dp - d_i);
        add_scaled(dq, scale * ds, k + j * d, d);
        sum_ds += p * (fabs(dp) + fabs(d_i));
        raise_to(&size->dp_terms, dot_of_sizes(d_o, v + j * d, d));
    }
    in->d[row] = d_i;
    raise_to(&size->row_ds, sum_ds);
    raise_to_sizes(&size->d_o, d_o, d);
    raise_to_drift(&size->d_drift, seen, &d_i, 1);
    raise_to_drift(&size->drift[ATTN_RESULT_DQ], seen, dq, d);
}

// dK and dV of one key, after every query has its L and D. `row` counts through [B][H_kv][N_kv].
static void compute_key(const call *in, int64_t row, attn_magnitudes *size) {
    const attn_problem *problem = in->problem;
    const int64_t d = problem->head_dim, queries = problem->q_len;
    const int64_t j = row % problem->kv_len, kv_head = row / problem->kv_len;
    const int64_t shared_by = problem->heads / problem->kv_heads;
    const double scale = problem->scale;
    const float *k = in->k + row * d, *v = in->v + row * d;

    int64_t seen_by = 0;
    double sum_p = 0, sum_ds = 0;
    for (int64_t head = kv_head * shared_by; head < (kv_head + 1) * shared_by; head++) {
        for (int64_t i = 0; i < queries; i++) {
            if (!sees(problem, i, j)) continue;
            seen_by++;
            if (in->d_o == NULL) continue;

            const int64_t q_row = head * queries + i;
            const float *q = in->q + q_row * d, *d_o = in->d_o + q_row * d;
            double p = exp(scale * dot(q, k, d) - in->lse[q_row]);
            double dp = dot(d_o, v, d);
            double ds = p * (dp - in->d[q_row]);
            add_scaled(in->dv + row * d, p, d_o, d);
            add_scaled(in->dk + row * d, scale * ds, q, d);
            sum_p += p;
            sum_ds += p * (fabs(dp) + fabs(in->d[q_row]));
        }
    }
    if (seen_by == 0) return;
    if (seen_by > size->queries) size->queries = seen_by;
    raise_to_sizes(&size->k, k, d);
    raise_to_sizes(&size->v, v, d);
    if (in->d_o == NULL) return;
    raise_to_drift(&size->drift[ATTN_RESULT_DK], seen_by, in->dk + row * d, d);
    raise_to_drift(&size->drift[ATTN_RESULT_DV], seen_by, in->dv + row * d, d);
    raise_to(&size->column_p, sum_p);
    raise_to(&size->column_ds, sum_ds);
}

static void raise_to_all(attn_magnitudes *size, const attn_magnitudes *other) {
    if (other->keys > size->keys) size->keys = other->keys;
    if (other->queries > size->queries) size->queries = other->queries;
    raise_to(&size->s, other->s);
    raise_to(&size->s_terms, other->s_terms);
    raise_to(&size->lse, other->lse);
    raise_to(&size->q, other->q);
    raise_to(&size->k, other->k);
    raise_to(&size->v, other->v);
    raise_to(&size->d_o, other->d_o);
    raise_to(&size->dp_terms, other->dp_terms);
    raise_to(&size->column_p, other->column_p);
    raise_to(&size->row_ds, other->row_ds);
    raise_to(&size->column_ds, other->column_ds);
    for (int r = 0; r < ATTN_RESULTS; r++) raise_to(&size->drift[r], other->drift[r]);
    raise_to(&size->d_drift, other->d_drift);
}

static double *zeros(size_t count) { // never NULL for want of elements
    return calloc(count > 0 ? count : 1, sizeof(double));
}

attn_status attn_reference_compute(const attn_problem *problem, const float *q, const float *k,
                                   const float *v, const float *d_o, attn_reference *out) {
    memset(out, 0, sizeof *out);
    ATTN_TRY(attn_problem_check(problem));
    const unsigned undone = ~(unsigned)(ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS |
                                        ATTN_HAS_TILE_SIZES);
    const unsigned asked = attn_problem_features(problem) & undone;
    if (asked != 0)
        return attn_error(ATTN_UNSUPPORTED,
                          "the problem has %s, which the reference does not compute; it does "
                          "contiguous tensors of one length without dropout",
                          attn_feature_name(asked & -asked));

    const size_t q_elements = attn_q_elements(problem), kv_elements = attn_kv_elements(problem);
    const int64_t rows = (int64_t)attn_rows(problem);
    const int64_t kv_rows = problem->batch * problem->kv_heads * problem->kv_len;
    out->o = zeros(q_elements);
    out->lse = zeros(rows);
    double *d = NULL;
    if (d_o != NULL) {
        out->dq = zeros(q_elements);
        out->dk = zeros(kv_elements);
        out->dv = zeros(kv_elements);
        d = zeros(rows);
    }
    if (!out->o || !out->lse || (d_o != NULL && (!out->dq || !out->dk || !out->dv || !d))) {
        free(d);
        attn_reference_free(out);
        return attn_error(ATTN_NO_MEMORY,
                          "the reference's results in double precision need %.1f MB, more memory "
                          "than there is",
                          8e-6 * (d_o != NULL ? 2.0 * q_elements + 2.0 * kv_elements + 2.0 * rows
                                              : (double)q_elements + rows));
    }

    const call in = {problem, q, k, v, d_o, out->o, out->lse, out->dq, out->dk, out->dv, d};
    out->size.scale = fabs((double)problem->scale);
    out->size.head_dim = problem->head_dim;
#pragma omp parallel
    {
        attn_magnitudes size = {0};
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < rows; row++) compute_query(&in, row, &size);
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < kv_rows; row++) compute_key(&in, row, &size);
#pragma omp critical
        raise_to_all(&out->size, &size);
    }
    free(d);
    return attn_ok();
}

void attn_reference_free(attn_reference *reference) {
    free(reference->o);
    free(reference->lse);
    free(reference->dq);
    free(reference->dk);
    free(reference->dv);
    memset(reference, 0, sizeof *reference);
}

const double *attn_reference_result(const attn_reference *reference, attn_result result) {
    switch (result) {
    case ATTN_RESULT_O:
        return reference->o;
    case ATTN_RESULT_LSE:
        return reference->lse;
    case ATTN_RESULT_DQ:
        return reference->dq;
    case ATTN_RESULT_DK:
        return reference->dk;
    case ATTN_RESULT_DV:
        return reference->dv;
    }
    return NULL;
}

const char *attn_result_name(attn_result result) {
    static const char *const names[ATTN_RESULTS] = {"o", "lse", "dq", "dk", "dv"};
    return names[result];
}
