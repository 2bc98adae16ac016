// compare.c -- see compare.h; the derivations are in notes/precision.md.
#include "cpu/compare.h"

#include <math.h>
#include <stdio.h>

static const double U = 0x1p-24;             // unit roundoff of fp32
static const double EXP_ERROR = 4 * 0x1p-24; // relative error of an expf or logf good to 2 ulp

// ---- the comparison ----

// The distance that counts: 0 when got will do, infinity when no allowance can excuse it.
static double distance(attn_result result, double got, double expected) {
    if (isfinite(expected)) return isfinite(got) ? fabs(got - expected) : INFINITY;
    if (result == ATTN_RESULT_LSE && expected == -INFINITY) return got == expected ? 0 : INFINITY;
    return isfinite(got) ? INFINITY : 0;
}

static attn_comparison start(attn_result result, const attn_problem *problem, double allowed) {
    const int of_keys = result == ATTN_RESULT_DK || result == ATTN_RESULT_DV;
    attn_comparison comparison = {.result = result, .allowed = allowed};
    comparison.rank = result == ATTN_RESULT_LSE ? 3 : 4;
    comparison.elements = result == ATTN_RESULT_LSE     ? attn_rows(problem)
                          : result == ATTN_RESULT_DBIAS ? attn_bias_elements(problem)
                          : of_keys                     ? attn_kv_elements(problem)
                                                        : attn_q_elements(problem);
    return comparison;
}

static void look_at(attn_comparison *comparison, uint64_t flat, double got, double expected,
                    double rounded) {
    double off = distance(comparison->result, got, expected);
    if (isfinite(off)) off = fmax(off - rounded, 0);
    const int allowance_is_one = isfinite(comparison->allowed) && comparison->allowed >= 0;
    if (!allowance_is_one || !(off <= comparison->allowed)) comparison->over++;
    if (flat == 0 || off > comparison->worst) {
        comparison->worst = off;
        comparison->flat = flat;
        comparison->got = got;
        comparison->expected = expected;
    }
}

static void finish(attn_comparison *comparison, const attn_problem *problem) {
    const int of_keys =
        comparison->result == ATTN_RESULT_DK || comparison->result == ATTN_RESULT_DV;
    const int of_bias = comparison->result == ATTN_RESULT_DBIAS;
    const int64_t heads = of_bias   ? problem->bias_heads
                          : of_keys ? problem->kv_heads
                                    : problem->heads;
    const int64_t columns = of_bias ? problem->kv_len : problem->head_dim;
    const int64_t length = of_keys ? problem->kv_len : problem->q_len;
    comparison->pass = comparison->over == 0;
    if (comparison->elements == 0) return;

    int64_t rest = (int64_t)comparison->flat;
    if (comparison->rank == 4) {
        comparison->index[3] = rest % columns;
        rest /= columns;
    }
    comparison->index[2] = rest % length;
    comparison->index[1] = rest / length % heads;
    comparison->index[0] = rest / length / heads;
}

attn_comparison attn_compare(attn_result result, const attn_problem *problem, const float *got,
                             const double *expected, double allowed) {
    attn_comparison comparison = start(result, problem, allowed);
    for (uint64_t flat = 0; flat < comparison.elements; flat++)
        look_at(&comparison, flat, got[flat], expected[flat], 0);
    finish(&comparison, problem);
    return comparison;
}

attn_comparison attn_compare_rounded(attn_result result, const attn_problem *problem,
                                     const float *got, const float *expected, double allowed) {
    attn_comparison comparison = start(result, problem, allowed);
    for (uint64_t flat = 0; flat < comparison.elements; flat++) {
        const double value = expected[flat];
        look_at(&comparison, flat, got[flat], value, fmax(U * fabs(value), 0x1p-150));
    }
    finish(&comparison, problem);
    return comparison;
}

void attn_comparison_describe(const attn_comparison *comparison, char *text, size_t size) {
    const attn_comparison *c = comparison;
    const char *name = attn_result_name(c->result);
    if (c->elements == 0) {
        snprintf(text, size, "%s: no elements", name);
        return;
    }
    char column[32] = "";
    if (c->rank == 4) snprintf(column, sizeof column, "[%lld]", (long long)c->index[3]);
    snprintf(text, size,
             "%s: worst %.2g at [%lld][%lld][%lld]%s (got %.9g, expected %.9g), allowed %.2g, %llu "
             "of %llu beyond",
             name, c->worst, (long long)c->index[0], (long long)c->index[1], (long long)c->index[2],
             column, c->got, c->expected, c->allowed, (unsigned long long)c->over,
             (unsigned long long)c->elements);
}

// ---- how far off a right result may be ----

