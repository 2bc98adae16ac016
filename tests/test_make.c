// test_make.c -- the Makefile's knobs: a misspelled one is refused, not ignored. Nothing is built: make -n.
// And make diffN, which is a script.
#include "cpu/input.h"
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/temporary_folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Suite *make_suite(void);

static int has_gnu_make(void) {
    // What the make that runs these tests was told is not meant for the next.
    unsetenv("MAKEFLAGS");
    unsetenv("MFLAGS");
    unsetenv("MAKELEVEL");
    run_command("make", "--version", NULL);
    return got.status == 0 && says(got.out, "GNU Make");
}

START_TEST(unknown_knobs_are_refused) {
    static const char *const wrong[][2] = {
        {"BATCHES=2", "no knob BATCHES"}, {"n=5", "no knob n:"},
        {"CFLAGS=-O0", "no knob CFLAGS"}, {"DIM:=64", ""},
        {"HEAD=4", "no knob HEAD:"},      {"N=5", ""},
        {"OPT=-O1 BATCHES=2", ""}, // one value with a blank in it
        {"Dim=a=b", "no knob Dim"},       {"EMULATE_GPU=T4", "no knob EMULATE_GPU"},
    };
    if (!has_gnu_make())
        return test_skip("make: unknown knobs", "there is no GNU Make called make");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int refused = wrong[i][1][0] != 0;
        run_command("make", "-n", "help", wrong[i][0], NULL);
        expect(refused ? 2 : 0, refused ? "" : "printf", wrong[i][1]);
        ck_assert_msg(!refused || says(got.err, "KVHEADS|would change nothing|EMULATED_GPU"), "%s",
                      got.err);
    }
    run_command("make", "-n", "deps", "help", "HAEDS=2", NULL);
    expect(2, "", "no knob HAEDS");
}
END_TEST

START_TEST(known_knobs_are_taken) {
    if (!has_gnu_make()) return test_skip("make: known knobs", "there is no GNU Make called make");
    run_command("make", "-n", "help", "N=1", "QLEN=1", "KVLEN=1", "BATCH=1", "HEADS=1", "KVHEADS=1",
                "DIM=1", "SCALE=1", "SEED=1", "KIND=wide", "BR=1", "BC=1", "CAUSAL=1", "WINDOW=1",
                "DEVICE=host", "INPUT=x", "REPEAT=1", "CSV=1", "FALLBACK=0", "TO=1", "COUNT=1",
                "PASS=forward", "SIZES=1:1:1:1 2:2:2:2", "QUICK=1", "STAGES=naive", "SUITE=npy",
                "WORK=x.cu", "JUNIT=x.xml", "BUG=x", NULL);
    expect(0, "printf", "");
    run_command("make", "-n", "help", "CC=gcc", "CXX=g++", "NVCC=", "PYTHON=python3", "ARCH=80 90",
                "BUILD=build/x", "OPT=-O1", "EMULATOR_OPT=-O1",
                "MARCH=", "OPENMP=", "CPPFLAGS=-DX=1", "SAN=", "WERROR=1", "V=1", "SHELL=/bin/sh",
                "EMULATED_GPU=T4", "OMP_NUM_THREADS=2", NULL);
    expect(0, "printf", "");
}
END_TEST

// make help says what there is; all who type a wrong one are told the same.
START_TEST(help_names_the_emulated_gpu) {
    if (!has_gnu_make()) return test_skip("make: help", "there is no GNU Make called make");
    run_command("make", "help", NULL);
    expect(0, "make chapterN|CAUSAL=1|EMULATED_GPU=|DEVICE=host|emulator|check|gpu", "");
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++)
        ck_assert_ptr_nonnull(strstr(got.out, attn_input_name((attn_input_kind)kind)));
}
END_TEST

// Who learns reads what is for them first; and nothing is listed twice.
START_TEST(help_begins_with_the_learners_targets) {
    static const char *const first[] = {"chapterN", "traceN", "diffN",  "exerciseN", "gradeN",
                                        "breakN",   "deps",   "doctor", "scenarios", "features",
                                        "traffic",  "plots",  NULL};
    if (!has_gnu_make()) return test_skip("make: help", "there is no GNU Make called make");
    run_command("make", "help", NULL);
    expect(0, "make format |make tables ", "");
    const char *maintainers = strstr(got.out, "\n\n");
    ck_assert_ptr_nonnull(maintainers);
    for (int i = 0; first[i]; i++) {
        char target[40];
        snprintf(target, sizeof target, "  make %s ", first[i]);
        const char *place = strstr(got.out, target);
        ck_assert_msg(place && place < maintainers, "%s", target);
        ck_assert_msg(!strstr(place + 1, target), "%s is there twice", target);
    }
    ck_assert(strstr(got.out, "  make format ") > maintainers);
}
END_TEST

// A feature that a chapter may lack has every chapter's stages built: one of them takes the place.
START_TEST(what_may_fall_back_builds_the_others) {
    if (!has_gnu_make()) return test_skip("make: fallback", "there is no GNU Make called make");
    const temporary_folder folder = make_temporary_folder();
    char build[300], last[400];
    snprintf(build, sizeof build, "BUILD=%s", folder.path);
    snprintf(last, sizeof last, "-o %s/host/05.so", folder.path);
    run_command("make", "-n", "chapter1", build, "SOFTCAP=30", "FALLBACK=0", NULL);
    expect(0, last, "");
    expect(0, "chapter 1|--softcap '30'|--no-fallback", "");
    run_command("make", "-n", "chapter1", build, "CAUSAL=1", NULL);
    expect(0, "chapter 1|--causal '1'", "");
    ck_assert_ptr_null(strstr(got.out, last));
    ck_assert_ptr_null(strstr(got.out, "--no-fallback"));
    remove_temporary_folder(&folder);
}
END_TEST

