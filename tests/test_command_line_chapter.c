// test_command_line_chapter.c -- attention chapter: what it prints, what it never prints, and what it says of a
// chapter that is broken or not there.
#include "cpu/fma_probe.h"
#include "cpu/growth.h"
#include "cpu/modules.h"
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/temporary_folder.h"
#include "tests/test_command_line.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(a_chapter_passes) {
    if (test_run.quick) return test_skip("command_line: a chapter passes", "it takes ten seconds");
    run("chapter", "1", "--n", "40", "--dim", "16", "--heads", "2", "--repeat", "1", NULL);
    expect(
        0,
        "Chapter 1|B=1 H=2 N=40 d=16 fp32|naive|max error|allowed|PASS|golden cases|make chapter1",
        "");
}
END_TEST

START_TEST(what_a_mask_changes_is_said) {
    if (!is_built("emulator")) return test_skip("command_line: masks", "no emulator is built");
    run("chapter", "6", "--qlen", "10", "--kvlen", "30", "--causal", "1", "--device", "emulator",
        NULL);
    expect(0, "6 masked backward, N 1024 -> 2048: read x 3.|(grows with N^2)", "");
    ck_assert_ptr_null(strstr(got.out, "window 0"));
    ck_assert_ptr_null(strstr(got.out, "(grows with N),"));
}
END_TEST

// Of each `word` before the number that follows it is `value`, and there is one.
static void all_are(const char *recorded, const char *word, const char *value) {
    const char *at = strstr(recorded, word);
    ck_assert_msg(at != NULL, "no %s in %s", word, recorded);
    for (; at; at = strstr(at + 1, word))
        ck_assert_msg(strncmp(at + strlen(word), value, strlen(value)) == 0, "%s", at);
}

// ---- the fraction of the peak --------------------------------------------------------------------------
// Whether this machine is busy nobody knows here: where a "?" stands, there is the sentence, and else a number.
START_TEST(a_fraction_of_an_unsteady_peak_is_not_shown) {
    ck_assert(attn_probes_agree(100, 100) && attn_probes_agree(81, 100));
    ck_assert(attn_probes_agree(100, 81) && attn_probes_agree(0, 0));
    ck_assert(!attn_probes_agree(79, 100) && !attn_probes_agree(100, 79));
    with_the_fake_chapters();
    run("chapter", "9", "--n", "24", "--dim", "8", NULL);
    expect(0, "of FMA peak\n", "");
    int unknown = 0;
    const char *at = strstr(got.out, "of FMA peak\n");
    for (int row = 0; row < 2; row++) {
        at = strchr(at, '\n') + 1;
        const char *end = strchr(at, '\n'), *cell = end;
        while (cell[-1] != ' ') cell--;
        const double fraction = strtod(cell, NULL);
        if (*cell == '?')
            unknown = 1;
        else
            ck_assert_msg(isdigit((unsigned char)*cell) && fraction <= 1, "%s", at);
    }
    const char *below = strchr(at, '\n') + 1;
    ck_assert_msg((strncmp(below, "    ?: above the measured peak, or", 34) == 0) == unknown, "%s",
                  got.out);
}
END_TEST

START_TEST(of_what_is_recorded_the_nearest_is_shown) {
    if (!is_built("emulator")) return test_skip("command_line: recorded", "no emulator is built");
    if (access("plots/recorded/h200-masks.csv", R_OK) != 0)
        return test_skip("command_line: recorded", "no plots/recorded here");
    for (int window = 0; window < 2; window++) {
        run("chapter", "6", "--n", "40", "--dim", window ? "100" : "50", "--causal", "1",
            "--window", window ? "200" : "0", "--device", "emulator", NULL);
        expect(0, "\nRecorded on |recorded problem nearest to this one; |rows of others are in",
               "");
        char *recorded = strstr(got.out, "\nRecorded on ");
        const char *verdict = strstr(recorded, "\nPASS  ");
        ck_assert_ptr_nonnull(verdict);
        verdict = strchr(verdict + 1, '\n'); // one line follows
        ck_assert_ptr_eq(strchr(verdict + 1, '\n') + 1, got.out + strlen(got.out));
        *strstr(recorded, " recorded problem nearest") = 0;
        all_are(recorded, " d=", window ? "128 causal" : "64 causal  ");
        all_are(recorded, " N=", window ? "" : "1024 ");
    }
}
END_TEST

