// test_command_line.c -- build/attention as a person types it: help, mistakes, what there is. And the suite of
// all tests of that program, by file (test_command_line.h).
#include "tests/test_command_line.h"
#include "tests/harness.h"
#include "tests/program.h"

#include <string.h>

Suite *command_line_suite(void);

// ---- help and mistakes in typing -----------------------------------------------------------------------
START_TEST(help_is_given) {
    static const char *const commands[] = {"list",     "chapter", "run",      "check",
                                           "bench",    "pass",    "traffic",  "tiles",
                                           "features", "trace",   "scenarios"};
    run("--help", NULL);
    expect(0,
           "list|chapter|run|check|bench|pass|traffic|tiles|features|trace|scenarios|Exit status",
           "");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        run(commands[i], "--help", NULL);
        expect(0, commands[i], "");
        expect(0, "--help", "");
        ck_assert_str_eq(got.err, "");
    }
    run(NULL);
    expect(2, "list|chapter", "");
}
END_TEST

START_TEST(unknown_words_are_refused) {
    run("attend", NULL);
    expect_refused("attend|--help");
    run("chapter", "1", "--frob", "3", NULL);
    expect_refused("--frob|chapter --help");
    run("chapter", NULL);
    expect_refused("chapter|--help");
    run("chapter", "one", NULL);
    expect_refused("'one'|from 1 to 99");
    run("chapter", "1", "2", NULL);
    expect_refused("'2'");
    run("chapter", "98", NULL);
    expect_refused("98|list");
    run("list", "--device", "tpu", NULL);
    expect_refused("tpu|host, emulator, check, gpu or count");
    run("list", "--n", "8", NULL);
    expect_refused("--n|list");
    run("check", "naive-ish", "--case", "tests/golden/one", NULL);
    expect_refused("naive-ish|list");
    run("run", "naive-ish", "--case", "tests/golden/one", "--out", "/nowhere", NULL);
    expect_refused("naive-ish|list");
    run("run", "naive", "--case", "tests/golden/one", NULL);
    expect_refused("--out");
    run("check", "all", NULL);
    expect_refused("--case");
}
END_TEST

static const struct {
    const char *option, *value, *words;
} wrong_values[] = {
    {"--n", NULL, "--n needs a value"},
    {"--n", "abc", "N|'abc'|whole number"},
    {"--n", "", "N|''|whole number"},
    {"--n", "12x", "N|'12x'"},
    {"--n", "1.5", "N|'1.5'"},
    {"--n", "99999999999999999999", "N|99999999999999999999"},
    {"--n", "-1", "-1|from 0"},
    {"--qlen", "-5", "-5|from 0"},
    {"--kvlen", "-6", "-6|from 0"},
    {"--batch", "-2", "-2|from 0"},
    {"--heads", "0", "is 0|from 1"},
    {"--heads", "-4", "-4|from 1"},
    {"--kvheads", "3", "heads is 4|kv_heads 3|multiple"},
    {"--kvheads", "0", "is 0|from 1"},
    {"--dim", "0", "is 0|from 1"},
    {"--dim", "-64", "-64|from 1"},
    {"--scale", "nan", "scale|finite"},
    {"--scale", "inf", "scale|finite"},
    {"--scale", "-inf", "scale|finite"},
    {"--scale", "1e60", "scale|finite"},
    {"--scale", "big", "SCALE|'big'"},
    {"--causal", "2", "CAUSAL|2|from 0 to 1"},
    {"--window", "-1", "WINDOW|-1"},
    {"--window-right", "-1", "WINDOWRIGHT|-1"},
    {"--align", "top-left", "top-left|--causal 1"},
    {"--align", "left", "ALIGN|'left'|bottom-right|top-left"},
    {"--lengths", "3,-1", "LENGTHS|'3,-1'|whole numbers"},
    {"--lengths", "3,", "LENGTHS|'3,'|whole numbers"},
    {"--lengths", "1073741823,1", "LENGTHS|2^30"},
    {"--softcap", "-1", "softcap|-1|above 0"},
    {"--softcap", "much", "SOFTCAP|'much'"},
    {"--alibi", "2", "ALIBI|2|from 0 to 1"},
    {"--bias", "two", "BIAS|'two'|none"},
    {"--bias", "", "BIAS|''|none"},
    {"--dbias", "1", "bias_gradient|no bias"},
    {"--mask", "on", "MASK|'on'|each"},
    {"--dropout", "1", "dropout|1|below 1"},
    {"--layout", "nhd", "LAYOUT|'nhd'|bhnd"},
    {"--br", "0", "BR|0|from 1"},
    {"--bc", "-3", "BC|-3"},
    {"--seed", "-1", "SEED|-1"},
    {"--seed", "x", "SEED|'x'"},
    {"--kind", "odd", "odd|normal|rising"},
    {"--repeat", "0", "REPEAT|0|from 1 to 1000"},
    {"--device", "cpu", "cpu|host"},
    {"--input", "/nowhere/at/all", "/nowhere/at/all"},
};
enum { WRONG_VALUES = sizeof wrong_values / sizeof *wrong_values };

