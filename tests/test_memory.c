// test_memory.c -- what a run asks for, what is kept between its passes, and how long a sequence may be,
// against closed forms.
#include "cpu/memory.h"
#include "tests/harness.h"

#include <math.h>
#include <string.h>

Suite *memory_suite(void);

// ---- two stages that are never run: one keeps P, the other L ------------------------------------------
static int quadratic_buffers(const attn_problem *problem, attn_pass pass,
                             attn_buffer need[ATTN_MAX_BUFFERS]) {
    const uint64_t bytes = 4 * attn_score_elements(problem);
    const attn_buffer scores[2] = {{"s", bytes, 0}, {"p", bytes, pass == ATTN_FORWARD}};
    memcpy(need, scores, sizeof scores);
    return 2;
}

static int linear_buffers(const attn_problem *problem, attn_pass pass,
                          attn_buffer need[ATTN_MAX_BUFFERS]) {
    const attn_buffer delta = {"delta", 4 * attn_rows(problem), 0};
    need[0] = delta;
    return pass == ATTN_BACKWARD;
}

static void reads_nothing_kept(const attn_problem *problem, attn_pass pass, attn_traffic *traffic) {
    attn_traffic_add(traffic, "lse", 0, pass == ATTN_FORWARD ? 4 * attn_rows(problem) : 0);
}

static void reads_lse(const attn_problem *problem, attn_pass pass, attn_traffic *traffic) {
    const uint64_t lse = 4 * attn_rows(problem);
    // Read many times, kept once.
    attn_traffic_add(traffic, "lse", pass == ATTN_BACKWARD ? 7 * lse : 0,
                     pass == ATTN_FORWARD ? lse : 0);
}

static attn_status not_run(const attn_problem *problem, const attn_tensors *tensors,
                           void *const *buffer) {
    (void)problem, (void)tensors, (void)buffer;
    return attn_error(ATTN_DEVICE, "nobody runs this");
}

static const attn_stage keeps_p = {.name = "keeps-p",
                                   .buffers = quadratic_buffers,
                                   .forward = not_run,
                                   .backward = not_run,
                                   .bytes = reads_nothing_kept};
static const attn_stage keeps_l = {.name = "keeps-l",
                                   .buffers = linear_buffers,
                                   .forward = not_run,
                                   .backward = not_run,
                                   .bytes = reads_lse};
static const attn_stage forward_alone = {.name = "forward-alone",
                                         .forward = not_run,
                                         .bytes = reads_nothing_kept};

static attn_problem problem_of(int64_t batch, int64_t heads, int64_t kv_heads, int64_t d) {
    attn_problem problem = attn_problem_of(1, 1, d);
    problem.batch = batch, problem.heads = heads, problem.kv_heads = kv_heads;
    return problem;
}

// ---- what is kept ---------------------------------------------------------------------------------------
START_TEST(what_is_kept_is_p_or_lse) {
    attn_problem problem = problem_of(2, 6, 3, 64);
    char names[64];
    problem.q_len = 100, problem.kv_len = 70;
    ck_assert_uint_eq(attn_kept_bytes(&keeps_p, &problem, names, sizeof names),
                      4 * 2 * 6 * 100 * 70);
    ck_assert_str_eq(names, "p");
    ck_assert_uint_eq(attn_kept_bytes(&keeps_l, &problem, names, sizeof names), 4 * 2 * 6 * 100);
    ck_assert_str_eq(names, "lse");
    ck_assert_uint_eq(attn_kept_bytes(&forward_alone, &problem, names, sizeof names), 0);
    ck_assert_str_eq(names, "");
    attn_stage both = keeps_p;
    both.bytes = reads_lse;
    ck_assert_uint_eq(attn_kept_bytes(&both, &problem, names, sizeof names), 4 * 2 * 6 * 100 * 71);
    ck_assert_str_eq(names, "p, lse");
    ck_assert_uint_eq(attn_kept_bytes(&both, &problem, NULL, 0), 4 * 2 * 6 * 100 * 71);
}
END_TEST

// ---- how long a sequence may be --------------------------------------------------------------------------
// Of N queries and keys: q, o, do, dq and k, v, dk, dv, then lse; and the buffers, 4 N^2 or N a head.
static double bytes_of(const attn_problem *p, double n, int copies, int quadratic) {
    const double heads = (double)(p->batch * p->heads), kv_heads = (double)(p->batch * p->kv_heads);
    const double tensors = 4 * n * (4 * (heads + kv_heads) * (double)p->head_dim + heads);
    return copies * tensors + 4 * heads * (quadratic ? 4 * n * n : n);
}

static int64_t closed_form(const attn_problem *p, double bytes, int copies, int quadratic) {
    const double b = bytes_of(p, 1, copies, 0) - bytes_of(p, 1, 0, 0); // the tensors', a query
    const double a = 16 * (double)(p->batch * p->heads);
    if (!quadratic) return (int64_t)floor(bytes / bytes_of(p, 1, copies, 0));
    return (int64_t)floor((sqrt(b * b + 4 * a * bytes) - b) / (2 * a));
}