// `word` with no letter or digit on either side.
static int has_word(const char *text, const char *word) {
    for (const char *s = text; (s = strstr(s, word)) != NULL; s++)
        if ((s == text || !isalnum((unsigned char)s[-1])) &&
            !isalnum((unsigned char)s[strlen(word)]))
            return 1;
    return 0;
}

START_TEST(emulated_time_is_never_shown) {
    static const char *const words[] = {"ms",      "us",      "ns",      "s",
                                        "seconds", "TFLOP/s", "GFLOP/s", "GB/s"};
    if (!is_built("emulator"))
        return test_skip("command_line: emulated time", "no emulator is built");
    run("chapter", "1", "--n", "40", "--dim", "16", "--device", "emulator", NULL);
    expect(0, "Forward on|Backward on|read MB|model = counted|yes|PASS", "");
    // What a GPU's clock measured once, and is committed, may be shown: it says where.
    char *recorded = strstr(got.out, "\nRecorded on ");
    if (recorded) *recorded = 0;
    // "S" and "s" are tensors, too: only as a unit, after a number.
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        ck_assert_msg(strcmp(words[w], "s") == 0 || !has_word(got.out, words[w]),
                      "'%s' stands in\n%s", words[w], got.out);
    if (test_run.quick) return;
    run("chapter", "1", "--n", "40", "--dim", "16", "--device", "emulator", "--csv", NULL);
    ck_assert_int_eq(got.status, 0);
    // The column `seconds` is there for all devices, and empty here: ",," before the verdict.
    ck_assert_msg(strstr(got.out, ",,PASS\n") != NULL, "%s", got.out);
}
END_TEST

// ---- what a chapter cannot do, and what each feature costs: on the chapters of tests/fake --------------
START_TEST(what_a_chapter_cannot_do_falls_back_or_is_refused) {
    with_the_fake_chapters();
    run("chapter", "9", "--n", "24", "--dim", "8", "--softcap", "1", NULL);
    expect(
        0,
        "varying does not do a softcap; chapter 9 falls back to everything of chapter 10 on "
        "host\n|10 everything|Backward on|9 varying: not run: varying does not do a softcap|PASS",
        "");
    ck_assert_ptr_null(strstr(got.out, "From the closed forms")); // there is nothing to follow
    run("chapter", "9", "--n", "24", "--dim", "8", "--softcap", "1", "--no-fallback", NULL);
    expect(2, "", "varying does not do a softcap");
    ck_assert_ptr_null(strstr(got.out, "everything"));
    // The CSV names the stage that really ran; what is said about it doesn't come between its lines.
    run("chapter", "9", "--n", "24", "--dim", "8", "--softcap", "1", "--csv", NULL);
    expect(0, "10,everything,host,backward,", "falls back to everything");
    ck_assert_ptr_null(strstr(got.out, "falls back"));
    expect_csv(2);
    // Tiles are no part of the answer.
    run("chapter", "9", "--n", "24", "--dim", "8", "--bc", "8", "--softcap", "1", NULL);
    expect(2, "", "varying does not do");
    ck_assert_ptr_null(strstr(got.out, "everything"));
    // What its own stage does needs nobody else.
    run("chapter", "9", "--n", "24", "--dim", "8", "--causal", "1", NULL);
    expect(0, "9 varying", "");
    ck_assert_ptr_null(strstr(got.out, "everything"));
}
END_TEST

