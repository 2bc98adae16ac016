// test_command_line_scenarios.c -- attention scenarios: its figures are those derived here by hand.
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/test_command_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Blocks: a head and 128 queries each for q-outer; a head for kv-outer. Bytes: q-outer reads Q once, K and V
// once for each of 16 tiles of queries. Two matrices of N^2 for naive.
static const char *const rows[] = {
    "\ntraining,q-outer,forward,8,32,32,2048,2048,64,0,274877906944,4429185024,136314880,0,4096,"
    "132,",
    "\ntraining,kv-outer,forward,8,32,32,2048,2048,64,0,274877906944,8854175744,4427087872,4194304,"
    "256,132,",
    "\ntraining,recompute-atomic,backward,8,32,32,2048,2048,64,0,687194767360,",
    ",2097152,4096,132,", // its D, and a block for each head and 128 keys
    "\n\"training, longer\",naive,forward,8,32,32,8192,8192,64,0,4398046511104,",
    ",137438953472,32768,132,",
    // 32 slices of two tiles of 64 keys fill 132 multiprocessors twice with 8 heads, nearly. Q for each
    // slice, 512 KB; K and V once, 32 MB; partial O and L, 516 KB, written and read; O and L, 16.1 KB.
    "\ndecode,kv-split,forward,1,32,8,1,4096,128,0,67108864,34607104,544896,528384,256,132,",
    "\n\"prefill, causal\",masked,forward,1,32,8,4096,4096,128,1,",
    "\n\"decode, many and longer\",kv-outer,forward,64,32,8,1,32768,128,0,",
};

START_TEST(scenarios_have_blocks_bytes_and_memory) {
    if (!is_built("emulator")) return test_skip("command_line: scenarios", "there is no emulator");
    setenv("EMULATED_GPU", "H200", 1);
    run("scenarios", "--csv", NULL);
    ck_assert_msg(got.status == 0, "%s", got.err);
    expect_csv(40);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(strstr(got.out, rows[i]) != NULL, "no row %s", rows[i]);
    // A stage without masks, and one whose launches are another's.
    ck_assert(!strstr(got.out, "causal\",q-outer"));
    ck_assert(!strstr(got.out, "training,recompute-atomic,forward"));
    setenv("EMULATED_GPU", "A100", 1); // 216 blocks at a time: slices of three tiles, 22 of them
    run("scenarios", "--csv", NULL);
    ck_assert(strstr(got.out, "\ndecode,kv-split,forward,1,32,8,1,4096,128,0,67108864,"));
    ck_assert(strstr(got.out, ",176,108,"));
}
END_TEST

// The milliseconds of the first row that begins so: the file is recorded anew now and then.
static double recorded_ms(const char *beginning) {
    char line[512];
    double ms = NAN;
    FILE *file = fopen("plots/recorded/h200-stages.csv", "r");
    ck_assert(file != NULL);
    while (isnan(ms) && fgets(line, sizeof line, file))
        if (strncmp(line, beginning, strlen(beginning)) == 0) ms = atof(line + strlen(beginning));
    fclose(file);
    return ms;
}

START_TEST(scenarios_show_recorded_times) {
    if (!is_built("emulator")) return test_skip("command_line: scenarios", "there is no emulator");
    char words[200];
    snprintf(words, sizeof words,
             "training, forward: B=8 H=32 N=2048 d=64|recorded ms|%.4g|%.4g|NVIDIA H200|"
             "as q-outer: recompute-atomic",
             recorded_ms("q-outer-plain,forward,8,32,32,2048,2048,64,0,"),
             recorded_ms("naive,backward,8,32,32,2048,2048,64,0,"));
    run("scenarios", NULL);
    expect(0, words, "");
    run("scenarios", "--n", "64", NULL);
    expect_refused("scenarios has no option --n");
}
END_TEST

// Nothing is run, whatever it would take.
START_TEST(a_dry_run_lists_its_launches) {
    if (!is_built("check")) return test_skip("command_line: dry runs", "there is no check build");
    setenv("EMULATED_DRY", "1", 1);
    run("pass", "q-outer", "--n", "256", "--device", "check", NULL);
    expect(0, "multiprocessors 132\nlaunch 8 128 99072 q_outer<D>\n|memory: 0 sectors", "");
    setenv("EMULATED_DRY", "0", 1);
    run("pass", "q-outer", "--n", "256", "--device", "check", NULL);
    ck_assert(got.status == 0 && !strstr(got.out, "launch 8 128"));
}
END_TEST

TCase *scenarios_tests(void) {
    TCase *tests = tcase_create("scenarios");
    tcase_add_test(tests, scenarios_have_blocks_bytes_and_memory);
    tcase_add_test(tests, scenarios_show_recorded_times);
    tcase_add_test(tests, a_dry_run_lists_its_launches);
    return tests;
}