START_TEST(the_longest_sequence_is_the_closed_form) {
    static const int64_t shapes[][4] = {{1, 1, 1, 64},
                                        {1, 4, 4, 64},
                                        {8, 32, 8, 128},
                                        {3, 5, 1, 1}};
    static const double memory[] = {1e6, 24e9, 80e9, 123456789012.0};
    for (int s = 0; s < 4; s++)
        for (int m = 0; m < 4; m++)
            for (int copies = 1; copies <= 2; copies++) {
                const attn_problem p =
                    problem_of(shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3]);
                ck_assert_int_eq(attn_longest_that_fits(&keeps_p, &p, 1, memory[m], copies),
                                 closed_form(&p, memory[m], copies, 1));
                ck_assert_int_eq(attn_longest_that_fits(&keeps_l, &p, 1, memory[m], copies),
                                 closed_form(&p, memory[m], copies, 0));
            }
    // 1 head of d = 64: 65 fp32 numbers a query forward, and none besides.
    const attn_problem one = problem_of(1, 1, 1, 64);
    ck_assert_int_eq(attn_longest_that_fits(&forward_alone, &one, 0, 4 * 257 * 1000, 1), 1000);
}
END_TEST

START_TEST(one_byte_less_is_one_query_less) {
    const attn_problem p = problem_of(2, 4, 2, 32);
    for (int64_t n = 1; n < 100000; n = 3 * n + 1)
        for (int quadratic = 0; quadratic < 2; quadratic++) {
            const attn_stage *stage = quadratic ? &keeps_p : &keeps_l;
            const double bytes = bytes_of(&p, (double)n, 2, quadratic);
            ck_assert_int_eq(attn_longest_that_fits(stage, &p, 1, bytes, 2), n);
            ck_assert_int_eq(attn_longest_that_fits(stage, &p, 1, bytes - 1, 2), n - 1);
        }
    ck_assert_int_eq(attn_longest_that_fits(&keeps_p, &p, 1, 0, 1), 0);
    ck_assert_int_eq(attn_longest_that_fits(&keeps_l, &p, 1, 1e30, 1), ATTN_LONGEST);
}
END_TEST

// What strides leave free counts where they are given, but they are of one length.
START_TEST(the_longest_sequence_is_contiguous) {
    const attn_problem p = problem_of(2, 4, 2, 32);
    attn_problem rows_outside = p;
    rows_outside.q_stride = rows_outside.o_stride = (attn_stride){4 * 32, 32, 4 * 32};
    rows_outside.k_stride = rows_outside.v_stride = (attn_stride){2 * 32, 32, 2 * 32};
    ck_assert_int_gt(attn_longest_that_fits(&keeps_p, &p, 1, 1e9, 1), 1);
    ck_assert_int_eq(attn_longest_that_fits(&keeps_p, &rows_outside, 1, 1e9, 1),
                     attn_longest_that_fits(&keeps_p, &p, 1, 1e9, 1));
    const int32_t cumulative[] = {0, 1};
    attn_problem packed = problem_of(1, 4, 2, 32);
    packed.sequences = 1, packed.q_cumulative = packed.kv_cumulative = cumulative;
    ck_assert_int_eq(attn_longest_that_fits(&keeps_p, &packed, 1, 1e9, 1), 0);
}
END_TEST

// A bias and a mask of N^2 elements shorten it.
START_TEST(the_longest_sequence_with_a_bias) {
    attn_problem p = problem_of(2, 4, 4, 32);
    p.bias_batch = 2, p.bias_heads = 1, p.bias_gradient = 1, p.mask_batch = 1, p.mask_heads = 4;
    for (int64_t n = 1; n < 10000; n = 3 * n + 1)
        for (int backward = 0; backward < 2; backward++) {
            const double square = (double)(n * n), rows = 2 * 4 * (double)n;
            const double dense =
                4 * rows * ((backward ? 8 : 4) * 32 + 1) + (backward ? 4 * rows : 0); // delta
            const double bytes = dense + 4 * (backward ? 4 : 2) * square + 4 * square;
            ck_assert_int_eq(attn_longest_that_fits(&keeps_l, &p, backward, bytes, 1), n);
            ck_assert_int_eq(attn_longest_that_fits(&keeps_l, &p, backward, bytes - 1, 1), n - 1);
        }
}
END_TEST