// Where chapter 1 alone is built.
START_TEST(what_no_stage_does_is_refused) {
    const temporary_folder folder = make_temporary_folder();
    char own[4300], module[4300], here[4300];
    snprintf(own, sizeof own, "%s", program());
    snprintf(here, sizeof here, "%s", realpath(attn_modules_folder(), module));
    snprintf(module, sizeof module, "%.4200s/host/01.so", here);
    ck_assert_int_eq(mkdir(in_folder(&folder, "host"), 0777), 0);
    ck_assert_int_eq(symlink(module, in_folder(&folder, "host/01.so")), 0);
    setenv("ATTENTION_PROGRAM", own, 1);
    setenv("ATTENTION_MODULES", folder.path, 1);
    run("chapter", "1", "--n", "24", "--dim", "8", "--softcap", "1", NULL);
    expect(2, "", "naive does not do a softcap, nor does any stage that is built; make build");
    run("chapter", "1", "--n", "24", "--dim", "8", "--softcap", "1", "--no-fallback", NULL);
    expect(2, "", "naive does not do a softcap\n");
    run("features", NULL);
    expect_refused("no stage that is built does all features");
    remove_temporary_folder(&folder);
}
END_TEST

// The number in column `column` (from 0) of the row that begins with `name`, in the table after `heading`.
static double cell(const char *heading, const char *name, int column) {
    const char *at = strstr(got.out, heading);
    ck_assert_msg(at != NULL, "no %s in\n%s", heading, got.out);
    ck_assert_msg((at = strstr(at, name)) != NULL, "no row %s in\n%s", name, got.out);
    char line[300], *rest = line, *field = line;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    rest += strlen(name);
    for (int c = 0; c <= column; c++) {
        while (strncmp(rest, "   ", 3) == 0 || *rest == ' ') rest++;
        field = rest;
        rest = strstr(rest, "   ") ? strstr(rest, "   ") : rest + strlen(rest);
    }
    return strtod(field, NULL);
}

START_TEST(what_each_feature_costs_is_shown) {
    with_the_fake_chapters();
    run("chapter", "10", "--n", "64", "--dim", "16", "--heads", "4", "--repeat", "1", NULL);
    expect(0,
           "What each feature costs everything of chapter 10 on host: B=1 H=4 N=64 d=16 fp32\n|"
           "all off|CAUSAL=1|WINDOW=4 WINDOWRIGHT=4|CAUSAL=1 WINDOW=4|LENGTHS=33,13,0,18|KVHEADS=1|"
           "BIAS=one DBIAS=1|ALIBI=1|MASK=one|SOFTCAP=30|DROPOUT=0.1|LAYOUT=bnhd|over all off|PASS",
           "");
    for (int pass = 0; pass < 2; pass++) {
        const char *heading = pass == 0 ? "  Forward\n" : "  Backward\n";
        // Columns: asked for by, max error, allowed, % FLOPs skipped, read MB, written MB.
        // Of 64 * 64 pairs causal leaves 64 * 65 / 2, and the window 64 * 7 - 2 * (1 + 2 + 3).
        ck_assert_double_eq_tol(cell(heading, "causal, bottom-right", 3), 49.2, 0.01);
        ck_assert_double_eq_tol(cell(heading, "window, both sides", 3), 89.4, 0.01);
        ck_assert_double_eq_tol(cell(heading, "variable lengths", 3), 61.4, 0.01);
        ck_assert_double_eq_tol(cell(heading, "softcap", 3), 0, 0.01);
        // q, k, v of 16384 bytes, backward do: K and V are read by a quarter of the heads.
        ck_assert_double_eq_tol(cell(heading, "grouped heads", 4), pass ? 0.040960 : 0.024576,
                                1e-6);
        ck_assert(cell(heading, "dropout", 1) > 0);
        ck_assert(cell(heading, "dropout", 1) < cell(heading, "dropout", 2));
    }
    ck_assert_ptr_null(strstr(got.out, "Only whole tiles")); // it claims to skip all pairs
    expect(0, "\nFrom the closed forms\n    1 naive, N 1024", "");
    // A chapter whose stages do not do all of them has no such table, and its CSV neither.
    run("chapter", "9", "--n", "24", "--dim", "8", NULL);
    ck_assert_ptr_null(strstr(got.out, "What each feature costs"));
    run("chapter", "10", "--n", "24", "--dim", "8", "--csv", NULL);
    expect_csv(2);
}
END_TEST

