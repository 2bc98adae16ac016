// test_trace.c -- make traceN: what it prints is what the chapters compute.
#include "cpu/case.h"
#include "cpu/mask.h"
#include "cpu/runner.h"
#include "tests/harness.h"
#include "tests/program.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *trace_suite(void);

// ---- reading a trace ----
enum { MAX_STEPS = 32 };
typedef struct steps {
    int count;
    char title[MAX_STEPS][80];    // "queries 0 to 7 meet keys 0 to 7"
    char tables[MAX_STEPS][4096]; // S, m and the factor; P, l and O
} steps;

static const char *line_end(const char *at) {
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

static void read_steps(const char *trace, steps *all) {
    memset(all, 0, sizeof *all);
    for (const char *at = strstr(trace, "step "); at; at = strstr(at, "\nstep ")) {
        if (*at == '\n') at++;
        const int n = all->count++;
        ck_assert_int_lt(n, MAX_STEPS);
        const char *title = strchr(at, ':') + 2, *table = line_end(at);
        const char *end = table;
        while (*end && strncmp(end, "step", 4) && strncmp(end, "memory", 6) && *end != '\n')
            end = line_end(end);
        snprintf(all->title[n], sizeof all->title[n], "%.*s", (int)(table - title - 1), title);
        ck_assert_int_lt(end - table, (int)sizeof all->tables[n]);
        memcpy(all->tables[n], table, (size_t)(end - table));
        at = end > at ? end - 1 : end;
    }
}

// The same words, and numbers that differ by no more than the last digit shown.
static int same_numbers(const char *a, const char *b) {
    while (*a && *b) {
        const int number = isdigit((unsigned char)*a) || *a == '-';
        char *a_end, *b_end;
        if (isspace((unsigned char)*a) || isspace((unsigned char)*b)) {
            while (isspace((unsigned char)*a)) a++;
            while (isspace((unsigned char)*b)) b++;
            continue;
        }
        if (!number) {
            if (*a++ != *b++) return 0;
            continue;
        }
        const double x = strtod(a, &a_end), y = strtod(b, &b_end);
        if (a_end == a || b_end == b || !(x == y || fabs(x - y) < 0.0015)) return 0;
        a = a_end, b = b_end;
    }
    return *a == *b;
}

static const char *result_of(const char *trace) { // the last
    const char *at = NULL;
    for (const char *next = trace; (next = strstr(next, "\nResult")); next++) at = next;
    ck_assert_ptr_nonnull(at);
    return at;
}

static void trace(const char *chapter, const char *first, const char *value) {
    run("trace", chapter, first, value, NULL);
    ck_assert_msg(got.status == 0, "%s%s", got.out, got.err);
    ck_assert_str_eq(got.err, "");
    ck_assert_ptr_null(strstr(got.out, "FAIL"));
    ck_assert_ptr_nonnull(strstr(got.out, "PASS  o "));
    ck_assert_ptr_null(strstr(got.out, "nan"));
    for (const char *at = got.out; *at; at = line_end(at)) {
        const int length = (int)(line_end(at) - at) - 1;
        ck_assert_msg(length <= 100, "%d columns: %.*s", length, length, at);
    }
}

// ---- the tests ----
static steps q_outer, kv_outer;
static char other[sizeof got.out];

START_TEST(both_orders_have_the_same_steps) {
    trace("3", NULL, NULL);
    read_steps(got.out, &q_outer);
    snprintf(other, sizeof other, "%s", got.out);
    trace("4", NULL, NULL);
    read_steps(got.out, &kv_outer);
    ck_assert_int_eq(q_outer.count, 4);
    ck_assert_int_eq(kv_outer.count, 4);
    ck_assert_str_eq(q_outer.title[1], "queries 0 to 7 meet keys 8 to 11");
    ck_assert_str_eq(kv_outer.title[1], "queries 8 to 9 meet keys 0 to 7");
    for (int i = 0; i < 4; i++) {
        int j = 0;
        while (j < 4 && strcmp(q_outer.title[i], kv_outer.title[j])) j++;
        ck_assert_msg(j < 4, "%s", q_outer.title[i]);
        ck_assert_msg(same_numbers(q_outer.tables[i], kv_outer.tables[j]), "%s\n%s",
                      q_outer.tables[i], kv_outer.tables[j]);
        // A table of the other tile differs: the comparison can tell.
        ck_assert(!same_numbers(q_outer.tables[i], kv_outer.tables[(j + 1) % 4]));
    }
    // The results up to "Next:" and the errors, which the two may round differently.
    char *ends[] = {strstr(result_of(other), "PASS"), strstr(result_of(got.out), "PASS")};
    *ends[0] = *ends[1] = 0;
    ck_assert_msg(same_numbers(result_of(other), result_of(got.out)), "%s\n%s", result_of(other),
                  result_of(got.out));
}
END_TEST

// What the lines "memory: read q 64, k 64 bytes; written o 16 bytes" add up to.
static void add_memory(const char *trace, uint64_t *read, uint64_t *written) {
    *read = *written = 0;
    for (const char *at = trace; *at; at = line_end(at)) {
        if (strncmp(at, "memory: ", 8) || at[8] == 'b') continue;
        uint64_t *sum = read;
        for (const char *c = at + 8; *c != '\n'; c++) {
            if (strncmp(c, "written", 7) == 0) sum = written;
            if (c[-1] == ' ' && isdigit((unsigned char)*c)) *sum += strtoull(c, NULL, 10);
        }
    }
}

START_TEST(the_steps_add_up_to_the_closed_form) {
    static const char *const chapters[] = {"3", "4", "6"};
    for (int i = 0; i < 3; i++) {
        uint64_t read, written;
        char line[200];
        trace(chapters[i], NULL, NULL);
        add_memory(got.out, &read, &written);
        snprintf(line, sizeof line, "PASS  bytes as by the closed form: read %llu, written %llu",
                 (unsigned long long)read, (unsigned long long)written);
        ck_assert_msg(read > 0 && strstr(got.out, line), "%s\n%s", line, got.out);
    }
}
END_TEST

START_TEST(a_trace_is_the_same_every_time) {
    static const char *const chapters[] = {"2", "3", "4", "5", "6"};
    for (int i = 0; i < 5; i++) {
        trace(chapters[i], NULL, NULL);
        snprintf(other, sizeof other, "%s", got.out);
        trace(chapters[i], NULL, NULL);
        ck_assert_str_eq(other, got.out);
    }
}
END_TEST

START_TEST(rows_and_tiles_of_chapter_2_give_the_same) {
    trace("2", NULL, NULL);
    const char *first = strstr(got.out, "\nResult"), *last = result_of(got.out);
    ck_assert_ptr_ne(first, last);
    const size_t length = (size_t)(strstr(first, "PASS") - first);
    snprintf(other, sizeof other, "%.*s", (int)length, first);
    ck_assert(strstr(other, "q3"));
    ck_assert_int_eq(strncmp(other, last, length), 0);
    read_steps(strstr(got.out, "online-tiled"), &q_outer);
    ck_assert_int_eq(q_outer.count, 6); // 2 x 3 tiles
}
END_TEST

START_TEST(knobs_change_the_problem) {
    trace("2", "--dim", "1");
    trace("2", "--seed", "7");
    trace("2", "--scale", "-0.5");
    trace("2", "--kvlen", "1");
    trace("5", "--qlen", "5");
    trace("5", "--bc", "3");
    trace("5", "--br", "20");
    trace("3", "--qlen", "17");
    trace("3", "--kvlen", "20");
    trace("4", "--n", "20");
    trace("4", "--kvlen", "3");
    trace("6", "--window", "3");
    trace("6", "--n", "20");
    trace("6", "--kvlen", "4"); // queries that see no key
    ck_assert(strstr(got.out, "q0     0.0000  0.0000    -inf"));
}
END_TEST

START_TEST(refusals_are_sentences) {
    static const char *const wrong[][4] = {
        {"1", "--n", "5", "no trace of chapter '1'|2 3"},
        {"one", "--n", "5", "'one'|number from 1 to 99"},
        {"2", "--qlen", "21", "QLEN|1 to 20|21"},
        {"2", "--kvlen", "64", "KVLEN|1 to 20|64"},
        {"2", "--dim", "3", "DIM is 1 or 2|3"},
        {"2", "--bc", "9", "BC is at most 8|9"},
        {"5", "--bc", "4", "BC is at most 3|4"},
        {"2", "--causal", "1", "online does not do|causal"},
        {"2", "--heads", "2", "trace has no option --heads"},
        {"3", "--br", "2", "q-outer-plain does not do|tile sizes"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run("trace", wrong[i][0], wrong[i][1], wrong[i][2], NULL);
        expect_refused(wrong[i][3]);
    }
}
END_TEST

// The picture of pairs: who sees whom, and the tiles of 8 keys that nobody of the 8 queries sees.
START_TEST(masks_leave_out_what_nobody_sees) {
    trace("6", NULL, NULL);
    const attn_band band = {12, 20, -ATTN_BAND_OPEN, 9};
    for (int i = 0; i < 12; i++) {
        char row[40];
        int used = snprintf(row, sizeof row, "\nq%-4d ", i);
        const int last_of_tile = i < 8 ? 7 : 11;
        const int end_tile = (attn_end_key(band, last_of_tile) + 7) / 8 * 8;
        for (int j = 0; j < 20; j++)
            row[used++] = j < attn_end_key(band, i) ? '#' : j < end_tile ? '-' : '.';
        row[used] = 0;
        ck_assert_msg(strstr(got.out, row) != NULL, "%s\n%s", row, got.out);
    }
    ck_assert(!strstr(got.out, "queries 0 to 7 meet keys 16"));
}
END_TEST

// The gradients as summed at a tile's last step are those of the result.
START_TEST(gradients_add_up_to_the_result) {
    trace("5", NULL, NULL);
    for (int key = 0; key < 6; key++) {
        for (int v = 0; v < 2; v++) {
            char name[40], result[40];
            snprintf(name, sizeof name, " k%d ", key);
            snprintf(result, sizeof result, "d%c of k%d ", v ? 'V' : 'K', key);
            const char *last = NULL;
            for (const char *at = got.out; (at = strstr(at, v ? "\ndV +=" : "\ndK +=")); at++) {
                const char *here = strstr(at, name);
                if (here && here < strchr(at + 1, '\n')) last = here + strlen(name);
            }
            const char *expected = strstr(got.out, result);
            if (!last || !expected) {
                ck_abort_msg("no %s or no %s", name, result);
                return;
            }
            char *l = (char *)last, *e = (char *)expected + strlen(result);
            for (int c = 0; c < 2; c++) ck_assert_double_eq_tol(strtod(l, &l), strtod(e, &e), 6e-4);
        }
    }
}
END_TEST

// The silent module is the same without hooks.
static void same_bits(const attn_loaded_stage *hooked, const attn_loaded_stage *silent) {
    attn_problem p = attn_problem_of(10, 13, 2);
    if (hooked->stage->features & ATTN_HAS_TILE_SIZES) p.br = 3, p.bc = 2;
    if (hooked->stage->features & ATTN_HAS_CAUSAL) p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    attn_case random;
    ck_assert_int_eq(attn_case_random(&p, ATTN_INPUT_NORMAL, 5, 1, &random).code, ATTN_OK);
    attn_inputs inputs = attn_case_inputs(&random);
    if (!hooked->stage->backward) inputs.d_o = NULL;
    attn_run one, two;
    ck_assert_int_eq(attn_run_stage(hooked, &p, &inputs, 1, &one).code, ATTN_OK);
    ck_assert_int_eq(attn_run_stage(silent, &p, &inputs, 1, &two).code, ATTN_OK);
    ck_assert_mem_eq(one.out.o, two.out.o, sizeof(float) * attn_q_elements(&p));
    ck_assert_mem_eq(one.out.lse, two.out.lse, sizeof(float) * attn_rows(&p));
    if (inputs.d_o) {
        ck_assert_mem_eq(one.out.dq, two.out.dq, sizeof(float) * attn_q_elements(&p));
        ck_assert_mem_eq(one.out.dk, two.out.dk, sizeof(float) * attn_kv_elements(&p));
        ck_assert_mem_eq(one.out.dv, two.out.dv, sizeof(float) * attn_kv_elements(&p));
    }
    attn_run_free(&one);
    attn_run_free(&two);
    attn_case_free(&random);
}

START_TEST(hooks_change_no_bits) {
    static attn_modules hooked, silent;
    ck_assert_int_eq(attn_modules_load("trace", &hooked).code, ATTN_OK);
    ck_assert_int_eq(attn_modules_load("silent", &silent).code, ATTN_OK);
    ck_assert_int_ge(hooked.stage_count, 6);
    ck_assert_int_eq(hooked.stage_count, silent.stage_count);
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout)); // the steps
    for (int i = 0; i < hooked.stage_count; i++) same_bits(&hooked.stage[i], &silent.stage[i]);
}
END_TEST

Suite *trace_suite(void) {
    Suite *suite = suite_create("trace");
    TCase *tests = tcase_create("steps");
    tcase_add_test(tests, both_orders_have_the_same_steps);
    tcase_add_test(tests, the_steps_add_up_to_the_closed_form);
    tcase_add_test(tests, a_trace_is_the_same_every_time);
    tcase_add_test(tests, rows_and_tiles_of_chapter_2_give_the_same);
    tcase_add_test(tests, knobs_change_the_problem);
    tcase_add_test(tests, refusals_are_sentences);
    tcase_add_test(tests, masks_leave_out_what_nobody_sees);
    tcase_add_test(tests, gradients_add_up_to_the_result);
    tcase_add_test(tests, hooks_change_no_bits);
    suite_add_tcase(suite, tests);
    return suite;
}