// What can be lost below 2^-126, where fp32 has no more digits to give: each of the (at most) `terms`
// sums of products over d behind an element, and what it is then multiplied with.
static double underflow(attn_result result, const attn_magnitudes *size) {
    const double n = (double)size->keys, M = (double)size->queries;
    const double lost = 2 * ((double)size->head_dim + 1) * 0x1p-126;
    switch (result) {
    case ATTN_RESULT_O:
        return n * lost * (1 + size->v);
    case ATTN_RESULT_LSE:
        return n * lost * (1 + size->scale);
    case ATTN_RESULT_DQ:
        return n * lost * (1 + size->scale * size->k * (1 + size->dp_terms));
    case ATTN_RESULT_DK:
        return M * lost * (1 + size->scale * size->q * (1 + size->dp_terms));
    case ATTN_RESULT_DV:
        return M * lost * (1 + size->d_o);
    case ATTN_RESULT_DBIAS:
        return size->bias_terms * lost * (1 + size->dp_terms);
    }
    return 0;
}

// What tanh, squared and taken off 1, is off by, in dQ and dK, when the score before the cap is off by
// `score` and a few roundings are each at most u: absolutely, which is also of what it multiplies.
static double slope_error(const attn_magnitudes *size, double score) {
    return size->softcap > 0 ? 2 * (EXP_ERROR + 3 * U + score / size->softcap) + 3 * U : 0;
}

// What a sum of k terms, in any order, is off by at most: k u / (1 - k u) of the sum of sizes.
static double gamma_of(double k) {
    return k * U / (1 - k * U);
}

double attn_naive_bound(attn_result result, const attn_magnitudes *size) {
    const double n = (double)size->keys, M = (double)size->queries, d = (double)size->head_dim;

    const double score = gamma_of(d + 1 + size->s_steps) * size->s_terms; // of S_ij, absolutely
    const double weight = expm1(score + 2 * U * (size->s + score)) + EXP_ERROR; // of exp(S_ij - m)
    const double drop = size->factor > 1 ? 2 * U : 0; // the factor 1/(1-p), and multiplying with it
    const double o = 2 * weight + gamma_of(2 * n + 2) + drop; // of O, in parts of sum P |v|
    const double p = 2 * weight + gamma_of(n + 2) + drop;     // of P_ij
    const double slope = slope_error(size, score);
    const double dp =
        (gamma_of(2 * d + 2) + o + drop) * size->dp_terms; // of dP_ij - D_i, absolutely

    // P_ij (dP_ij - D_i) summed over a row or a column with `terms` terms.
    const double row = (p + slope + 2 * gamma_of(n + 3)) * size->row_ds + dp;
    const double column = (p + slope + 2 * gamma_of(M + 3)) * size->column_ds + dp * size->column_p;

    const double lost = underflow(result, size);
    switch (result) {
    case ATTN_RESULT_O:
        return o * size->v + lost;
    case ATTN_RESULT_LSE:
        return weight + gamma_of(n) + EXP_ERROR * log(fmax(n, 1)) + 2 * U * size->lse + lost;
    case ATTN_RESULT_DQ:
        return size->scale * size->k * row + lost;
    case ATTN_RESULT_DK:
        return size->scale * size->q * column + lost;
    case ATTN_RESULT_DV:
        return (p + gamma_of(M)) * size->d_o * size->column_p + lost;
    case ATTN_RESULT_DBIAS:
        return (p + 2 * gamma_of(size->bias_terms + 3)) * size->bias_ds + dp * size->bias_p + lost;
    }
    return 0;
}

// How far a dot product of d terms may be off, in units of 4 u times its terms. Summed in sequence, with
// terms of one sign, it rounds d times, each time up to u of a partial sum; three standard deviations
// of that are u sqrt(d). Naive need not show it: its compiler may have split the sum over SIMD lanes.
static double dot_roundings(const attn_magnitudes *size) {
    return fmax(1, sqrt((double)size->head_dim) / 4);
}

double attn_allowed(attn_result result, const attn_magnitudes *size, double naive_error) {
    const double naive = fmin(naive_error, attn_naive_bound(result, size)); // the bound for NaN
    const double times = result == ATTN_RESULT_O || result == ATTN_RESULT_LSE ? 2 : 3;
    const double dot = dot_roundings(size);
    // A weight of P is off by 4u of this, relatively; dS before the softcap's slope, too.
    const double weight = 1 + (dot + size->s_steps / 4) * size->s_terms;
    const double ds = weight + slope_error(size, 4 * U * dot * size->s_terms) / (4 * U);
    const double dp_terms = dot * size->dp_terms;
    const double k = size->scale * size->k, q = size->scale * size->q;
    double off = 0, drift = size->drift[result];
    switch (result) {
    case ATTN_RESULT_O:
        off = weight * size->v;
        break;
    case ATTN_RESULT_LSE:
        off = weight;
        break;
    case ATTN_RESULT_DQ:
        off = k * (ds * size->row_ds + dp_terms);
        drift += k * size->d_drift;
        break;
    case ATTN_RESULT_DK:
        off = q * (ds * size->column_ds + dp_terms * size->column_p);
        drift += q * size->d_drift * size->column_p;
        break;
    case ATTN_RESULT_DV:
        off = weight * size->d_o * size->column_p;
        break;
    case ATTN_RESULT_DBIAS:
        off = weight * size->bias_ds + dp_terms * size->bias_p;
        drift += size->d_drift * size->bias_p;
        break;
    }
    return times * naive + 4 * U * off + U * drift + underflow(result, size);
}
