// test_reference.c -- cpu/reference: against derivatives taken numerically, against PyTorch in
// float64, and where the answer can be worked out by hand.
#include "cpu/case.h"
#include "cpu/compare.h"
#include "cpu/dropout.h"
#include "cpu/random.h"
#include "tests/trial.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

Suite *reference_suite(void);

// ---- problems with their inputs ----------------------------------------------------------------------

typedef struct setup {
    attn_problem problem;
    float *q, *k, *v, *d_o, *bias; // bias and mask: NULL without
    unsigned char *mask;
    size_t q_count, kv_count, rows;
} setup;

// About normal, and multiples of 2^-10, so that adding a larger power of two to one is exact.
static float *coarse_normals(size_t count, uint64_t stream) {
    float *x = malloc((count + 1) * sizeof *x);
    for (size_t at = 0; at < count; at++)
        x[at] = nearbyintf(attn_normal(7, stream, at) * 1024) / 1024;
    return x;
}

static setup setup_of(attn_problem problem) {
    setup s = {.problem = problem};
    s.q_count = attn_q_elements(&problem);
    s.kv_count = attn_kv_elements(&problem);
    s.rows = attn_rows(&problem);
    s.q = coarse_normals(s.q_count, 0);
    s.k = coarse_normals(s.kv_count, 1);
    s.v = coarse_normals(s.kv_count, 2);
    s.d_o = coarse_normals(s.q_count, 3);
    if (problem.bias_heads != 0) s.bias = coarse_normals(attn_bias_elements(&problem), 4);
    if (problem.mask_heads != 0) {
        s.mask = malloc(attn_mask_elements(&problem) + 1);
        attn_input_fill_scores(3, &problem, NULL, s.mask);
    }
    return s;
}

static void setup_free(setup *s) {
    free(s->q), free(s->k), free(s->v), free(s->d_o), free(s->bias), free(s->mask);
}

static attn_inputs inputs_of(const setup *s) {
    return (attn_inputs){s->q, s->k, s->v, s->d_o, s->bias, s->mask};
}

static attn_reference compute(const setup *s) {
    attn_reference reference;
    const attn_inputs inputs = inputs_of(s);
    attn_status status = attn_reference_compute(&s->problem, &inputs, &reference);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    return reference;
}

static int same_bits(const double *a, const double *b, size_t count) {
    return memcmp(a, b, count * sizeof *a) == 0;
}

// ---- against finite differences ----------------------------------------------------------------------

static const int32_t packed_queries[] = {0, 2, 2, 5}, packed_keys[] = {0, 3, 4, 6};

enum { DIFFERENTIATED = 22 };