START_TEST(that_no_tile_is_skipped_is_said) {
    run("features", "--device", "emulator", "--n", "64", "--dim", "16", "--heads", "1", NULL);
    if (got.status == 2) return test_skip("command_line: no tile is skipped", "no chapter 6");
    expect(0, "Only whole tiles are skipped", "");
    ck_assert_double_eq(cell("  Forward\n", "causal, bottom-right", 3), 0);
    run("features", "--device", "emulator", "--n", "257", "--dim", "16", "--heads", "1", NULL);
    expect(0, "causal, bottom-right", "");
    ck_assert_ptr_null(strstr(got.out, "Only whole tiles"));
    ck_assert(cell("  Forward\n", "causal, bottom-right", 3) > 0);
}
END_TEST

START_TEST(features_are_rows_of_csv) {
    with_the_fake_chapters();
    run("features", "--n", "48", "--dim", "16", "--rounds", "1", "--csv", NULL);
    expect(0,
           "make features; median of 1 rounds of 5 runs\nfeature,stage,device,pass,|"
           "off,everything,host,forward,1,4,4,48,48,16,|,589824,|"
           "dbias,everything,host,backward,1,4,4,48,48,16,|grouped,everything,host,forward,1,4,1,|"
           ",CAUSAL=1\n|,\"LENGTHS=25,9,0,14\"\n",
           "");
    // A batch is packed, with as many rows as before.
    run("features", "--n", "48", "--dim", "16", "--batch", "2", "--rounds", "1", "--csv", NULL);
    expect(0, "lengths,everything,host,forward,1,4,4,96,96,16,", "");
    run("features", "--causal", "1", NULL);
    expect_refused("features has no option --causal");
    run("features", "--n", "48", "--dim", "16", "--rounds", "1", NULL);
    expect(0, "What each feature costs everything of chapter 10 on host", "");
}
END_TEST

// ---- how bytes grow ---------------------------------------------------------------------------------
static attn_modules modules; // too large for a stack

static void law_is(const char *stage, const attn_problem *p, attn_pass pass, attn_amount what,
                   attn_growth expected) {
    const attn_loaded_stage *row = attn_find_stage(&modules, stage, "emulator");
    ck_assert_msg(row != NULL, "no %s", stage);
    const attn_growth law = attn_growth_of(row->stage, p, pass, what);
    ck_assert_msg(law == expected, "%s, pass %d, amount %d, N=%lld d=%lld: law %d, not %d", stage,
                  (int)pass, (int)what, (long long)p->kv_len, (long long)p->head_dim, (int)law,
                  (int)expected);
}

START_TEST(the_law_of_growth_is_that_of_long_sequences) {
    static const int dims[] = {16, 32, 64, 100, 128, 256};
    if (!is_built("emulator")) return test_skip("command_line: growth", "no emulator is built");
    ck_assert_int_eq(attn_modules_load("emulator", &modules).code, ATTN_OK);
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        const int d = dims[i];
        for (int n = 1000; n < 3000; n += 900) { // 1000, 1900, 2800
            attn_problem p = attn_problem_of(n, n, d);
            p.heads = p.kv_heads = 2;
            law_is("naive", &p, ATTN_FORWARD, ATTN_READ_BYTES, ATTN_GROWTH_SQUARE);
            law_is("naive", &p, ATTN_FORWARD, ATTN_EXTRA_BYTES, ATTN_GROWTH_SQUARE);
            law_is("q-outer", &p, ATTN_FORWARD, ATTN_READ_BYTES, ATTN_GROWTH_SQUARE);
            law_is("kv-outer", &p, ATTN_FORWARD, ATTN_EXTRA_BYTES, ATTN_GROWTH_LINEAR);
            p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
            for (int pass = 0; pass < 2; pass++)
                law_is("masked", &p, (attn_pass)pass, ATTN_READ_BYTES, ATTN_GROWTH_SQUARE);
            p.window_left = i % 2 ? 256 : 5000; // longer than the rows of the problem, too
            for (int pass = 0; pass < 2; pass++)
                law_is("masked", &p, (attn_pass)pass, ATTN_READ_BYTES, ATTN_GROWTH_LINEAR);
        }
    }
    // Its slices become fewer as the queries become more, until there is one and no extra memory.
    attn_problem p = attn_problem_of(1024, 1024, 64);
    law_is("kv-split", &p, ATTN_FORWARD, ATTN_EXTRA_BYTES, ATTN_GROWTH_UNKNOWN);
    p.kv_heads = p.heads = 8;
    law_is("kv-split", &p, ATTN_FORWARD, ATTN_READ_BYTES, ATTN_GROWTH_UNKNOWN);
    // As long as a problem may be: there is no farther.
    p.q_len = p.kv_len = INT32_MAX - 1;
    law_is("q-outer", &p, ATTN_FORWARD, ATTN_READ_BYTES, ATTN_GROWTH_UNKNOWN);
}
END_TEST

