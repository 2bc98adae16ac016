// test_command_line_cases.c -- attention run and check: results of case folders, good, bad and falsified.
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/temporary_folder.h"
#include "tests/test_command_line.h"

// ---- run and check -------------------------------------------------------------------------------------
static void copy_file(const temporary_folder *to, const char *from_folder, const char *name) {
    char path[300];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", from_folder, name);
    char *bytes = read_bytes(path, &size);
    write_bytes(in_folder(to, name), bytes, size);
    free(bytes);
}

static temporary_folder copy_case(const char *from, int with_results) {
    static const char *const inputs[] = {"case.txt", "q.npy", "k.npy", "v.npy", "do.npy"};
    static const char *const results[] = {"o.npy", "lse.npy", "dq.npy", "dk.npy", "dv.npy"};
    const temporary_folder folder = make_temporary_folder();
    for (int i = 0; i < 5; i++) {
        copy_file(&folder, from, inputs[i]);
        if (with_results) copy_file(&folder, from, results[i]);
    }
    return folder;
}

START_TEST(run_then_check_agree) {
    static const char *const cases[] = {"tests/golden/gqa", "tests/golden/causal-long-q",
                                        "tests/golden/window"};
    static const char *const devices[] = {"host", "emulator"};
    for (int c = 0; c < 3; c++)
        for (int d = 0; d < 2; d++) {
            if (!is_built(devices[d])) continue;
            const temporary_folder folder = copy_case(cases[c], 0);
            run("run", "naive", "--case", folder.path, "--out", folder.path, "--device", devices[d],
                NULL);
            expect(0, "naive|o.npy|dv.npy", "");
            ck_assert_int_eq(count_entries(folder.path), 10);
            run("check", "all", "--case", folder.path, NULL);
            expect(0, "PASS|0 failed|file", "");
            run("check", "naive", "--case", folder.path, "--device", devices[d], NULL);
            expect(0, "PASS|1 passed, 0 failed", "");
            remove_temporary_folder(&folder);
        }
}
END_TEST

START_TEST(run_makes_the_folder_it_writes_to) {
    const temporary_folder folder = make_temporary_folder();
    run("run", "naive", "--case", "tests/golden/one", "--out", in_folder(&folder, "new"), NULL);
    expect(0, "wrote", "");
    ck_assert_int_eq(count_entries(in_folder(&folder, "new")), 5);
    remove_temporary_folder(&folder);
}
END_TEST

START_TEST(a_falsified_result_fails) {
    static const char *const files[] = {"o.npy", "lse.npy", "dq.npy", "dk.npy", "dv.npy"};
    static const char *const names[] = {"o", "lse", "dq", "dk", "dv"};
    for (int f = 0; f < 5; f++) {
        const temporary_folder folder = copy_case("tests/golden/cross", 1);
        size_t size;
        char *bytes = read_bytes(in_folder(&folder, files[f]), &size);
        float value;
        memcpy(&value, bytes + size - 12, sizeof value);
        value += 0.01f * (1 + value * value);
        memcpy(bytes + size - 12, &value, sizeof value);
        write_bytes(in_folder(&folder, files[f]), bytes, size);
        free(bytes);
        run("check", "naive", "--case", folder.path, "--device", "host", NULL);
        expect(1, "FAIL|0 passed, 1 failed", "");
        ck_assert_msg(says(got.out, names[f]), "%s", got.out);
        remove_temporary_folder(&folder);
    }
}
END_TEST

START_TEST(check_needs_something_to_compare_with) {
    const temporary_folder folder = copy_case("tests/golden/one", 0);
    run("check", "all", "--case", folder.path, NULL);
    expect_refused("nothing to compare|o.npy");
    remove_temporary_folder(&folder);
}
END_TEST