static attn_problem differentiated(int i) {
    attn_problem p = attn_problem_of(5, 6, 3);
    switch (i) {
    case 0:
        break;
    case 1:
        p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        break;
    case 2:
        p.causal = ATTN_CAUSAL_TOP_LEFT;
        break;
    case 3: // the first queries see nothing
        p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        p.q_len = 6, p.kv_len = 4;
        break;
    case 4:
        p.batch = 2, p.heads = 4, p.kv_heads = 2;
        break;
    case 5:
        p.heads = 3, p.kv_heads = 1, p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        break;
    case 6:
        p.causal = ATTN_CAUSAL_BOTTOM_RIGHT, p.window_left = 2;
        break;
    case 7:
        p.window_left = 3, p.window_right = 2;
        break;
    case 8:
        p.scale = -0.7f;
        break;
    case 9:
        p.scale = 0;
        break;
    case 10:
        p.q_len = 1, p.kv_len = 1, p.head_dim = 11;
        break;
    case 11: // saturating for some scores, not for others
        p.softcap = 1;
        break;
    case 12:
        p.heads = 3, p.kv_heads = 3, p.alibi = 1;
        break;
    case 13:
        p.batch = 2, p.heads = 4, p.kv_heads = 2;
        p.bias_batch = 2, p.bias_heads = 4, p.bias_gradient = 1;
        break;
    case 14:
        p.batch = 2, p.heads = 4, p.kv_heads = 2, p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        p.bias_batch = 1, p.bias_heads = 4, p.bias_gradient = 1;
        break;
    case 15:
        p.batch = 2, p.heads = 2, p.kv_heads = 2, p.bias_batch = 2, p.bias_heads = 1;
        p.bias_gradient = 1, p.softcap = 2;
        break;
    case 16:
        p.batch = 2, p.heads = 2, p.kv_heads = 1, p.mask_batch = 1, p.mask_heads = 2;
        break;
    case 17:
        p.batch = 2, p.heads = 2, p.kv_heads = 1, p.dropout = 0.4f, p.dropout_seed = 11;
        break;
    case 18:
        p.sequences = 3, p.q_cumulative = packed_queries, p.kv_cumulative = packed_keys;
        p.heads = 2, p.kv_heads = 1;
        break;
    case 19:
        p.sequences = 3, p.q_cumulative = packed_queries, p.kv_cumulative = packed_keys;
        p.causal = ATTN_CAUSAL_BOTTOM_RIGHT, p.alibi = 1, p.dropout = 0.3f;
        break;
    case 20:
        p.sequences = 3, p.q_cumulative = packed_queries, p.kv_cumulative = packed_keys;
        p.causal = ATTN_CAUSAL_TOP_LEFT, p.window_left = 2, p.softcap = 3;
        break;
    case 21: // everything that goes together
        p.batch = 2, p.heads = 2, p.kv_heads = 1, p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        p.window_left = 4, p.softcap = 1.5f, p.alibi = 1, p.dropout = 0.2f;
        p.bias_batch = 1, p.bias_heads = 1, p.bias_gradient = 1;
        p.mask_batch = 2, p.mask_heads = 1;
        break;
    }
    return p;
}

static double loss(const setup *s) { // sum(O * dO)
    attn_reference reference;
    attn_inputs inputs = inputs_of(s);
    inputs.d_o = NULL;
    attn_reference_compute(&s->problem, &inputs, &reference);
    double sum = 0;
    for (size_t at = 0; at < s->q_count; at++) sum += reference.o[at] * s->d_o[at];
    attn_reference_free(&reference);
    return sum;
}

// The slope of the loss in x, by central differences: the error is O(h^4).
static double slope(const setup *s, float *x) {
    const float h = 0x1p-9f, here = *x;
    double f[4];
    const int steps[4] = {-2, -1, 1, 2};
    for (int t = 0; t < 4; t++) {
        *x = here + (float)steps[t] * h;
        f[t] = loss(s);
    }
    *x = here;
    return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * (double)h);
}

static void check_slopes(const setup *s, float *x, const double *gradient, size_t count,
                         const char *name) {
    for (size_t at = 0; at < count; at++) {
        double expected = slope(s, &x[at]);
        ck_assert_msg(fabs(gradient[at] - expected) <= 1e-8 * (1 + fabs(expected)),
                      "%s[%zu] is %.12g, the finite difference %.12g", name, at, gradient[at],
                      expected);
    }
}

START_TEST(gradients_are_finite_differences) {
    setup s = setup_of(differentiated(_i));
    attn_reference reference = compute(&s);
    check_slopes(&s, s.q, reference.dq, s.q_count, "dq");
    check_slopes(&s, s.k, reference.dk, s.kv_count, "dk");
    check_slopes(&s, s.v, reference.dv, s.kv_count, "dv");
    ck_assert_int_eq(reference.dbias != NULL, s.problem.bias_gradient);
    if (reference.dbias)
        check_slopes(&s, s.bias, reference.dbias, attn_bias_elements(&s.problem), "dbias");
    attn_reference_free(&reference);
    setup_free(&s);
}
END_TEST

// ---- against PyTorch ---------------------------------------------------------------------------------

