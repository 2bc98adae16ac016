// test_variation.c -- what differs from run to run is seen, and by how many bits; what does not, isn't.
#include "cpu/runner.h"
#include "tests/harness.h"

#include <math.h>
#include <string.h>

Suite *variation_suite(void);

// ---- distances -------------------------------------------------------------------------------------------
static float after(float x, int steps) {
    for (; steps > 0; steps--) x = nextafterf(x, INFINITY);
    for (; steps < 0; steps++) x = nextafterf(x, -INFINITY);
    return x;
}

static attn_variation of_two(const float *first, const float *second, size_t elements) {
    attn_variation_watch watch = {.runs = 0};
    ck_assert_int_eq(attn_variation_add(&watch, first, elements).code, ATTN_OK);
    ck_assert_int_eq(attn_variation_add(&watch, second, elements).code, ATTN_OK);
    const attn_variation variation = attn_variation_of(&watch);
    attn_variation_free(&watch);
    return variation;
}

static void expect_distance(float a, float b, uint64_t distance, int bits) {
    const attn_variation there = of_two(&a, &b, 1), back = of_two(&b, &a, 1);
    ck_assert_msg(there.most == distance && back.most == distance && there.half_bits == bits &&
                      there.differing == (distance > 0),
                  "%.9g and %.9g are %llu and %llu apart in %d bits, expected %llu in %d", a, b,
                  (unsigned long long)there.most, (unsigned long long)back.most, there.half_bits,
                  (unsigned long long)distance, bits);
}

START_TEST(distances_count_the_numbers_between) {
    expect_distance(1, 1, 0, 0);
    expect_distance(1, after(1, 1), 1, 1);
    expect_distance(1, after(1, -1), 1, 1); // across a power of two
    expect_distance(-3, after(-3, 2), 2, 2);
    expect_distance(1e-30f, after(1e-30f, 7), 7, 3);
    expect_distance(1e30f, after(1e30f, 8), 8, 4);
    expect_distance(after(0, 3), after(0, -2), 5, 3); // across zero
    expect_distance(1, 2, 1 << 23, 24);
    expect_distance(0.0f, -0.0f, 1, 1); // the same number, and not the same bits
    expect_distance(-INFINITY, -INFINITY, 0, 0);
    expect_distance(NAN, NAN, 0, 0);
    expect_distance(0, NAN, 0x7fc00000u, 31);
    ck_assert_uint_eq(attn_distance_bits(0), 0);
    ck_assert_uint_eq(attn_distance_bits(3), 2);
    ck_assert_uint_eq(attn_distance_bits(4), 3);
    ck_assert_uint_eq(attn_distance_bits(1ull << 31), 32);
}
END_TEST

// Ten elements; in the later runs some differ from the first, each at its own distance.
START_TEST(elements_count_once_with_their_largest_distance) {
    attn_variation_watch watch = {.runs = 0};
    const float first[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, -10};
    static const int steps[3][10] = {{0, 1, 0, 9, 0, 9, 0, 0, 0, 0},
                                     {0, 5, 0, 0, 0, -2, 0, 0, 0, 0},
                                     {0, 0, 0, -1, 0, 0, 1, 0}};
    attn_variation_add(&watch, first, 10);
    for (int run = 0; run < 3; run++) {
        float now[10];
        for (int i = 0; i < 10; i++) now[i] = after(first[i], steps[run][i]);
        ck_assert_int_eq(attn_variation_add(&watch, now, 10).code, ATTN_OK);
    }
    const attn_variation v = attn_variation_of(&watch); // distances 5, 9, 9 and 1
    ck_assert_int_eq(v.runs, 4);
    ck_assert_uint_eq(v.elements, 10);
    ck_assert_uint_eq(v.differing, 4);
    ck_assert_uint_eq(v.most, 9);
    ck_assert_int_eq(v.half_bits, 3);
    ck_assert(v.apart == 9 * ldexp(1, -21)); // 4 and 6 have their last place there
    ck_assert(v.largest == 10);
    attn_variation_free(&watch);
}
END_TEST

START_TEST(nothing_never_differs) {
    const float none = 0;
    const attn_variation v = of_two(&none, &none, 0);
    ck_assert_int_eq(v.runs, 2);
    ck_assert_uint_eq(v.elements + v.differing + v.most + (uint64_t)v.half_bits, 0);
    ck_assert(v.apart == 0 && v.largest == 0);
}
END_TEST

// ---- a run ------------------------------------------------------------------------------------------------
// A stage whose dq is one more in the last place from run to run, where asked for; all else is the same. It
// knows one problem, of 3 queries, 2 keys and 4 columns, where o and do have rows of 5.
enum { QUERIES = 3, KEYS = 2, COLUMNS = 4, O_ROW = 5 };
static int runs_forward, runs_backward, differs;
static uint64_t counted; // passes since the last reset

static attn_status forward(const attn_problem *problem, const attn_tensors *t,
                           void *const *buffer) {
    (void)buffer;
    for (int i = 0; i < QUERIES; i++)
        memcpy((float *)t->o + O_ROW * i, (const float *)t->q + COLUMNS * i,
               COLUMNS * sizeof(float));
    for (size_t i = 0; i < attn_rows(problem); i++) t->lse[i] = 1;
    runs_forward++, counted++;
    return attn_ok();
}