// ---- bad folders and files -----------------------------------------------------------------------------
START_TEST(missing_and_malformed_cases_are_refused) {
    run("check", "all", "--case", "/nowhere/at/all", NULL);
    expect_refused("/nowhere/at/all");
    run("run", "naive", "--case", "/nowhere/at/all", "--out", "/nowhere", NULL);
    expect_refused("/nowhere/at/all");
    static const struct {
        const char *file, *text, *words;
    } wrong[] = {
        {"case.txt", "batch one\n", "case.txt|batch"},
        {"case.txt",
         "batch 1\nheads 3\nkv_heads 2\nq_len 1\nkv_len 1\nhead_dim 4\ncausal 0\nwindow 0\n",
         "heads"},
        {"q.npy", "this is no array", "q.npy"},
        {"k.npy", "", "k.npy"},
        {"v.npy", "\x93NUMPY\x01", "v.npy"},
        {"case.txt",
         "batch 1\nheads 1\nkv_heads 1\nq_len 7\nkv_len 17\nhead_dim 32\ncausal 0\nwindow 0\n",
         "q.npy"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const temporary_folder folder = copy_case("tests/golden/one", 1);
        write_text(in_folder(&folder, wrong[i].file), wrong[i].text);
        run("check", "naive", "--case", folder.path, NULL);
        expect_refused(wrong[i].words);
        run("run", "naive", "--case", folder.path, "--out", in_folder(&folder, "new"), NULL);
        expect_refused(wrong[i].words);
        ck_assert_msg(access(in_folder(&folder, "new"), F_OK) != 0, "a refused run left a folder");
        remove_temporary_folder(&folder);
    }
}
END_TEST

// Permissions do not stop root; a folder below a file, or a folder in a result's place, stops anyone.
START_TEST(a_folder_that_cannot_be_written_is_refused) {
    const temporary_folder folder = make_temporary_folder();
    write_text(in_folder(&folder, "file"), "x");
    run("run", "naive", "--case", "tests/golden/one", "--out", in_folder(&folder, "file/below"),
        NULL);
    expect_refused("file/below");
    run("run", "naive", "--case", "tests/golden/one", "--out", in_folder(&folder, "file"), NULL);
    expect_refused("file");
    run("run", "naive", "--case", "tests/golden/one", "--out", in_folder(&folder, "a/b"), NULL);
    expect_refused("a/b");
    ck_assert_int_eq(count_entries(folder.path), 1);
    remove_temporary_folder(&folder);
}
END_TEST

START_TEST(nothing_half_written_is_left) {
    const temporary_folder folder = make_temporary_folder();
    ck_assert_int_eq(mkdir(in_folder(&folder, "dk.npy"), 0777), 0); // in the way of the fourth file
    run("run", "naive", "--case", "tests/golden/one", "--out", folder.path, NULL);
    expect_refused("dk.npy");
    ck_assert_msg(count_entries(folder.path) == 1, "a run that failed left files behind");
    remove_temporary_folder(&folder);
}
END_TEST

// ---- falling back --------------------------------------------------------------------------------------
// A stage of chapter 2 has no backward pass, and these cases have do.npy.
START_TEST(what_a_stage_cannot_do_falls_back_or_is_refused) {
    run("list", NULL);
    if (!strstr(got.out, "online "))
        return test_skip("command_line: fallback", "no stage 'online'");
    const temporary_folder folder = copy_case("tests/golden/one", 0);
    run("run", "online", "--case", folder.path, "--out", in_folder(&folder, "new"), "--no-fallback",
        NULL);
    expect_refused("online|backward");
    ck_assert_msg(access(in_folder(&folder, "new"), F_OK) != 0, "a refused run left a folder");
    run("run", "online", "--case", folder.path, "--out", in_folder(&folder, "new"), NULL);
    expect(0, "online|backward|falling back to | on host: wrote", "");
    ck_assert_int_eq(count_entries(in_folder(&folder, "new")), 5);
    remove_temporary_folder(&folder);
}
END_TEST

// check proves forward results of a stage that has no backward pass; a case with none of these has no
// verdict, and no verdict is not a pass.
START_TEST(a_case_that_no_stage_does_fails) {
    run("list", NULL);
    if (!strstr(got.out, "online "))
        return test_skip("command_line: no stage", "no stage 'online'");
    const temporary_folder folder = copy_case("tests/golden/one", 1);
    unlink(in_folder(&folder, "o.npy"));
    unlink(in_folder(&folder, "lse.npy"));
    run("check", "online", "--case", folder.path, "--device", "host", NULL);
    ck_assert_msg(got.status == 0 || got.status == 1, "%s", got.err);
    ck_assert_msg(got.status == 1 || says(got.out, "lse|reference"), "nothing was compared:\n%s",
                  got.out);
    remove_temporary_folder(&folder);
}
END_TEST

TCase *cases_tests(void) {
    TCase *tests = tcase_create("cases");
    tcase_add_test(tests, run_then_check_agree);
    tcase_add_test(tests, run_makes_the_folder_it_writes_to);
    tcase_add_test(tests, a_falsified_result_fails);
    tcase_add_test(tests, check_needs_something_to_compare_with);
    tcase_add_test(tests, missing_and_malformed_cases_are_refused);
    tcase_add_test(tests, a_folder_that_cannot_be_written_is_refused);
    tcase_add_test(tests, nothing_half_written_is_left);
    tcase_add_test(tests, what_a_stage_cannot_do_falls_back_or_is_refused);
    tcase_add_test(tests, a_case_that_no_stage_does_fails);
    tcase_set_timeout(tests, 300);
    return tests;
}