// What PyTorch rounded to fp32 is met within that rounding. Scales that are no power of two were
// doubles there and are floats here, which moves every score by up to u|S|: that is what the first
// order terms of attn_allowed are for.
static void check_golden(const char *folder) {
    attn_case golden;
    attn_status status = attn_case_load(folder, &golden);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    ck_assert(golden.o && golden.lse && golden.d_o && golden.dq && golden.dk && golden.dv);

    attn_reference reference;
    const attn_inputs inputs = attn_case_inputs(&golden);
    status = attn_reference_compute(&golden.problem, &inputs, &reference);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);

    int exponent;
    const int same_scale = fabs(frexp(golden.problem.scale, &exponent)) == 0.5;
    const float *expected[ATTN_RESULTS] = {golden.o,  golden.lse, golden.dq,
                                           golden.dk, golden.dv,  golden.dbias};
    ck_assert_int_eq(golden.problem.bias_gradient, golden.dbias != NULL);
    for (int at = 0; at < ATTN_RESULTS && expected[at]; at++) {
        const attn_result r = (attn_result)at;
        const double *got = attn_reference_result(&reference, r);
        const double slack = same_scale ? 1e-12 : attn_allowed(r, &reference.size, 0);
        for (size_t e = 0; e < test_output_elements(&golden.problem, r); e++) {
            const double value = expected[r][e];
            ck_assert_msg(got[e] == value || fabs(got[e] - value) <= 0x1p-24 * fabs(value) + slack,
                          "%s: %s[%zu] is %.12g, PyTorch says %.9g", folder, attn_result_name(r), e,
                          got[e], value);
        }
    }
    attn_reference_free(&reference);
    attn_case_free(&golden);
}

START_TEST(pytorch_agrees) {
    DIR *folder = opendir("tests/golden");
    ck_assert_msg(folder != NULL, "tests/golden: not found from the working directory");
    int cases = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strchr(entry->d_name, '.') != NULL)
            continue; // README.md, the script and the folder itself
        char path[512];
        snprintf(path, sizeof path, "tests/golden/%s", entry->d_name);
        check_golden(path);
        cases++;
    }
    closedir(folder);
    ck_assert_int_ge(cases, 28);
}
END_TEST

// ---- by hand -----------------------------------------------------------------------------------------

START_TEST(one_key_gives_its_value) {
    setup s = setup_of(attn_problem_of(4, 1, 5));
    attn_reference reference = compute(&s);
    for (size_t e = 0; e < s.q_count; e++) {
        ck_assert_double_eq(reference.o[e], s.v[e % 5]);
        ck_assert_double_eq(reference.dq[e], 0); // P is 1 whatever the score
    }
    for (int i = 0; i < 4; i++) {
        double score = 0;
        for (int c = 0; c < 5; c++) score += (double)s.q[5 * i + c] * s.k[c];
        ck_assert_double_eq_tol(reference.lse[i], s.problem.scale * score, 1e-14);
    }
    for (int c = 0; c < 5; c++) {
        double sum = 0;
        for (int i = 0; i < 4; i++) sum += s.d_o[5 * i + c];
        ck_assert_double_eq(reference.dv[c], sum);
    }
    attn_reference_free(&reference);
    setup_free(&s);
}
END_TEST

START_TEST(equal_scores_give_the_mean) {
    setup s = setup_of(attn_problem_of(3, 10, 4));
    for (size_t e = 0; e < s.q_count; e++) s.q[e] = 1;
    for (size_t e = 0; e < s.kv_count; e++) s.k[e] = 0.25f;
    attn_reference reference = compute(&s);
    for (int c = 0; c < 4; c++) {
        double mean = 0;
        for (int j = 0; j < 10; j++) mean += s.v[4 * j + c] / 10.0;
        for (int i = 0; i < 3; i++) ck_assert_double_eq_tol(reference.o[4 * i + c], mean, 1e-14);
    }
    for (int i = 0; i < 3; i++) // S = 4 * 1 * 0.25 * scale
        ck_assert_double_eq_tol(reference.lse[i], s.problem.scale + log(10), 1e-14);
    attn_reference_free(&reference);
    setup_free(&s);
}
END_TEST

