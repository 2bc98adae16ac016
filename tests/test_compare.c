// test_compare.c -- cpu/compare: what passes, what fails and what it says; and that the allowances are
// wide enough for two right versions and ten times too narrow for broken ones.
#include "cpu/compare.h"
#include "tests/rounding.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *compare_suite(void);

// Four rows of one element: enough for all that is not about places.
static attn_comparison compare4(attn_result result, const float got[4], const double expected[4],
                                double allowed) {
    const attn_problem problem = attn_problem_of(4, 4, 1);
    return attn_compare(result, &problem, got, expected, allowed);
}

START_TEST(equal_passes) {
    const float got[4] = {1, 2, 3, 4};
    const double expected[4] = {1, 2, 3, 4};
    attn_comparison c = compare4(ATTN_RESULT_O, got, expected, 0);
    ck_assert(c.pass && c.over == 0 && c.elements == 4 && c.worst == 0);
}
END_TEST

START_TEST(the_boundary_is_inside) {
    const float got[4] = {1, 2, 3, 4};
    const double expected[4] = {1, 2.25, 3, 4};
    ck_assert(compare4(ATTN_RESULT_O, got, expected, 0.25).pass);
    attn_comparison c = compare4(ATTN_RESULT_O, got, expected, nextafter(0.25, 0));
    ck_assert(!c.pass && c.over == 1 && c.worst == 0.25 && c.flat == 1);
}
END_TEST

START_TEST(zeros_have_no_sign) {
    const float got[4] = {-0.0f, 0.0f, -0.0f, 0.0f};
    const double expected[4] = {0.0, -0.0, -0.0, 0.0};
    ck_assert(compare4(ATTN_RESULT_O, got, expected, 0).pass);
}
END_TEST

// What one value does where another is expected, at an allowance that excuses any finite distance.
START_TEST(nan_and_infinity) {
    const float inf = INFINITY;
    const struct {
        attn_result result;
        float got;
        double expected;
        int pass;
    } pairs[] = {
        {ATTN_RESULT_O, NAN, 1, 0},
        {ATTN_RESULT_O, inf, 1, 0},
        {ATTN_RESULT_O, -inf, 1, 0},
        {ATTN_RESULT_LSE, NAN, 1, 0},
        {ATTN_RESULT_LSE, -inf, 1, 0},
        {ATTN_RESULT_O, 1, NAN, 0},
        {ATTN_RESULT_O, 0, INFINITY, 0},
        {ATTN_RESULT_O, 0, -INFINITY, 0},
        {ATTN_RESULT_O, NAN, NAN, 1},
        {ATTN_RESULT_O, NAN, INFINITY, 1},
        {ATTN_RESULT_O, inf, NAN, 1},
        {ATTN_RESULT_O, inf, -INFINITY, 1},
        {ATTN_RESULT_LSE, -inf, -INFINITY, 1},
        {ATTN_RESULT_LSE, NAN, -INFINITY, 0},
        {ATTN_RESULT_LSE, inf, -INFINITY, 0},
        {ATTN_RESULT_LSE, -1e30f, -INFINITY, 0},
        {ATTN_RESULT_LSE, NAN, INFINITY, 1},
        {ATTN_RESULT_DK, NAN, 0, 0},
    };
    for (size_t t = 0; t < sizeof pairs / sizeof *pairs; t++) {
        const float got[4] = {1, 1, pairs[t].got, 1};
        const double expected[4] = {1, 1, pairs[t].expected, 1};
        attn_comparison c = compare4(pairs[t].result, got, expected, 1e300);
        ck_assert_msg(c.pass == pairs[t].pass, "got %g, expected %g", pairs[t].got,
                      pairs[t].expected);
        ck_assert_int_eq(c.over, !pairs[t].pass);
        if (!pairs[t].pass) ck_assert(c.worst == INFINITY && c.flat == 2);
        if (pairs[t].pass) ck_assert(c.worst == 0);
    }
}
END_TEST