static attn_status backward(const attn_problem *problem, const attn_tensors *t,
                            void *const *buffer) {
    (void)buffer;
    float *dq = t->dq;
    for (int i = 0; i < QUERIES; i++)
        memcpy(dq + COLUMNS * i, (const float *)t->d_o + O_ROW * i, COLUMNS * sizeof(float));
    memcpy(t->dbias, t->bias, sizeof(float) * attn_bias_elements(problem));
    memcpy(t->dk, t->k, sizeof(float) * attn_kv_elements(problem));
    memcpy(t->dv, t->v, sizeof(float) * attn_kv_elements(problem));
    if (differs) dq[1] = after(dq[1], runs_backward);
    runs_backward++, counted++;
    return attn_ok();
}

// The host with no clock, as the emulator, and with a counter.
static void reset_traffic(void) {
    counted = 0;
}
static void traffic(attn_traffic *bytes) {
    bytes->count = 0;
    attn_traffic_add(bytes, "q", counted, 0);
}

static attn_run run_it(int repeats, int compared, int emulated) {
    static const attn_stage stage = {.name = "counts-runs",
                                     .features =
                                         ATTN_HAS_STRIDES | ATTN_HAS_BIAS | ATTN_HAS_BIAS_GRADIENT,
                                     .forward = forward,
                                     .backward = backward};
    float q[12] = {1, 2, 3}, k[8] = {4, 5}, v[8] = {6, 7}, d_o[12] = {8, 9}, bias[6] = {10};
    attn_device device = *attn_host_device();
    attn_module module = {.device = &device};
    const attn_loaded_stage row = {&module, &stage};
    attn_problem problem = attn_problem_of(QUERIES, KEYS, COLUMNS);
    problem.bias_batch = problem.bias_heads = problem.bias_gradient = 1;
    problem.o_stride = (attn_stride){QUERIES * O_ROW, QUERIES * O_ROW, O_ROW};
    const attn_inputs inputs = {.q = q, .k = k, .v = v, .d_o = d_o, .bias = bias};
    attn_run run;
    if (emulated) {
        device.timer_start = NULL, device.timer_stop = NULL;
        device.reset_traffic = reset_traffic, device.traffic = traffic;
    }
    runs_forward = runs_backward = 0;
    const attn_status status = compared ? attn_run_repeated(&row, &problem, &inputs, repeats, &run)
                                        : attn_run_stage(&row, &problem, &inputs, repeats, &run);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    return run;
}

START_TEST(a_stage_that_repeats_itself_is_seen_to) {
    attn_run run = run_it(200, 1, 0);
    ck_assert_int_eq(runs_forward, 200);
    ck_assert_int_eq(runs_backward, 200);
    static const uint64_t elements[ATTN_RESULTS] = {12, 3, 12, 8, 8, 6};
    for (int r = 0; r < ATTN_RESULTS; r++) {
        ck_assert_int_eq(run.variation[r].runs, 200);
        ck_assert_uint_eq(run.variation[r].elements, elements[r]);
        ck_assert_uint_eq(run.variation[r].differing, 0);
    }
    ck_assert(run.seconds[0] > 0 && run.seconds[1] > 0);
    attn_run_free(&run);
}
END_TEST

START_TEST(a_stage_that_differs_is_seen_to) {
    differs = 1;
    for (int emulated = 0; emulated < 2; emulated++) {
        attn_run run = run_it(21, 1, emulated);
        for (int r = 0; r < ATTN_RESULTS; r++)
            ck_assert_uint_eq(run.variation[r].differing, r == ATTN_RESULT_DQ);
        const attn_variation *dq = &run.variation[ATTN_RESULT_DQ];
        ck_assert_int_eq(dq->runs, 21);
        ck_assert_uint_eq(dq->most, 20);
        ck_assert_int_eq(dq->half_bits, 5);
        ck_assert(run.out.dq[1] == after(9, 20)); // the last run's
        attn_run_free(&run);
    }
}
END_TEST

// Without a clock there is nothing to repeat for, unless runs are compared; bytes are those of one run.
START_TEST(runs_are_as_many_as_are_asked_for) {
    static const struct {
        int repeats, compared, emulated, expected;
    } cases[] = {{7, 0, 0, 7}, {7, 0, 1, 1},       {7, 1, 1, 7},      {0, 0, 0, 1},
                 {0, 1, 0, 1}, {1000, 1, 0, 1000}, {1001, 0, 0, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn_run run = run_it(cases[i].repeats, cases[i].compared, cases[i].emulated);
        ck_assert_int_eq(runs_forward, cases[i].expected);
        ck_assert_int_eq(runs_backward, cases[i].expected);
        ck_assert_int_eq(run.variation[ATTN_RESULT_DK].runs,
                         cases[i].compared ? cases[i].expected : 0);
        ck_assert_uint_eq(attn_traffic_total(&run.traffic[1]).read, cases[i].emulated);
        attn_run_free(&run);
    }
}
END_TEST

Suite *variation_suite(void) {
    Suite *suite = suite_create("variation");
    TCase *tests = tcase_create("variation");
    tcase_add_test(tests, distances_count_the_numbers_between);
    tcase_add_test(tests, elements_count_once_with_their_largest_distance);
    tcase_add_test(tests, nothing_never_differs);
    tcase_add_test(tests, a_stage_that_repeats_itself_is_seen_to);
    tcase_add_test(tests, a_stage_that_differs_is_seen_to);
    tcase_add_test(tests, runs_are_as_many_as_are_asked_for);
    suite_add_tcase(suite, tests);
    return suite;
}