// Scores far beyond what exp can take: the maximum comes off first.
START_TEST(huge_scores_do_not_overflow) {
    attn_problem problem = attn_problem_of(1, 2, 1);
    problem.scale = 1;
    const float q[] = {1e6f}, k[] = {1, 2}, v[] = {3, 5};
    attn_reference reference;
    const attn_inputs inputs = {.q = q, .k = k, .v = v};
    ck_assert_int_eq(attn_reference_compute(&problem, &inputs, &reference).code, ATTN_OK);
    ck_assert_double_eq(reference.o[0], 5);
    ck_assert_double_eq(reference.lse[0], 2e6);
    ck_assert_ptr_null(reference.dq);
    attn_reference_free(&reference);
}
END_TEST

START_TEST(empty_problems_have_an_answer) {
    const int64_t sizes[][3] = {{0, 3, 3}, {1, 0, 3}, {1, 3, 0}, {0, 0, 0}};
    for (int t = 0; t < 4; t++) {
        attn_problem problem = attn_problem_of(sizes[t][1], sizes[t][2], 2);
        problem.batch = sizes[t][0];
        setup s = setup_of(problem);
        attn_reference reference = compute(&s);
        for (size_t e = 0; e < s.rows; e++) ck_assert_double_eq(reference.lse[e], -INFINITY);
        for (size_t e = 0; e < s.q_count; e++) ck_assert_double_eq(reference.o[e], 0);
        for (size_t e = 0; e < s.q_count; e++) ck_assert_double_eq(reference.dq[e], 0);
        for (size_t e = 0; e < s.kv_count; e++) ck_assert_double_eq(reference.dk[e], 0);
        for (size_t e = 0; e < s.kv_count; e++) ck_assert_double_eq(reference.dv[e], 0);
        attn_reference_free(&reference);
        setup_free(&s);
    }
}
END_TEST

// ---- what is not seen, and what is ---------------------------------------------------------------------

// Query rows and key rows that nobody meets may hold anything.
static void check_unseen_is_ignored(attn_problem problem, int unseen_queries,
                                    int unseen_keys_from) {
    setup s = setup_of(problem);
    const int64_t d = problem.head_dim;
    attn_reference clean = compute(&s);
    for (int e = 0; e < unseen_queries * d; e++) s.q[e] = s.d_o[e] = NAN;
    for (size_t e = (size_t)(unseen_keys_from * d); e < s.kv_count; e++) {
        s.k[e] = e % 2 ? NAN : INFINITY;
        s.v[e] = e % 2 ? -INFINITY : NAN;
    }
    attn_reference dirty = compute(&s);
    ck_assert(same_bits(clean.o, dirty.o, s.q_count));
    ck_assert(same_bits(clean.lse, dirty.lse, s.rows));
    ck_assert(same_bits(clean.dq, dirty.dq, s.q_count));
    ck_assert(same_bits(clean.dk, dirty.dk, s.kv_count));
    ck_assert(same_bits(clean.dv, dirty.dv, s.kv_count));
    for (int i = 0; i < unseen_queries; i++) ck_assert_double_eq(dirty.lse[i], -INFINITY);
    for (int e = 0; e < unseen_queries * d; e++) ck_assert(dirty.o[e] == 0 && dirty.dq[e] == 0);
    for (size_t e = (size_t)(unseen_keys_from * d); e < s.kv_count; e++)
        ck_assert(dirty.dk[e] == 0 && dirty.dv[e] == 0);
    attn_reference_free(&clean);
    attn_reference_free(&dirty);
    setup_free(&s);
}

START_TEST(what_is_not_seen_contributes_nothing) {
    attn_problem bottom_right = attn_problem_of(7, 3, 4); // queries 0 to 3 see nothing
    bottom_right.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    check_unseen_is_ignored(bottom_right, 4, 3);

    attn_problem top_left = attn_problem_of(3, 8, 4); // keys 3 to 7 are seen by nobody
    top_left.causal = ATTN_CAUSAL_TOP_LEFT;
    check_unseen_is_ignored(top_left, 0, 3);

    attn_problem window = attn_problem_of(9, 4, 4); // own position i - 5, keys from there to + 1
    window.window_left = 1;
    window.window_right = 2;
    check_unseen_is_ignored(window, 4, 4);
}
END_TEST

