// reference.c -- see reference.h. The equations, in the order in which they stand in a textbook:
//
//   S_ij = scale * q_i . k_j        L_i = log sum_j exp(S_ij)        P_ij = exp(S_ij - L_i)
//   O_i  = sum_j P_ij v_j
//   D_i  = dO_i . O_i               dP_ij = dO_i . v_j               dS_ij = P_ij (dP_ij - D_i)
//   dQ_i = scale * sum_j dS_ij k_j  dK_j = scale * sum_i dS_ij q_i   dV_j = sum_i P_ij dO_i
//
// and with all that a problem may ask for besides (t_ij = tanh(scale * q_i . k_j / softcap), r_ij 0 or
// 1/(1-p), i' the query's position among the keys):
//
//   S_ij = softcap t_ij + bias_ij - slope |i' - j|
//   O_i  = sum_j r_ij P_ij v_j      dP_ij = r_ij dO_i . v_j          dV_j = sum_i r_ij P_ij dO_i
//   dS_ij (1 - t_ij^2) in the place of dS_ij in dQ and dK            dbias_ij = sum dS_ij
//
// A row of O, L and dQ is the work of one thread, then a row of dK and dV is, then a row of dbias. So
// no sum is shared between threads, and none depends on how many there are. Scores are computed
// wherever they are needed: that costs time, and saves both memory and reasoning.
#include "cpu/reference.h"

#include "cpu/dropout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A query row, and the keys of its sequence (without variable lengths: all keys).
typedef struct query {
    int64_t row;         // of [B][H][N]: its place in lse
    int64_t i, own;      // its number within its sequence, and the key position that it stands at
    int64_t first, keys; // its sequence's keys: the first one's row in the key head, and how many
    int64_t kv_head;     // of [B][H_kv]
    int64_t batch, head; // its sequence's number, with variable lengths
    const float *bias;   // of its first key; NULL: none
    const unsigned char *mask;
    double slope; // ALiBi's, 0 without
} query;

typedef struct call {
    const attn_problem *problem;
    const attn_inputs *in;
    double *o, *lse, *dq, *dk, *dv, *dbias;
    double *d; // D_i, [B][H][N]
    query *queries;
    attn_dropout drop;
} call;

static query query_of(const attn_problem *p, const attn_inputs *in, int64_t row) {
    query at = {.row = row, .keys = p->kv_len};
    const int64_t i = row % p->q_len, head = row / p->q_len % p->heads;
    const int64_t batch = row / p->q_len / p->heads;
    int64_t q_len = p->q_len;
    at.i = i, at.batch = batch, at.head = head;
    at.kv_head = batch * p->kv_heads + head / (p->heads / p->kv_heads);
    if (p->sequences != 0) {
        int64_t s = 0;
        while (i >= p->q_cumulative[s + 1]) s++;
        at.batch = s, at.i = i - p->q_cumulative[s];
        q_len = p->q_cumulative[s + 1] - p->q_cumulative[s];
        at.first = p->kv_cumulative[s];
        at.keys = p->kv_cumulative[s + 1] - p->kv_cumulative[s];
    }
    at.own = p->causal == ATTN_CAUSAL_TOP_LEFT ? at.i : at.i + at.keys - q_len;
    if (p->alibi) at.slope = exp2(-8.0 * (double)(head + 1) / (double)p->heads);
    if (p->bias_heads != 0) {
        const int64_t of =
            (p->bias_batch == 1 ? 0 : batch) * p->bias_heads + (p->bias_heads == 1 ? 0 : head);
        at.bias = in->bias + (of * p->q_len + i) * p->kv_len;
    }
    if (p->mask_heads != 0) {
        const int64_t of =
            (p->mask_batch == 1 ? 0 : batch) * p->mask_heads + (p->mask_heads == 1 ? 0 : head);
        at.mask = in->mask + (of * p->q_len + i) * p->kv_len;
    }
    return at;
}