START_TEST(no_allowance_is_no_pass) {
    const float got[4] = {1, 2, 3, 4};
    const double expected[4] = {1, 2, 3, 4};
    ck_assert_int_eq(compare4(ATTN_RESULT_O, got, expected, NAN).over, 4);
    ck_assert_int_eq(compare4(ATTN_RESULT_O, got, expected, INFINITY).over, 4);
    ck_assert_int_eq(compare4(ATTN_RESULT_O, got, expected, -1).over, 4);
}
END_TEST

START_TEST(the_first_of_the_worst_is_named) {
    const float got[4] = {1, NAN, INFINITY, 9};
    const double expected[4] = {1, 2, 3, 4};
    attn_comparison c = compare4(ATTN_RESULT_O, got, expected, 1);
    ck_assert(c.flat == 1 && c.over == 3 && isnan(c.got) && c.expected == 2);
}
END_TEST

// Every element in turn is the only wrong one, and its place is found.
START_TEST(places_are_decoded) {
    attn_problem problem = attn_problem_of(3, 5, 7);
    problem.batch = 2, problem.heads = 4, problem.kv_heads = 2;
    problem.bias_batch = 2, problem.bias_heads = 4;
    for (int at = 0; at < ATTN_RESULTS; at++) {
        const attn_result r = (attn_result)at;
        const int of_keys = r == ATTN_RESULT_DK || r == ATTN_RESULT_DV;
        const int64_t heads = of_keys ? 2 : 4, rows = of_keys ? 5 : 3;
        const int64_t columns = r == ATTN_RESULT_LSE ? 1 : r == ATTN_RESULT_DBIAS ? 5 : 7;
        const int64_t count = 2 * heads * rows * columns;
        float *got = calloc((size_t)count, sizeof *got);
        double *expected = calloc((size_t)count, sizeof *expected);
        int64_t flat = 0;
        for (int64_t b = 0; b < 2; b++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t c = 0; c < columns; c++, flat++) {
                        got[flat] = 0.5f;
                        attn_comparison found = attn_compare(r, &problem, got, expected, 0.25);
                        got[flat] = 0;
                        ck_assert_uint_eq(found.elements, (uint64_t)count);
                        ck_assert(!found.pass && found.over == 1 && found.worst == 0.5);
                        ck_assert_uint_eq(found.flat, (uint64_t)flat);
                        ck_assert_int_eq(found.rank, r == ATTN_RESULT_LSE ? 3 : 4);
                        ck_assert(found.index[0] == b && found.index[1] == h);
                        ck_assert(found.index[2] == i && found.index[3] == c);
                    }
        free(got);
        free(expected);
    }
}
END_TEST

START_TEST(nothing_to_compare_passes) {
    attn_problem problem = attn_problem_of(0, 4, 8);
    attn_comparison c = attn_compare(ATTN_RESULT_O, &problem, NULL, NULL, 0);
    char line[200];
    ck_assert(c.pass && c.elements == 0);
    attn_comparison_describe(&c, line, sizeof line);
    ck_assert_str_eq(line, "o: no elements");
}
END_TEST

START_TEST(the_line) {
    attn_problem problem = attn_problem_of(2, 2, 3);
    problem.heads = 2;
    problem.kv_heads = 2;
    float got[12] = {0};
    double expected[12] = {0};
    got[10] = 0.5f, expected[10] = 0.25, got[3] = NAN;
    char line[200];

    attn_comparison c = attn_compare(ATTN_RESULT_DQ, &problem, got, expected, 1e-6);
    attn_comparison_describe(&c, line, sizeof line);
    ck_assert_str_eq(line,
                     "dq: worst inf at [0][0][1][0] (got nan, expected 0), allowed 1e-06, 2 of "
                     "12 beyond");
    got[3] = 0;
    c = attn_compare(ATTN_RESULT_DV, &problem, got, expected, 0.5);
    attn_comparison_describe(&c, line, sizeof line);
    ck_assert_str_eq(line,
                     "dv: worst 0.25 at [0][1][1][1] (got 0.5, expected 0.25), allowed 0.5, 0 "
                     "of 12 beyond");
    c = attn_compare(ATTN_RESULT_LSE, &problem, got, expected, 0.5);
    attn_comparison_describe(&c, line, sizeof line);
    ck_assert_str_eq(line, "lse: worst 0 at [0][0][0] (got 0, expected 0), allowed 0.5, 0 of 4 "
                           "beyond");
}
END_TEST