// A NaN in key 2 reaches the queries that see it, and no other.
START_TEST(nan_reaches_who_sees_it) {
    attn_problem problem = attn_problem_of(5, 5, 3);
    problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    setup s = setup_of(problem);
    attn_reference clean = compute(&s);
    s.k[2 * 3] = NAN;
    attn_reference dirty = compute(&s);
    ck_assert(same_bits(clean.o, dirty.o, 2 * 3));
    ck_assert(same_bits(clean.dq, dirty.dq, 2 * 3));
    for (int e = 2 * 3; e < 5 * 3; e++) ck_assert(isnan(dirty.o[e]) && isnan(dirty.dq[e]));
    for (int i = 2; i < 5; i++) ck_assert(isnan(dirty.lse[i]));
    ck_assert(isfinite(dirty.size.s) && dirty.size.s > 0);
    attn_reference_free(&clean);
    attn_reference_free(&dirty);
    setup_free(&s);
}
END_TEST

START_TEST(infinity_in_v_reaches_its_column) {
    setup s = setup_of(attn_problem_of(2, 4, 3));
    attn_reference clean = compute(&s);
    s.v[1 * 3 + 2] = INFINITY;
    attn_reference dirty = compute(&s);
    for (int i = 0; i < 2; i++) {
        ck_assert_double_eq(dirty.o[3 * i + 2], INFINITY);
        ck_assert(same_bits(&clean.o[3 * i], &dirty.o[3 * i], 2));
    }
    ck_assert(same_bits(clean.lse, dirty.lse, 2));
    ck_assert(isfinite(dirty.size.v)); // one infinity does not excuse every error
    attn_reference_free(&clean);
    attn_reference_free(&dirty);
    setup_free(&s);
}
END_TEST

START_TEST(scores_of_minus_infinity) {
    attn_problem problem = attn_problem_of(1, 2, 1);
    const float q[] = {1}, all[] = {-INFINITY, -INFINITY}, one[] = {-INFINITY, 2}, v[] = {3, 4};
    attn_reference reference;
    attn_inputs inputs = {.q = q, .k = all, .v = v};
    attn_reference_compute(&problem, &inputs, &reference);
    ck_assert(isnan(reference.o[0]));
    ck_assert_double_eq(reference.lse[0], -INFINITY);
    attn_reference_free(&reference);
    inputs.k = one;
    attn_reference_compute(&problem, &inputs, &reference);
    ck_assert_double_eq(reference.o[0], 4);
    ck_assert_double_eq(reference.lse[0], 2);
    attn_reference_free(&reference);
}
END_TEST

// The mask, pair by pair: with v_j = 2^j and equal scores, O tells which keys a query saw.
START_TEST(each_query_sees_the_keys_it_should) {
    static const struct {
        int q_len, kv_len, causal, left, right;
        const char *seen; // a row a query, 1 for each key seen
    } masks[] = {
        {2, 3, ATTN_CAUSAL_OFF, 0, 0, "111 111"},
        {3, 3, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, "100 110 111"},
        {2, 4, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, "1110 1111"},
        {2, 4, ATTN_CAUSAL_TOP_LEFT, 0, 0, "1000 1100"},
        {4, 2, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, "00 00 10 11"},
        {4, 2, ATTN_CAUSAL_TOP_LEFT, 0, 0, "10 11 11 11"},
        {4, 4, ATTN_CAUSAL_BOTTOM_RIGHT, 2, 0, "1000 1100 0110 0011"},
        {2, 4, ATTN_CAUSAL_BOTTOM_RIGHT, 2, 0, "0110 0011"},
        {2, 4, ATTN_CAUSAL_TOP_LEFT, 1, 0, "1000 0100"},
        {4, 4, ATTN_CAUSAL_OFF, 1, 2, "1100 0110 0011 0001"},
        {4, 4, ATTN_CAUSAL_OFF, 2, 1, "1000 1100 0110 0011"},
        {3, 3, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 3, "100 110 111"},
    };
    for (size_t t = 0; t < sizeof masks / sizeof *masks; t++) {
        attn_problem problem = attn_problem_of(masks[t].q_len, masks[t].kv_len, 1);
        problem.causal = (attn_causal)masks[t].causal;
        problem.window_left = masks[t].left;
        problem.window_right = masks[t].right;
        const float q[4] = {0}, k[4] = {0}, v[4] = {1, 2, 4, 8};
        attn_reference reference;
        const attn_inputs inputs = {.q = q, .k = k, .v = v};
        attn_reference_compute(&problem, &inputs, &reference);
        const char *seen = masks[t].seen;
        for (int i = 0; i < masks[t].q_len; i++, seen++) {
            double sum = 0, keys = 0;
            for (int j = 0; j < masks[t].kv_len; j++, seen++)
                if (*seen == '1') sum += v[j], keys++;
            ck_assert_msg(fabs(reference.o[i] - (keys > 0 ? sum / keys : 0)) < 1e-14,
                          "mask %zu, query %d", t, i);
            ck_assert_double_eq_tol(exp(reference.lse[i]), keys, 1e-14);
        }
        attn_reference_free(&reference);
    }
}
END_TEST

