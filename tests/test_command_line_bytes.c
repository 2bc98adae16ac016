// test_command_line_bytes.c -- attention traffic, pass and tiles: bytes by formula, by count, and behind the L2.
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/test_command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// 256 queries and keys of 2 heads fit into the L2 of an H200 with all that is stored: what is read from
// DRAM are the inputs, what is written is left in the cache.
START_TEST(traffic_counts_and_models) {
    if (!is_built("emulator")) return test_skip("command_line: traffic", "there is no emulator");
    setenv("EMULATED_GPU", "H200", 1);
    run("traffic", "--n", "256", "--heads", "2", "--device", "emulator", NULL);
    expect(0, "1 naive|the same|compulsory|0.393216|1.1817|MB by tensor", "");
    run("traffic", "--n", "64", "--to", "128", "--heads", "1", "--dim", "16", "--pass", "backward",
        "--device", "emulator", "--csv", NULL);
    ck_assert_msg(got.status == 0 && says(got.out, ",64,|,128,|,all,"), "%s", got.err);
    expect_csv(20);
    run("pass", "naive", "--n", "256", "--heads", "2", "--device", "emulator", NULL);
    expect(0, "naive, forward|DRAM read 0.393216 MB, written 0 MB, left in the L2 1.1817 MB", "");
    run("pass", "naive", "--pass", "sideways", NULL);
    expect_refused("sideways|forward or backward");
    run("pass", "naive", "--device", "host", NULL);
    expect_refused("host|no L2 cache");
    run("traffic", "--device", "host", NULL);
    expect_refused("host|emulator");
}
END_TEST

// At N=1024 d=64 a head's Q, K, V, O are 262144 bytes each and its L 4096. Q outer reads K and V once for
// each tile of Br queries. Tiles of 64 x 64 take three of 64 x 68 numbers, and one more for P: 66560 bytes,
// where a T4 gives a block 65536.
START_TEST(tiles_are_compared) {
    if (!is_built("emulator")) return test_skip("command_line: tiles", "there is no emulator");
    run("tiles", "--heads", "1", "--br", "64", "--bc", "64", NULL);
    expect(0, "B=1 H=1 N=1024 d=64|Br|Bc|shared KB|3 q-outer-plain|68.0|8.65075|0.26624|all but T4",
           "");
    run("tiles", "--heads", "1", "--csv", NULL);
    expect(0,
           ",64,64,69632,8650752,266240,1052672,all but T4\n|,128,64,|,16,16,|q-outer,|fixed,fixed",
           "");
    expect_csv(16);
    run("tiles", "--dim", "128", NULL);
    expect(0, "H100 H200 B200", "left out, 1 of 16|128 x 128|shared memory");
    run("tiles", "--br", "48", NULL);
    expect(2, "", "48|16, 32, 64 or 128");
    run("tiles", "--pass", "backward", NULL);
    expect(0, "Backward|recompute-atomic|fixed", "");
    run("tiles", "--br", "0", NULL);
    expect_refused("BR|0|from 1");
}
END_TEST

// Refused before anything runs, and with advice only where there is a choice. A chapter of which no stage
// fits falls back to one that does, says so, and is no proof of its own.
START_TEST(what_does_not_fit_the_gpu_is_refused) {
    static const char *const fixed[] = {"q-outer",  "kv-outer",         "kv-grid",
                                        "kv-split", "recompute-atomic", "masked"};
    if (!is_built("emulator")) return test_skip("command_line: fit", "there is no emulator");
    setenv("EMULATED_GPU", "T4", 1);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        run("pass", fixed[i], "--n", "64", "--dim", "64", "--device", "emulator", NULL);
        expect_refused("head_dim 64|bytes of shared memory, and this GPU gives it 65536");
        ck_assert_ptr_null(strstr(got.err, "smaller"));
        ck_assert_ptr_null(strstr(got.err, "FAIL"));
    }
    run("pass", "q-outer-plain", "--n", "64", "--dim", "64", "--device", "emulator", NULL);
    expect_refused("64 x 64|69632 bytes|65536|smaller BR or BC");
    run("pass", "q-outer-plain", "--n", "64", "--dim", "64", "--br", "32", "--device", "emulator",
        NULL);
    expect(0, "", "");
    // Where not even the proof's cases run, naive in their place would prove nothing.
    run("chapter", "4", "--n", "64", "--device", "emulator", NULL);
    expect(2, "", "kv-outer needs");
    ck_assert_ptr_null(strstr(got.out, "falls back"));
    run("chapter", "4", "--n", "64", "--device", "emulator", "--no-fallback", NULL);
    expect(2, "", "kv-outer needs");
    ck_assert_ptr_null(strstr(got.err, "FAIL"));
    setenv("EMULATED_GPU", "L4", 1); // 99 KB
    run("pass", "q-outer", "--n", "64", "--dim", "64", "--device", "emulator", NULL);
    expect(0, "", "");
}
END_TEST