// 1 + 2^-24 rounds to 1: a result of the value before rounding's neighbour must not be blamed for it.
START_TEST(rounded_expectations) {
    const attn_problem problem = attn_problem_of(3, 1, 1);
    const float got[3] = {1 + 0x1p-23f, 0, -4}, expected[3] = {1, 0, -4};
    attn_comparison c = attn_compare_rounded(ATTN_RESULT_O, &problem, got, expected, 0x1p-24);
    ck_assert(c.pass && c.worst == 0x1p-24 && c.flat == 0);
    c = attn_compare_rounded(ATTN_RESULT_O, &problem, got, expected, nextafter(0x1p-24, 0));
    ck_assert(!c.pass && c.over == 1);

    const float low[3] = {-INFINITY, NAN, 1}, none[3] = {-INFINITY, -INFINITY, NAN};
    c = attn_compare_rounded(ATTN_RESULT_LSE, &problem, low, none, 1);
    ck_assert(!c.pass && c.over == 2 && c.flat == 1);
}
END_TEST

// ---- the allowances ------------------------------------------------------------------------------------

// A problem with one query and one key whose magnitudes are all plain numbers.
static const attn_magnitudes plain = {.scale = 2,
                                      .head_dim = 1,
                                      .keys = 1,
                                      .queries = 1,
                                      .s = 3,
                                      .s_terms = 4,
                                      .lse = 3,
                                      .q = 5,
                                      .k = 7,
                                      .v = 11,
                                      .d_o = 13,
                                      .dp_terms = 17,
                                      .column_p = 19,
                                      .row_ds = 23,
                                      .column_ds = 29,
                                      .factor = 1,
                                      .bias_terms = 6,
                                      .bias_p = 31,
                                      .bias_ds = 37};

START_TEST(the_formula) {
    const double e = 1e-9, u = 0x1p-24; // e: below every bound
    const double expected[ATTN_RESULTS] = {
        2 * e + 4 * u * (1 + 4) * 11,
        2 * e + 4 * u * (1 + 4),
        3 * e + 4 * u * 2 * 7 * ((1 + 4) * 23 + 17),
        3 * e + 4 * u * 2 * 5 * ((1 + 4) * 29 + 17 * 19),
        3 * e + 4 * u * (1 + 4) * 13 * 19,
        3 * e + 4 * u * ((1 + 4) * 37 + 17 * 31),
    };
    for (int r = 0; r < ATTN_RESULTS; r++) {
        double allowed = attn_allowed((attn_result)r, &plain, e);
        ck_assert_msg(fabs(allowed - expected[r]) <= 1e-12 * expected[r], "%s: %g, expected %g",
                      attn_result_name((attn_result)r), allowed, expected[r]);
    }
}
END_TEST

// What features add: roundings of the score, and the slope of the softcap in dQ and dK.
START_TEST(the_formula_with_features) {
    attn_magnitudes size = plain;
    size.s_steps = 8, size.softcap = 2;
    const double u = 0x1p-24, weight = 1 + (1 + 2) * 4;
    const double slope = 2 * (7 * u + 4 * u * 4 / 2) + 3 * u;
    const double dq = 4 * u * 2 * 7 * (weight * 23 + 17) + slope * 2 * 7 * 23;
    ck_assert_double_eq_tol(attn_allowed(ATTN_RESULT_DQ, &size, 0), dq, 1e-12 * dq);
    ck_assert_double_eq_tol(attn_allowed(ATTN_RESULT_LSE, &size, 0), 4 * u * weight, 1e-18);
    // Naive's bound grows with each of them; dropout's factor rounds twice.
    double bound[ATTN_RESULTS];
    for (int r = 0; r < ATTN_RESULTS; r++) {
        bound[r] = attn_naive_bound((attn_result)r, &size);
        ck_assert_double_gt(bound[r], attn_naive_bound((attn_result)r, &plain));
    }
    size.factor = 2;
    ck_assert_double_eq_tol(attn_naive_bound(ATTN_RESULT_O, &size),
                            bound[ATTN_RESULT_O] + 2 * u * 11, 1e-18);
    ck_assert_double_eq(attn_naive_bound(ATTN_RESULT_LSE, &size), bound[ATTN_RESULT_LSE]);
}
END_TEST