// ---- the tensors of a run --------------------------------------------------------------------------------
START_TEST(all_tensors_are_counted) {
    attn_problem p = problem_of(2, 4, 2, 8);
    p.q_len = 10, p.kv_len = 7;
    const double q = 2 * 4 * 10 * 8, kv = 2 * 2 * 7 * 8, rows = 2 * 4 * 10;
    ck_assert_double_eq(attn_run_memory(&forward_alone, &p, 0).tensors,
                        4 * (2 * q + 2 * kv + rows));
    ck_assert_double_eq(attn_run_memory(&forward_alone, &p, 1).tensors,
                        4 * (4 * q + 4 * kv + rows));
    p.bias_batch = 1, p.bias_heads = 4, p.mask_batch = 2, p.mask_heads = 1;
    const double bias = 4 * 10 * 7, mask = 2 * 10 * 7; // fp32, bytes
    ck_assert_double_eq(attn_run_memory(&forward_alone, &p, 1).tensors,
                        4 * (4 * q + 4 * kv + rows + bias) + mask);
    p.bias_gradient = 1;
    ck_assert_double_eq(attn_run_memory(&forward_alone, &p, 1).tensors,
                        4 * (4 * q + 4 * kv + rows + 2 * bias) + mask);
    ck_assert_double_eq(attn_run_memory(&forward_alone, &p, 0).tensors,
                        4 * (2 * q + 2 * kv + rows + bias) + mask);
    // Rows of 9 instead of 8 elements: o and do. The last row has no gap behind it.
    p.o_stride = (attn_stride){4 * 10 * 9, 10 * 9, 9};
    ck_assert_double_eq(attn_run_memory(&forward_alone, &p, 1).tensors,
                        4 * (4 * q + 2 * (2 * 4 * 10 - 1) + 4 * kv + rows + 2 * bias) + mask);
    // Two arrays of the sequences' first rows.
    const int32_t q_cumulative[] = {0, 4, 10}, kv_cumulative[] = {0, 0, 7};
    attn_problem packed = problem_of(1, 4, 2, 8);
    packed.q_len = 10, packed.kv_len = 7, packed.sequences = 2;
    packed.q_cumulative = q_cumulative, packed.kv_cumulative = kv_cumulative;
    ck_assert_double_eq(attn_run_memory(&forward_alone, &packed, 0).tensors,
                        4 * (q + kv + rows / 2 + 2 * 3));
}
END_TEST

// Chapter 1's own declaration: S and P, dP and dS.
START_TEST(naive_is_the_closed_form) {
    static attn_modules modules;
    const attn_problem p = problem_of(1, 4, 4, 64);
    ck_assert_int_eq(attn_modules_load("host", &modules).code, ATTN_OK);
    const attn_loaded_stage *naive = attn_find_yardstick(&modules, "host");
    ck_assert_ptr_nonnull(naive);
    ck_assert_int_eq(attn_longest_that_fits(naive->stage, &p, 1, 80e9, 1),
                     closed_form(&p, 80e9, 1, 1));
}
END_TEST

// ---- does it fit? ----------------------------------------------------------------------------------------
static uint64_t free_bytes;
static uint64_t free_now(void) {
    return free_bytes;
}

static void expect_fit(const char *kind, int copies) {
    const attn_device device = {.kind = kind, .free_bytes = free_now};
    const attn_module module = {.device = &device};
    const attn_loaded_stage row = {&module, &keeps_p};
    attn_problem p = problem_of(1, 4, 4, 64);
    p.q_len = p.kv_len = 1000;
    free_bytes = (uint64_t)bytes_of(&p, 1000, copies, 1);
    ck_assert_int_eq(attn_tensor_copies(&device), copies);
    ck_assert_int_eq(attn_run_fits(&row, &p, 1).code, ATTN_OK);
    free_bytes--;
    const attn_status status = attn_run_fits(&row, &p, 1);
    ck_assert_int_eq(status.code, ATTN_NO_MEMORY);
    ck_assert_msg(strstr(status.text, "keeps-p needs") && strstr(status.text, "64 MB besides"),
                  "%s", status.text);
    ck_assert_int_eq(attn_run_fits(&row, &p, 0).code, ATTN_OK); // forward needs less
    free_bytes = 0;                                             // unknown
    ck_assert_int_eq(attn_run_fits(&row, &p, 1).code, ATTN_OK);
}

START_TEST(a_run_fits_to_the_byte) {
    expect_fit("host", 2);
    expect_fit("emulator", 2);
    expect_fit("gpu", 1);
    expect_fit("count", 1);
}
END_TEST

Suite *memory_suite(void) {
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_add_test(tests, what_is_kept_is_p_or_lse);
    tcase_add_test(tests, the_longest_sequence_is_the_closed_form);
    tcase_add_test(tests, one_byte_less_is_one_query_less);
    tcase_add_test(tests, the_longest_sequence_is_contiguous);
    tcase_add_test(tests, the_longest_sequence_with_a_bias);
    tcase_add_test(tests, all_tensors_are_counted);
    tcase_add_test(tests, naive_is_the_closed_form);
    tcase_add_test(tests, a_run_fits_to_the_byte);
    suite_add_tcase(suite, tests);
    return suite;
}
