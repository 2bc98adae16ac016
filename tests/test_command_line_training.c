// test_command_line_training.c -- what a chapter prints of forward and backward together, of the longest N,
// and of runs that are compared with each other. Chapter 9 is tests/fake/varying.c.
#include "cpu/modules.h"
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/test_command_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The number after `words` and blanks, on the line where they stand; the nth of them.
static double number_after(const char *words, int nth) {
    const char *at = strstr(got.out, words);
    ck_assert_msg(at != NULL, "'%s' is missing in\n%s", words, got.out);
    char *end = (char *)at + strlen(words);
    double number = NAN;
    for (int i = 0; i <= nth; i++) number = strtod(end, &end);
    return number;
}

// 4 heads of 32 queries and keys: P is 4 * 4 * 32^2 bytes, L a 32nd of that.
START_TEST(the_price_of_recomputing_is_said) {
    with_the_fake_chapters();
    run("chapter", "9", "--n", "32", "--dim", "16", NULL);
    expect(
        0,
        "Forward and backward together|  4 + 8  |  4 + 10  |"
        "takes 25 % more FLOPs backward than keeping what\n    1 naive keeps (16.7 % more in both "
        "passes), and keeps 32 times less: 0.512 KB (lse) instead of 16.4 KB (p).",
        "");
    // Other shapes change nothing of that.
    run("chapter", "9", "--n", "32", "--dim", "16", "--kvheads", "2", NULL);
    expect(0, "takes 25 % more FLOPs backward|keeps 32 times less", "");
    // Causal halves what each executes, and not what is kept: with tiles to skip there is no such price.
    run("chapter", "9", "--n", "32", "--dim", "16", "--causal", "1", NULL);
    expect(0, "2.06 + 4.12|2.06 + 5.16|lse", "");
    ck_assert_ptr_null(strstr(got.out, "Recomputation"));
    run("chapter", "9", "--n", "32", "--dim", "16", "--window-right", "8", NULL);
    expect(0, "Forward and backward together", "");
    ck_assert_ptr_null(strstr(got.out, "Recomputation"));
    run("chapter", "9", "--n", "32", "--dim", "16", "--csv", NULL);
    expect(0, ",flops,|,kept_bytes,differing_elements,|9,varying,host,backward,|,655360,|,512,,",
           "");
    expect_csv(3);
}
END_TEST

START_TEST(a_chapter_without_a_backward_pass_has_no_such_table) {
    run("list", NULL);
    if (!strstr(got.out, "online ")) return test_skip("command_line: no backward", "no chapter 2");
    run("chapter", "2", "--n", "32", "--dim", "16", NULL);
    expect(0, "Forward on", "");
    ck_assert_ptr_null(strstr(got.out, "together"));
    ck_assert_ptr_null(strstr(got.out, "longest N"));
}
END_TEST

// Of N queries and keys in two heads of d = 16, naive's two passes need all nine tensors and 4 N^2 numbers.
static double longest(double bytes, int copies) {
    const double a = 4 * 2 * 4, b = copies * 4.0 * 2 * (8 * 16 + 1);
    return floor((sqrt(b * b + 4 * a * bytes) - b) / (2 * a));
}

START_TEST(the_longest_n_is_the_closed_form) {
    if (!is_built("emulator")) return test_skip("command_line: longest N", "no emulator is built");
    run("chapter", "1", "--n", "32", "--dim", "16", "--heads", "2", "--device", "emulator", NULL);
    expect(0, "longest N|GB free on this machine|an 80 GB GPU", "");
    const char *row = strstr(got.out, "longest N whose two passes fit in");
    ck_assert_ptr_nonnull(row);
    memmove(got.out, row, strlen(row) + 1); // naive has other rows above
    const double gigabytes = number_after("fit in", 0), here = number_after("1 naive", 0);
    ck_assert_msg(number_after("1 naive", 1) == longest(80e9, 1), "%s, not %.0f", got.out,
                  longest(80e9, 1));
    // What is free is printed in three digits.
    ck_assert_msg(fabs(here / longest(1e9 * gigabytes, 2) - 1) < 0.01, "%.0f in %g GB", here,
                  gigabytes);
}
END_TEST

START_TEST(runs_that_differ_are_told_from_those_that_do_not) {
    with_the_fake_chapters();
    run("chapter", "9", "--n", "32", "--dim", "16", "--repeat", "6", NULL);
    expect(0,
           "6 runs of each pass|1 naive on host: o lse dq dk dv bit-identical\n|9 varying on host: "
           "o lse "
           "dk dv bit-identical\n        dq differs in 25 % of its elements, by at most 3 units in "
           "the "
           "last place (2 bits),\n        half of them by at most 2 bits; its largest difference "
           "is|PASS",
           "");
    ck_assert_ptr_null(strstr(got.out, "emulator"));
    run("chapter", "9", "--n", "32", "--dim", "16", "--repeat", "2", "--csv", NULL);
    expect(0, ",512,512,", ""); // kept, then 2048 / 4 elements that differ
    expect_csv(3);
    run("chapter", "9", "--n", "32", "--dim", "16", NULL); // not asked for
    ck_assert_ptr_null(strstr(got.out, "bit-identical"));
}
END_TEST

START_TEST(the_emulator_repeats_when_asked) {
    if (!is_built("emulator")) return test_skip("command_line: repeats", "no emulator is built");
    run("chapter", "1", "--n", "32", "--dim", "16", "--repeat", "3", "--device", "emulator", NULL);
    expect(0,
           "3 runs of each pass|order that varies|1 naive on emulator: o lse dq dk dv "
           "bit-identical|yes|PASS",
           "");
}
END_TEST

TCase *training_tests(void) {
    TCase *tests = tcase_create("training");
    tcase_add_test(tests, the_price_of_recomputing_is_said);
    tcase_add_test(tests, a_chapter_without_a_backward_pass_has_no_such_table);
    tcase_add_test(tests, the_longest_n_is_the_closed_form);
    tcase_add_test(tests, runs_that_differ_are_told_from_those_that_do_not);
    tcase_add_test(tests, the_emulator_repeats_when_asked);
    tcase_set_timeout(tests, 300);
    return tests;
}
