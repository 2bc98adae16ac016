// test_make.c -- the Makefile's knobs: a misspelled one is refused, not ignored. Nothing is built: make -n.
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/temporary_folder.h"

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
                "WORK=x.cu", "JUNIT=x.xml", NULL);
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
    expect(0, "make chapterN|CAUSAL=1|EMULATED_GPU=", "");
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

Suite *make_suite(void) {
    Suite *suite = suite_create("make");
    TCase *tests = tcase_create("knobs");
    tcase_add_test(tests, unknown_knobs_are_refused);
    tcase_add_test(tests, known_knobs_are_taken);
    tcase_add_test(tests, help_names_the_emulated_gpu);
    tcase_add_test(tests, what_may_fall_back_builds_the_others);
    tcase_add_test(tests, the_library_is_replaced_whole);
    suite_add_tcase(suite, tests);
    return suite;
}