// What `plain` is too plain for: a dot product of many terms, sums that drift, what underflows.
START_TEST(the_terms_beside_it) {
    attn_magnitudes size = plain;
    const double u = 0x1p-24;
    size.head_dim = 1024; // sqrt(1024) / 4 = 8 roundings
    size.drift[ATTN_RESULT_O] = 31, size.drift[ATTN_RESULT_DQ] = 37,
    size.drift[ATTN_RESULT_DK] = 41;
    size.drift[ATTN_RESULT_DV] = 43, size.drift[ATTN_RESULT_DBIAS] = 53, size.d_drift = 47;
    const double expected[ATTN_RESULTS] = {
        4 * u * (1 + 32) * 11 + u * 31,
        4 * u * (1 + 32),
        4 * u * 2 * 7 * ((1 + 32) * 23 + 8 * 17) + u * (37 + 2 * 7 * 47),
        4 * u * 2 * 5 * ((1 + 32) * 29 + 8 * 17 * 19) + u * (41 + 2 * 5 * 47 * 19),
        4 * u * (1 + 32) * 13 * 19 + u * 43,
        4 * u * ((1 + 32) * 37 + 8 * 17 * 31) + u * (53 + 47 * 31),
    };
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const double allowed = attn_allowed((attn_result)r, &size, 0);
        ck_assert_msg(fabs(allowed - expected[r]) <= 1e-12 * expected[r], "%s: %g, expected %g",
                      attn_result_name((attn_result)r), allowed, expected[r]);
    }
    // Nothing but what is lost below 2^-126: twice in each of head_dim + 1 roundings.
    const attn_magnitudes tiny = {
        .scale = 2, .head_dim = 3, .keys = 5, .queries = 7, .q = 11, .k = 13, .bias_terms = 17};
    ck_assert_double_eq(attn_allowed(ATTN_RESULT_DQ, &tiny, 0), 5 * 8 * 0x1p-126 * (1 + 2 * 13));
    ck_assert_double_eq(attn_allowed(ATTN_RESULT_DK, &tiny, 0), 7 * 8 * 0x1p-126 * (1 + 2 * 11));
    ck_assert_double_eq(attn_naive_bound(ATTN_RESULT_O, &tiny), 5 * 8 * 0x1p-126);
    ck_assert_double_eq(attn_naive_bound(ATTN_RESULT_DV, &tiny), 7 * 8 * 0x1p-126);
    ck_assert_double_eq(attn_allowed(ATTN_RESULT_DBIAS, &tiny, 0), 17 * 8 * 0x1p-126);
}
END_TEST

// Naive's bound, worked out for each result from the number of its roundings (notes/precision.md).
START_TEST(the_bound) {
    attn_magnitudes size = plain;
    size.keys = 8, size.queries = 6, size.head_dim = 4;
    const double u = 0x1p-24;
#define ROUNDINGS(k) ((k)*u / (1 - (k)*u))
    const double score = ROUNDINGS(5) * 4;
    const double weight = exp(score + 2 * u * (3 + score)) - 1 + 4 * u;
    const double o = 2 * weight + ROUNDINGS(18), p = 2 * weight + ROUNDINGS(10);
    const double dp = (ROUNDINGS(10) + o) * 17;
    const double expected[ATTN_RESULTS] = {
        o * 11,
        weight + ROUNDINGS(8) + 4 * u * log(8) + 2 * u * 3,
        2 * 7 * ((p + 2 * ROUNDINGS(11)) * 23 + dp),
        2 * 5 * ((p + 2 * ROUNDINGS(9)) * 29 + dp * 19),
        (p + ROUNDINGS(6)) * 13 * 19,
        (p + 2 * ROUNDINGS(9)) * 37 + dp * 31,
    };
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const double bound = attn_naive_bound((attn_result)r, &size);
        ck_assert_msg(fabs(bound - expected[r]) <= 1e-8 * expected[r], "%s: %g, expected %g",
                      attn_result_name((attn_result)r), bound, expected[r]);
    }
}
END_TEST