// The definition in problem.h, word for word. j counts within the sequence, here and below.
static int sees(const attn_problem *problem, const query *at, int64_t j) {
    const int64_t own = at->own;
    if (problem->causal != ATTN_CAUSAL_OFF && j > own) return 0;
    if (problem->window_left != 0 && own - j >= problem->window_left) return 0;
    if (problem->window_right != 0 && j - own >= problem->window_right) return 0;
    return at->mask == NULL || at->mask[j] != 0;
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

// S_ij. *slope: what its derivative in scale * q_i . k_j is.
static double score(const call *call, const query *at, int64_t j, const float *q, const float *k,
                    double *slope) {
    const attn_problem *p = call->problem;
    double s = p->scale * dot(q, k, p->head_dim);
    *slope = 1;
    if (p->softcap != 0) {
        const double t = tanh(s / p->softcap);
        s = p->softcap * t, *slope = 1 - t * t;
    }
    if (at->bias != NULL) s += at->bias[j];
    if (at->slope != 0) s -= at->slope * fabs((double)(at->own - j));
    return s;
}

// What goes into a score, without signs.
static double score_terms(const call *call, const query *at, int64_t j, const float *q,
                          const float *k) {
    double terms = fabs((double)call->problem->scale) * dot_of_sizes(q, k, call->problem->head_dim);
    if (at->bias != NULL && isfinite(at->bias[j])) terms += fabs((double)at->bias[j]);
    return terms + at->slope * fabs((double)(at->own - j));
}

// What P_ij is multiplied with.
static double kept(const call *call, const query *at, int64_t j) {
    const attn_problem *p = call->problem;
    if (p->dropout == 0) return 1;
    const uint32_t head = (uint32_t)(at->batch * p->heads + at->head);
    return attn_dropout_factor(call->drop, head, (uint32_t)at->i, (uint32_t)j) == 0
               ? 0
               : 1 / (1 - (double)p->dropout);
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

// O, L and dQ of one query.
static void compute_query(const call *call, const query *at, attn_magnitudes *size) {
    const attn_problem *problem = call->problem;
    const attn_inputs *in = call->in;
    const int64_t d = problem->head_dim, row = at->row;
    const int64_t kv_row = at->kv_head * problem->kv_len + at->first;
    const float *q = in->q + row * d, *k = in->k + kv_row * d, *v = in->v + kv_row * d;
    double *o = call->o + row * d; // 0 so far
    double slope;

    int64_t seen = 0;
    double m = -INFINITY;
    for (int64_t j = 0; j < at->keys; j++) {
        if (!sees(problem, at, j)) continue;
        double s = score(call, at, j, q, k + j * d, &slope);
        if (s > m) m = s;
        seen++;
        raise_to(&size->s, fabs(s));
        raise_to(&size->s_terms, score_terms(call, at, j, q, k + j * d));
    }
    if (seen > size->keys) size->keys = seen;
    call->lse[row] = -INFINITY;
    if (in->d_o != NULL) call->d[row] = 0;
    if (seen == 0) return;

    // exp(s - m) cannot overflow. For a row of nothing but -inf s - m would be NaN, but its L is -inf.
    // A row with a score of +inf is NaN throughout, as in every softmax: no weight of it means anything.
    const double shift = m == -INFINITY ? 0 : m;
    double l = 0;
    for (int64_t j = 0; j < at->keys; j++) {
        if (!sees(problem, at, j)) continue;
        double weight = exp(score(call, at, j, q, k + j * d, &slope) - shift);
        l += weight; // of all of them: only what goes into O is dropped
        add_scaled(o, kept(call, at, j) * weight, v + j * d, d);
    }
    for (int64_t c = 0; c < d; c++) o[c] /= l;
    const double lse = call->lse[row] = shift + log(l);
    raise_to(&size->lse, fabs(lse));
    raise_to_sizes(&size->q, q, d);
    raise_to_drift(&size->drift[ATTN_RESULT_O], seen, o, d);

    if (in->d_o == NULL) return;
    const float *d_o = in->d_o + row * d;
    double *dq = call->dq + row * d;
    double d_i = 0, sum_ds = 0;
    for (int64_t c = 0; c < d; c++) d_i += d_o[c] * o[c];
    for (int64_t j = 0; j < at->keys; j++) {
        if (!sees(problem, at, j)) continue;
        double p = exp(score(call, at, j, q, k + j * d, &slope) - lse);
        double dp = kept(call, at, j) * dot(d_o, v + j * d, d);
        double ds = p * (dp - d_i);
        add_scaled(dq, problem->scale * slope * ds, k + j * d, d);
        sum_ds += p * (fabs(dp) + fabs(d_i));
        raise_to(&size->dp_terms, size->factor * dot_of_sizes(d_o, v + j * d, d));
    }
    call->d[row] = d_i;
    raise_to(&size->row_ds, sum_ds);
    raise_to_sizes(&size->d_o, d_o, d);
    raise_to_drift(&size->d_drift, seen, &d_i, 1);
    raise_to_drift(&size->drift[ATTN_RESULT_DQ], seen, dq, d);
}

// dK and dV of one key, after every query has its L and D. `row` counts through [B][H_kv][N_kv].
static void compute_key(const call *call, int64_t row, attn_magnitudes *size) {
    const attn_problem *problem = call->problem;
    const attn_inputs *in = call->in;
    const int64_t d = problem->head_dim, queries = problem->q_len;
    const int64_t own_row = row % problem->kv_len, kv_head = row / problem->kv_len;
    const int64_t shared_by = problem->heads / problem->kv_heads;
    const float *k = in->k + row * d, *v = in->v + row * d;
    double slope;

    int64_t seen_by = 0;
    double sum_p = 0, sum_ds = 0;
    for (int64_t head = kv_head * shared_by; head < (kv_head + 1) * shared_by; head++) {
        for (int64_t i = 0; i < queries; i++) {
            const query *at = &call->queries[head * queries + i];
            const int64_t j = own_row - at->first;
            if (j < 0 || j >= at->keys || !sees(problem, at, j)) continue; // another's sequence
            seen_by++;
            if (in->d_o == NULL) continue;

            const float *q = in->q + at->row * d, *d_o = in->d_o + at->row * d;
            double p = exp(score(call, at, j, q, k, &slope) - call->lse[at->row]);
            double r = kept(call, at, j);
            double dp = r * dot(d_o, v, d);
            double ds = p * (dp - call->d[at->row]);
            add_scaled(call->dv + row * d, r * p, d_o, d);
            add_scaled(call->dk + row * d, problem->scale * slope * ds, q, d);
            sum_p += p;
            sum_ds += p * (fabs(dp) + fabs(call->d[at->row]));
        }
    }
    if (seen_by == 0) return;
    if (seen_by > size->queries) size->queries = seen_by;
    raise_to_sizes(&size->k, k, d);
    raise_to_sizes(&size->v, v, d);
    if (in->d_o == NULL) return;
    raise_to_drift(&size->drift[ATTN_RESULT_DK], seen_by, call->dk + row * d, d);
    raise_to_drift(&size->drift[ATTN_RESULT_DV], seen_by, call->dv + row * d, d);
    raise_to(&size->column_p, size->factor * sum_p);
    raise_to(&size->column_ds, sum_ds);
}

// A row of dbias: its place in [bias_batch][bias_heads][N].
static void compute_bias(const call *call, int64_t row, attn_magnitudes *size) {
    const attn_problem *p = call->problem;
    const int64_t d = p->head_dim, i = row % p->q_len;
    const int64_t bias_head = row / p->q_len % p->bias_heads;
    const int64_t bias_batch = row / p->q_len / p->bias_heads;
    double *dbias = call->dbias + row * p->kv_len;
    double slope;
    for (int64_t j = 0; j < p->kv_len; j++) {
        double sum_p = 0, sum_ds = 0;
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t h = 0; h < p->heads; h++) {
                if ((p->bias_batch != 1 && b != bias_batch) ||
                    (p->bias_heads != 1 && h != bias_head))
                    continue;
                const query *at = &call->queries[(b * p->heads + h) * p->q_len + i];
                if (!sees(p, at, j)) continue;
                const int64_t kv_row = at->kv_head * p->kv_len + j;
                const float *q = call->in->q + at->row * d, *k = call->in->k + kv_row * d;
                double weight = exp(score(call, at, j, q, k, &slope) - call->lse[at->row]);
                double dp = kept(call, at, j) *
                            dot(call->in->d_o + at->row * d, call->in->v + kv_row * d, d);
                dbias[j] += weight * (dp - call->d[at->row]);
                sum_p += weight;
                sum_ds += weight * (fabs(dp) + fabs(call->d[at->row]));
            }
        raise_to(&size->bias_p, sum_p);
        raise_to(&size->bias_ds, sum_ds);
        raise_to_drift(&size->drift[ATTN_RESULT_DBIAS], (int64_t)size->bias_terms, &dbias[j], 1);
    }
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
    raise_to(&size->bias_p, other->bias_p);
    raise_to(&size->bias_ds, other->bias_ds);
}

// Those magnitudes that the problem alone determines.
static attn_magnitudes sizes_of(const attn_problem *p) {
    attn_magnitudes size = {.scale = fabs((double)p->scale), .head_dim = p->head_dim};
    size.softcap = p->softcap;
    size.factor = 1 / (1 - (double)p->dropout);
    // notes/precision.md counts them.
    size.s_steps = (p->softcap != 0 ? 7 : 0) + (p->alibi ? 8 : 0) + (p->bias_heads != 0 ? 1 : 0);
    size.bias_terms =
        (double)((p->bias_batch == 1 ? p->batch : 1) * (p->bias_heads == 1 ? p->heads : 1));
    return size;
}

static double *zeros(size_t count) { // never NULL for want of elements
    return calloc(count > 0 ? count : 1, sizeof(double));
}

attn_status attn_reference_compute(const attn_problem *problem, const attn_inputs *inputs,
                                   attn_reference *out) {
    memset(out, 0, sizeof *out);
    ATTN_TRY(attn_problem_check(problem));
    if ((problem->bias_heads != 0 && !inputs->bias) || (problem->mask_heads != 0 && !inputs->mask))
        return attn_error(ATTN_BAD_INPUT, "the problem has a %s, but its tensor is missing",
                          problem->bias_heads != 0 && !inputs->bias ? "bias" : "mask");

    const size_t q_elements = attn_q_elements(problem), kv_elements = attn_kv_elements(problem);
    const size_t bias_elements = problem->bias_gradient ? attn_bias_elements(problem) : 0;
    const int64_t rows = (int64_t)attn_rows(problem);
    const int64_t kv_rows = problem->batch * problem->kv_heads * problem->kv_len;
    const int64_t bias_rows =
        problem->bias_gradient ? problem->bias_batch * problem->bias_heads * problem->q_len : 0;
    const int backward = inputs->d_o != NULL;
    call call = {.problem = problem, .in = inputs, .drop = attn_dropout_of(problem)};
    call.o = out->o = zeros(q_elements);
    call.lse = out->lse = zeros(rows);
    call.queries = calloc((size_t)rows + 1, sizeof *call.queries);
    if (backward) {
        call.dq = out->dq = zeros(q_elements);
        call.dk = out->dk = zeros(kv_elements);
        call.dv = out->dv = zeros(kv_elements);
        call.d = zeros(rows);
        if (problem->bias_gradient) call.dbias = out->dbias = zeros(bias_elements);
    }
    if (!out->o || !out->lse || !call.queries ||
        (backward && (!out->dq || !out->dk || !out->dv || !call.d)) ||
        (backward && problem->bias_gradient && !out->dbias)) {
        free(call.d);
        free(call.queries);
        attn_reference_free(out);
        return attn_error(ATTN_NO_MEMORY,
                          "the reference's results in double precision need %.1f MB, more memory "
                          "than there is",
                          8e-6 * (backward ? 2.0 * q_elements + 2.0 * kv_elements + 2.0 * rows +
                                                 (double)bias_elements
                                           : (double)q_elements + rows));
    }

    out->size = sizes_of(problem);
#pragma omp parallel
    {
        attn_magnitudes size = sizes_of(problem);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) call.queries[row] = query_of(problem, inputs, row);
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < rows; row++) compute_query(&call, &call.queries[row], &size);
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < kv_rows; row++) compute_key(&call, row, &size);
#pragma omp for schedule(dynamic, 16)
        for (int64_t row = 0; row < (backward ? bias_rows : 0); row++)
            compute_bias(&call, row, &size);
#pragma omp critical
        raise_to_all(&out->size, &size);
    }
    free(call.d);
    free(call.queries);
    out->size.v *= out->size.factor; // as the weights have it: see attn_magnitudes
    return attn_ok();
}

void attn_reference_free(attn_reference *reference) {
    free(reference->o);
    free(reference->lse);
    free(reference->dq);
    free(reference->dk);
    free(reference->dv);
    free(reference->dbias);
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
    case ATTN_RESULT_DBIAS:
        return reference->dbias;
    }
    return NULL;
}

const char *attn_result_name(attn_result result) {
    static const char *const names[ATTN_RESULTS] = {"o", "lse", "dq", "dk", "dv", "dbias"};
    return names[result];
}