// Query head h reads key head h / 2: copying the key heads out must change nothing.
START_TEST(grouped_heads_are_heads_copied) {
    attn_problem grouped = attn_problem_of(3, 5, 2), plain;
    grouped.batch = 2, grouped.heads = 4, grouped.kv_heads = 2;
    plain = grouped;
    plain.kv_heads = 4;
    setup a = setup_of(grouped), b = setup_of(plain);
    const size_t head = 5 * 2;
    for (size_t h = 0; h < 8; h++) {
        memcpy(b.k + h * head, a.k + h / 2 * head, head * sizeof(float));
        memcpy(b.v + h * head, a.v + h / 2 * head, head * sizeof(float));
    }
    attn_reference one = compute(&a), other = compute(&b);
    ck_assert(same_bits(one.o, other.o, a.q_count));
    ck_assert(same_bits(one.dq, other.dq, a.q_count));
    for (size_t e = 0; e < a.kv_count; e++) { // gradients of shared heads add up
        size_t first = e / head * 2 * head + e % head;
        ck_assert_double_eq_tol(one.dk[e], other.dk[first] + other.dk[first + head], 1e-13);
        ck_assert_double_eq_tol(one.dv[e], other.dv[first] + other.dv[first + head], 1e-13);
    }
    ck_assert_int_eq(one.size.queries, 2 * 3);
    ck_assert_int_eq(other.size.queries, 3);
    attn_reference_free(&one);
    attn_reference_free(&other);
    setup_free(&a);
    setup_free(&b);
}
END_TEST

// ---- the rest of the promise -----------------------------------------------------------------------------

START_TEST(threads_change_nothing) {
#ifdef _OPENMP
    attn_problem problem = attn_problem_of(70, 90, 24);
    problem.heads = 2;
    problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    setup s = setup_of(problem);
    omp_set_num_threads(1);
    attn_reference one = compute(&s);
    for (int threads = 2; threads <= 5; threads += 3) {
        omp_set_num_threads(threads);
        attn_reference many = compute(&s);
        ck_assert(same_bits(one.o, many.o, s.q_count));
        ck_assert(same_bits(one.lse, many.lse, s.rows));
        ck_assert(same_bits(one.dq, many.dq, s.q_count));
        ck_assert(same_bits(one.dk, many.dk, s.kv_count));
        ck_assert(same_bits(one.dv, many.dv, s.kv_count));
        ck_assert_int_eq(memcmp(&one.size, &many.size, sizeof one.size), 0);
        attn_reference_free(&many);
    }
    attn_reference_free(&one);
    setup_free(&s);
#endif
}
END_TEST