START_TEST(wrong_values_are_refused) {
    for (int i = 0; i < WRONG_VALUES; i++) {
        run("chapter", "1", wrong_values[i].option, wrong_values[i].value, NULL);
        expect_refused(wrong_values[i].words);
    }
}
END_TEST

// Each feature's option reaches the problem: a stage that does not do it says so by its name.
START_TEST(features_are_options) {
    static const struct {
        const char *option, *value, *words;
    } features[] = {
        {"--softcap", "30", "naive does not do a softcap"},
        {"--alibi", "1", "naive does not do ALiBi"},
        {"--bias", "each", "naive does not do an additive bias"},
        {"--mask", "one", "naive does not do a mask of bytes"},
        {"--dropout", "0.1", "naive does not do dropout"},
        {"--layout", "bnhd", "naive does not do strided tensors"},
    };
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        run("pass", "naive", "--device", "emulator", "--n", "16", features[i].option,
            features[i].value, NULL);
        expect_refused(features[i].words);
    }
    run("pass", "naive", "--device", "emulator", "--lengths", "10,0,7", NULL);
    expect_refused("naive does not do variable lengths");
    static const char *const rows[] = {"--n", "--qlen", "--kvlen"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run("chapter", "1", "--lengths", "100,28", rows[i], "128", NULL);
        expect_refused("LENGTHS|already says|leave --n, --qlen and --kvlen|away");
        run("chapter", "1", rows[i], "128", "--lengths", "100,28", NULL);
        expect_refused("LENGTHS|already says");
    }
    run("pass", "naive", "--device", "emulator", "--n", "16", "--causal", "1", "--align",
        "top-left", "--window-right", "3", NULL);
    expect(0, "causal (top-left)|window 3 right", "");
}
END_TEST

START_TEST(repeated_options_are_refused) {
    run("chapter", "1", "--n", "5", "--n", "6", NULL);
    expect_refused("--n is given twice");
    run("chapter", "1", "--n", "5", "--dim", "8", "--n", "5", NULL);
    expect_refused("--n is given twice");
    run("list", "--csv", "--csv", NULL);
    expect_refused("--csv is given twice");
    run("list", "--write-table", "/nowhere/a", "--write-table", "/nowhere/b", NULL);
    expect_refused("/nowhere/a cannot be read"); // may be repeated: it was refused for the file
}
END_TEST

START_TEST(huge_problems_are_refused_before_anything_is_allocated) {
    run("chapter", "1", "--n", "500000", "--heads", "1", "--dim", "8", "--device", "host", NULL);
    expect_refused("naive needs|are free|chapter 2");
    run("chapter", "1", "--n", "1000000000", "--heads", "1000000", "--batch", "1000000", NULL);
    expect_refused("2^60");
    run("chapter", "1", "--n", "1073741824", NULL);
    expect_refused("1073741824|1073741823");
    run("chapter", "1", "--n", "100000000", "--heads", "1000", NULL);
    expect_refused("are free");
}
END_TEST

START_TEST(a_device_that_is_not_there_is_named) {
    if (is_built("gpu")) return test_skip("command_line: a missing device", "the GPU's is built");
    run("chapter", "1", "--device", "gpu", NULL);
    expect(2, "", "gpu");
}
END_TEST

// ---- list and tables -----------------------------------------------------------------------------------
START_TEST(list_has_the_stages) {
    run("list", NULL);
    expect(0, "stage|chapter|device|naive|host", "");
    run("list", "--device", "host", NULL);
    expect(0, "naive|host", "");
    ck_assert_ptr_null(strstr(got.out, "emulator"));
}
END_TEST

START_TEST(csv_has_equal_rows) {
    run("list", "--csv", NULL);
    ck_assert_int_eq(got.status, 0);
    expect_csv(1);
    run("check", "all", "--case", "tests/golden/one", "--csv", NULL);
    ck_assert_int_eq(got.status, 0);
    expect_csv(5);
    run("chapter", "1", "--n", "33", "--dim", "8", "--csv", "--device", "host", NULL);
    ck_assert_msg(got.status == 0, "%s", got.err);
    expect_csv(2);
}
END_TEST

TCase *typing_tests(void) {
    TCase *tests = tcase_create("typing");
    tcase_add_test(tests, help_is_given);
    tcase_add_test(tests, unknown_words_are_refused);
    tcase_add_test(tests, wrong_values_are_refused);
    tcase_add_test(tests, features_are_options);
    tcase_add_test(tests, repeated_options_are_refused);
    tcase_add_test(tests, huge_problems_are_refused_before_anything_is_allocated);
    tcase_add_test(tests, a_device_that_is_not_there_is_named);
    tcase_add_test(tests, list_has_the_stages);
    tcase_add_test(tests, csv_has_equal_rows);
    tcase_set_timeout(tests, 300);
    return tests;
}

Suite *command_line_suite(void) {
    Suite *suite = suite_create("command_line");
    suite_add_tcase(suite, typing_tests());
    suite_add_tcase(suite, bytes_tests());
    suite_add_tcase(suite, cases_tests());
    suite_add_tcase(suite, chapter_tests());
    suite_add_tcase(suite, scenarios_tests());
    suite_add_tcase(suite, training_tests());
    return suite;
}