// Another make in the folder may be linking the library: it is replaced whole, never removed.
START_TEST(the_library_is_replaced_whole) {
    if (!has_gnu_make()) return test_skip("make: library", "there is no GNU Make called make");
    const temporary_folder folder = make_temporary_folder();
    char build[300], library[300], remove[400], archive[400];
    snprintf(build, sizeof build, "BUILD=%s", folder.path);
    snprintf(library, sizeof library, "%s/cpu.a", folder.path);
    snprintf(remove, sizeof remove, "rm -f %s\n", library);
    snprintf(archive, sizeof archive, "ar rcs %s ", library);
    run_command("make", "-n", library, build, NULL);
    expect(0, "ar rcs |mv -f ", "");
    ck_assert_ptr_null(strstr(got.out, remove));
    ck_assert_ptr_null(strstr(got.out, archive));
    remove_temporary_folder(&folder);
}
END_TEST

// ---- make diffN ----------------------------------------------------------------------------------------------
// Every chapter but the first has a list, of files and functions that are there.
START_TEST(every_chapter_says_what_it_changed) {
    int chapters = 0;
    DIR *listing = opendir("chapters");
    ck_assert_ptr_nonnull(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char folder[300];
        if (atoi(entry->d_name) < 2) continue;
        snprintf(folder, sizeof folder, "chapters/%s", entry->d_name);
        run_command("sh", "chapters/diff.sh", folder, NULL);
        expect(0, "Chapter | -> |    became   |\n--- |\n-|\n+", "");
        ck_assert_str_eq(got.err, "");
        ck_assert_ptr_null(strchr(got.out, 033)); // no colours in a file
        ck_assert_ptr_null(strstr(got.out, "TRACE_"));
        chapters++;
    }
    closedir(listing);
    ck_assert_int_ge(chapters, 5);
    if (!has_gnu_make()) return;
    run_command("make", "-n", "diff3", NULL);
    expect(0, "sh chapters/diff.sh chapters/03-", "");
}
END_TEST

static void write_list(const temporary_folder *folder, const char *list) {
    char text[4000];
    snprintf(text, sizeof text, list, folder->path, folder->path);
    write_text(in_folder(folder, "before.txt"), text);
}

START_TEST(a_diff_tells_kept_from_changed) {
    const temporary_folder folder = make_temporary_folder();
    write_text(in_folder(&folder, "README.md"), "# A chapter\n");
    write_text(in_folder(&folder, "old.cu"),
               "enum { ROWS = 4 };\n"
               "static int same(int a) { // a comment\n    return a;\n}\n"
               "template <int D>\n__global__ void __launch_bounds__(most<D>(), 1)\n"
               "    slow(float *o) {\n    o[0] = 1;\n    o[1] = 2;\n}\n"
               "int other(void);\nint other(void) {\n    return 1;\n}\nvoid lost(void) {}\n");
    write_text(
        in_folder(&folder, "new.cu"),
        "static int same(int a) {\n    return a; // another\n}\n"
        "__global__ void fast(float *o) {\n    if (1) {\n        o[0] = 1;\n        o[1] = 3;\n"
        "    }\n}\nint other(void) {\n    return 2;\n}\nvoid found(void) {}\n");
    write_list(&folder, "idea In words.\npair %s/old.cu %s/new.cu slow:fast\n");
    run_command("sh", "chapters/diff.sh", folder.path, NULL);
    expect(0,
           "A chapter\n\nIn words.\n|    became   slow -> fast\n    kept     same\n"
           "    changed  other\n    gone     lost\n    new      found\n|"
           "\n     o[0] = 1;\n-    o[1] = 2;\n+        o[1] = 3;\n|\n-template <int D>\n",
           "");
    write_list(&folder, "pair %s/old.cu %s/new.cu slow:faster\n");
    run_command("sh", "chapters/diff.sh", folder.path, NULL);
    expect(2, "", "there is no function faster in|new.cu");
    write_list(&folder, "pair %s/old.cu %s/newer.cu\n");
    run_command("sh", "chapters/diff.sh", folder.path, NULL);
    expect(2, "", "there is no file|newer.cu");
    write_list(&folder, "pear a b\n");
    run_command("sh", "chapters/diff.sh", folder.path, NULL);
    expect(2, "", "pear is none of idea, keeps and pair");
    run_command("sh", "chapters/diff.sh", "chapters/01-naive", NULL);
    expect(2, "", "there is no chapters/01-naive/before.txt");
    remove_temporary_folder(&folder);
}
END_TEST

Suite *make_suite(void) {
    Suite *suite = suite_create("make");
    TCase *diffs = tcase_create("diffs");
    tcase_add_test(diffs, every_chapter_says_what_it_changed);
    tcase_add_test(diffs, a_diff_tells_kept_from_changed);
    suite_add_tcase(suite, diffs);
    TCase *tests = tcase_create("knobs");
    tcase_add_test(tests, unknown_knobs_are_refused);
    tcase_add_test(tests, known_knobs_are_taken);
    tcase_add_test(tests, help_names_the_emulated_gpu);
    tcase_add_test(tests, help_begins_with_the_learners_targets);
    tcase_add_test(tests, what_may_fall_back_builds_the_others);
    tcase_add_test(tests, the_library_is_replaced_whole);
    suite_add_tcase(suite, tests);
    return suite;
}