// One query that sees two keys, with S = 1 and -3.
START_TEST(magnitudes_by_hand) {
    attn_problem problem = attn_problem_of(1, 2, 1);
    problem.scale = -0.5f;
    problem.kv_len = 3;
    problem.window_right = 1; // own position 2, which sees up to itself
    problem.window_left = 2;  // and not key 0, whose size must not count
    const float q[] = {-2}, k[] = {1e9f, 1, -3}, v[] = {-1e9f, 5, -7}, d_o[] = {11};
    attn_reference reference;
    const attn_inputs inputs = {.q = q, .k = k, .v = v, .d_o = d_o};
    attn_reference_compute(&problem, &inputs, &reference);
    const attn_magnitudes *size = &reference.size;
    const double p = 1 / (1 + exp(-4)), o = 5 * p - 7 * (1 - p);
    ck_assert_double_eq(size->scale, 0.5);
    ck_assert_int_eq(size->head_dim, 1);
    ck_assert_int_eq(size->keys, 2);
    ck_assert_int_eq(size->queries, 1);
    ck_assert_double_eq(size->s, 3);
    ck_assert_double_eq(size->s_terms, 3);
    ck_assert_double_eq_tol(size->lse, 1 + log(1 + exp(-4)), 1e-14);
    ck_assert_double_eq(size->q, 2);
    ck_assert_double_eq(size->k, 3);
    ck_assert_double_eq(size->v, 7);
    ck_assert_double_eq(size->d_o, 11);
    ck_assert_double_eq(size->dp_terms, 77);
    ck_assert_double_eq_tol(size->column_p, p, 1e-14);
    ck_assert_double_eq_tol(size->row_ds, p * 55 + (1 - p) * 77 + 11 * o, 1e-12);
    ck_assert_double_eq_tol(size->column_ds, p * (55 + 11 * o), 1e-12);
    ck_assert_double_eq_tol(size->drift[ATTN_RESULT_O], 2 * o, 1e-13);
    ck_assert_double_eq_tol(size->drift[ATTN_RESULT_DV], 11 * p, 1e-13);
    ck_assert_double_eq_tol(size->d_drift, 2 * 11 * o, 1e-12);
    attn_reference_free(&reference);
}
END_TEST

static void check_refused(attn_problem problem, attn_code code, const char *word) {
    const float x[4] = {0};
    attn_reference reference;
    const attn_inputs inputs = {.q = x, .k = x, .v = x, .d_o = x};
    attn_status status = attn_reference_compute(&problem, &inputs, &reference);
    ck_assert_int_eq(status.code, code);
    ck_assert_msg(strstr(status.text, word) != NULL, "\"%s\" does not say %s", status.text, word);
    ck_assert(!reference.o && !reference.lse && !reference.dq && !reference.dk && !reference.dv);
    attn_reference_free(&reference);
}

START_TEST(what_it_does_not_do_is_refused) {
    const attn_problem plain = attn_problem_of(2, 2, 1);
    attn_problem problem = plain;
    problem.scale = NAN;
    check_refused(problem, ATTN_BAD_INPUT, "scale");
    problem = plain;
    problem.bias_batch = problem.bias_heads = 1;
    check_refused(problem, ATTN_BAD_INPUT, "has a bias, but its tensor is missing");
    problem = plain;
    problem.mask_batch = problem.mask_heads = 1;
    check_refused(problem, ATTN_BAD_INPUT, "has a mask, but its tensor is missing");
}
END_TEST

Suite *reference_suite(void) {
    Suite *suite = suite_create("reference");
    TCase *tests = tcase_create("reference");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, gradients_are_finite_differences, 0, DIFFERENTIATED);
    tcase_add_test(tests, pytorch_agrees);
    tcase_add_test(tests, one_key_gives_its_value);
    tcase_add_test(tests, equal_scores_give_the_mean);
    tcase_add_test(tests, huge_scores_do_not_overflow);
    tcase_add_test(tests, empty_problems_have_an_answer);
    tcase_add_test(tests, what_is_not_seen_contributes_nothing);
    tcase_add_test(tests, nan_reaches_who_sees_it);
    tcase_add_test(tests, infinity_in_v_reaches_its_column);
    tcase_add_test(tests, scores_of_minus_infinity);
    tcase_add_test(tests, each_query_sees_the_keys_it_should);
    tcase_add_test(tests, grouped_heads_are_heads_copied);
    tcase_add_test(tests, threads_change_nothing);
    tcase_add_test(tests, magnitudes_by_hand);
    tcase_add_test(tests, what_it_does_not_do_is_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