START_TEST(a_broken_naive_licenses_nothing) {
    for (int at = 0; at < ATTN_RESULTS; at++) {
        const attn_result r = (attn_result)at;
        const double most = attn_allowed(r, &plain, attn_naive_bound(r, &plain));
        ck_assert(isfinite(most) && most > attn_allowed(r, &plain, 0));
        ck_assert_double_eq(attn_allowed(r, &plain, 1e10), most);
        ck_assert_double_eq(attn_allowed(r, &plain, INFINITY), most);
        ck_assert_double_eq(attn_allowed(r, &plain, NAN), most);
    }
}
END_TEST

// Two right versions: naive within its bound, the other within its allowance.
START_TEST(right_versions_are_let_through) {
    const input_kind kind = (input_kind)_i;
    for (int i = 0; i < PROBLEMS; i++) {
        attn_problem problem = problem_of(i);
        ratios ratio = measure(&problem, kind, 3, BUG_NONE);
        for (int r = 0; r < ATTN_RESULTS; r++) {
            const char *name = attn_result_name((attn_result)r);
            ck_assert_msg(ratio.naive[r] <= 1, "%s, problem %d: naive's %s is %.2f of its bound",
                          kind_name(kind), i, name, ratio.naive[r]);
            ck_assert_msg(ratio.online[r] <= 1, "%s, problem %d: %s is %.2f of what is allowed",
                          kind_name(kind), i, name, ratio.online[r]);
        }
    }
}
END_TEST

// A broken version is ten times beyond what a stage may be off by, and what naive may, on some input.
START_TEST(broken_versions_are_caught_tenfold) {
    double allowance = 0, bound = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        attn_problem problem = problem_of(i);
        ratios ratio = measure(&problem, KIND_NORMAL, 3, (bug)_i);
        for (int r = 0; r < ATTN_RESULTS; r++) {
            allowance = fmax(allowance, ratio.online[r]);
            bound = fmax(bound, ratio.bound[r]);
        }
    }
    ck_assert_msg(allowance >= 10, "%s: %.2g times what is allowed", bug_name((bug)_i), allowance);
    ck_assert_msg(bound >= 10, "%s: %.2g times naive's bound", bug_name((bug)_i), bound);
}
END_TEST

Suite *compare_suite(void) {
    Suite *suite = suite_create("compare");
    TCase *tests = tcase_create("compare");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, equal_passes);
    tcase_add_test(tests, the_boundary_is_inside);
    tcase_add_test(tests, zeros_have_no_sign);
    tcase_add_test(tests, nan_and_infinity);
    tcase_add_test(tests, no_allowance_is_no_pass);
    tcase_add_test(tests, the_first_of_the_worst_is_named);
    tcase_add_test(tests, places_are_decoded);
    tcase_add_test(tests, nothing_to_compare_passes);
    tcase_add_test(tests, the_line);
    tcase_add_test(tests, rounded_expectations);
    tcase_add_test(tests, the_formula);
    tcase_add_test(tests, the_formula_with_features);
    tcase_add_test(tests, the_terms_beside_it);
    tcase_add_test(tests, the_bound);
    tcase_add_test(tests, a_broken_naive_licenses_nothing);
    tcase_add_loop_test(tests, right_versions_are_let_through, 0, KINDS);
    tcase_add_loop_test(tests, broken_versions_are_caught_tenfold, 1, BUGS);
    suite_add_tcase(suite, tests);
    return suite;
}