// ---- a chapter that is broken --------------------------------------------------------------------------
START_TEST(a_broken_chapter_fails) {
    char modules[4300], own[4300];
    snprintf(modules, sizeof modules, "%s/mutants/naive-lse-without-m", attn_modules_folder());
    snprintf(own, sizeof own, "%s", program());
    if (test_run.quick || access(modules, R_OK) != 0)
        return test_skip("command_line: a broken chapter fails", "a quick run builds no mutants");
    setenv("ATTENTION_PROGRAM", own, 1);
    setenv("ATTENTION_MODULES", modules, 1);
    run("chapter", "1", "--n", "20", "--dim", "8", NULL);
    expect(1, "FAIL", "FAIL|lse");
    ck_assert_ptr_null(strstr(got.out, "PASS"));
    run("check", "all", "--case", "tests/golden/dense", NULL);
    expect(1, "FAIL|lse", "");
}
END_TEST

// Its proof passes, and the measured problem does not.
START_TEST(what_fails_is_named) {
    with_the_fake_chapters();
    run("chapter", "9", "--n", "24", "--dim", "7", "--heads", "2", "--batch", "3", NULL);
    expect(1,
           " 9 varying   FAIL 1.0e+00 |\nFAIL  the measured problem: varying on host, o at batch "
           "2, head 1, row 23; passed were: ",
           "");
    ck_assert_ptr_null(strstr(got.out, "1 naive     FAIL"));
    ck_assert_ptr_null(strstr(got.out, "naive on host, "));
    run("chapter", "9", "--n", "24", "--dim", "8", NULL);
    expect(0, "PASS  ", "");
    ck_assert_ptr_null(strstr(got.out, "FAIL"));
}
END_TEST

START_TEST(a_folder_without_modules_is_said) {
    const temporary_folder folder = make_temporary_folder();
    char own[4300];
    snprintf(own, sizeof own, "%s", program());
    setenv("ATTENTION_PROGRAM", own, 1);
    setenv("ATTENTION_MODULES", folder.path, 1);
    run("list", NULL);
    expect(2, "", "make chapters");
    ck_assert_int_eq(mkdir(in_folder(&folder, "host"), 0777), 0);
    write_text(in_folder(&folder, "host/01.so"), "no module");
    run("list", NULL);
    expect_refused("host/01.so|cannot be loaded");
    remove_temporary_folder(&folder);
}
END_TEST

TCase *chapter_tests(void) {
    TCase *tests = tcase_create("chapter");
    tcase_add_test(tests, a_chapter_passes);
    tcase_add_test(tests, what_a_mask_changes_is_said);
    tcase_add_test(tests, a_fraction_of_an_unsteady_peak_is_not_shown);
    tcase_add_test(tests, of_what_is_recorded_the_nearest_is_shown);
    tcase_add_test(tests, emulated_time_is_never_shown);
    tcase_add_test(tests, what_a_chapter_cannot_do_falls_back_or_is_refused);
    tcase_add_test(tests, what_no_stage_does_is_refused);
    tcase_add_test(tests, what_each_feature_costs_is_shown);
    tcase_add_test(tests, that_no_tile_is_skipped_is_said);
    tcase_add_test(tests, features_are_rows_of_csv);
    tcase_add_test(tests, the_law_of_growth_is_that_of_long_sequences);
    tcase_add_test(tests, a_broken_chapter_fails);
    tcase_add_test(tests, what_fails_is_named);
    tcase_add_test(tests, a_folder_without_modules_is_said);
    tcase_set_timeout(tests, 300);
    return tests;
}