// What the pictures in plots/ are drawn from is what the program says today. Only from N=1024 on does
// naive leave the L2, and its DRAM bytes depend on the kernel's order; that takes seconds.
START_TEST(plots_data_is_what_the_program_writes) {
    if (!is_built("emulator")) return test_skip("command_line: plots/data", "there is no emulator");
    setenv("EMULATED_GPU", "H200", 1);
    static const char *const paths[] = {"plots/data/tiles-1024.csv", "plots/data/traffic.csv",
                                        "plots/data/traffic-backward.csv"};
    for (int i = 0; i < 3; i++) {
        static char committed[65536];
        const char *path = paths[i];
        int rows = 0;
        read_file(path, committed, sizeof committed);
        if (i == 0)
            run("tiles", "--heads", "16", "--n", "1024", "--csv", NULL);
        else
            run("traffic", "--heads", "16", "--n", test_run.quick ? "128" : "1024", "--pass",
                i == 1 ? "forward" : "backward", "--device", "emulator", "--csv", NULL);
        ck_assert_msg(got.status == 0, "%s", got.err);
        for (char *rest, *line = strtok_r(got.out, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest), rows++) {
            char whole[1024];
            snprintf(whole, sizeof whole, "\n%s\n", line);
            ck_assert_msg(strstr(committed, whole) != NULL,
                          "%s lacks: %s\nmake plots-data renews it", path, line);
        }
        ck_assert_int_gt(rows, 10);
    }
}
END_TEST

START_TEST(traffic_does_not_end_before_it_starts) {
    if (!is_built("emulator"))
        return test_skip("command_line: traffic --to", "there is no emulator");
    run("traffic", "--n", "128", "--to", "64", NULL);
    expect_refused("--to (TO) is 64|128 keys");
    run("traffic", "--to", "1023", NULL); // N is 1024 where nothing else is said
    expect_refused("--to (TO) is 1023|1024 keys");
    run("traffic", "--n", "64", "--to", "64", "--count-to", "0", "--heads", "1", "--dim", "16",
        "--device", "emulator", NULL);
    expect(0, "compulsory", "");
}
END_TEST

START_TEST(traffic_beyond_what_is_counted_is_the_formula_alone) {
    if (!is_built("emulator"))
        return test_skip("command_line: traffic --count-to", "there is no emulator");
    run("traffic", "--n", "64", "--to", "16384", "--count-to", "64", "--heads", "1", "--dim", "16",
        "--device", "emulator", "--csv", NULL);
    ck_assert_int_eq(got.status, 0);
    expect_csv(40);
    // S and P of 16384^2 numbers, of which P is kept, and four tensors with L: no memory is asked for, and
    // nothing stands in the counted columns.
    expect(0,
           "naive,forward,emulator,1,1,1,16384,16384,16,0,all,|,,,,,,2147483648,1073741824,"
           "2151743488\n|compulsory",
           "");
    // Backward dP and dS besides, and four tensors more.
    run("traffic", "--n", "16384", "--count-to", "64", "--heads", "1", "--dim", "16", "--pass",
        "backward", "--device", "emulator", "--csv", NULL);
    expect(0, ",,,,,,2147483648,1073741824,4303421440\n|compulsory", "");
}
END_TEST

// On a GPU with few multiprocessors chapter 6 mixes the blocks of few heads at a time; here 7 heads are no
// multiple of them, and a wrong head is out of bounds. Sequences are long enough for several mixes.
START_TEST(heads_that_do_not_divide_evenly_on_a_small_gpu) {
    if (!is_built("emulator")) return test_skip("command_line: small GPU", "there is no emulator");
    setenv("EMULATED_GPU", "H200/66", 1);
    static const char *const passes[] = {"forward", "backward"};
    for (int i = 0; i < 2; i++) {
        run("pass", "masked", "--device", "emulator", "--pass", passes[i], "--heads", "7", "--n",
            "1200", "--dim", "16", "--causal", "1", NULL);
        expect(0, "masked", "");
    }
}
END_TEST

TCase *bytes_tests(void) {
    TCase *tests = tcase_create("bytes");
    tcase_add_test(tests, traffic_counts_and_models);
    tcase_add_test(tests, tiles_are_compared);
    tcase_add_test(tests, what_does_not_fit_the_gpu_is_refused);
    tcase_add_test(tests, plots_data_is_what_the_program_writes);
    tcase_add_test(tests, heads_that_do_not_divide_evenly_on_a_small_gpu);
    tcase_add_test(tests, traffic_does_not_end_before_it_starts);
    tcase_add_test(tests, traffic_beyond_what_is_counted_is_the_formula_alone);
    tcase_set_timeout(tests, 300);
    return tests;
}
