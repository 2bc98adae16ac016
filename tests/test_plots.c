// test_plots.c -- the pictures can be drawn from what is committed, with gnuplot and without, and say what
// follows from it.
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/temporary_folder.h"

#include <math.h>

Suite *plots_suite(void);

static char svg[262144];

static void draw(const char *name) {
    const temporary_folder folder = make_temporary_folder();
    char script[100], settings[600];
    snprintf(script, sizeof script, "plots/%s.gp", name);
    snprintf(settings, sizeof settings, "kind = 'svg'; set output '%s'",
             in_folder(&folder, "picture.svg"));
    run_command("gnuplot", "-e", settings, script, NULL);
    ck_assert_msg(got.status == 0 && got.err[0] == 0, "%s: status %d, %s", script, got.status,
                  got.err);
    read_file(in_folder(&folder, "picture.svg"), svg, sizeof svg);
    ck_assert_msg(strstr(svg, "</svg>") != NULL, "%s is not drawn to its end", name);
    remove_temporary_folder(&folder);
}

static int has_gnuplot(void) {
    run_command("gnuplot", "--version", NULL);
    return got.status == 0;
}

START_TEST(all_pictures_are_drawn) {
    static const char *const names[] = {"traffic",         "traffic-backward",
                                        "tiles",           "memory",
                                        "memory-training", "time",
                                        "time-backward",   "masks",
                                        "roofline"};
    if (!has_gnuplot()) return test_skip("plots: pictures", "there is no gnuplot");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) draw(names[i]);
}
END_TEST

// The lines go on beyond the data: naive's reaches 80 GB where 16 heads of d = 64 do, with nine tensors and
// four arrays of N^2.
START_TEST(the_longest_n_of_the_picture_is_the_closed_form) {
    const double a = 4 * 16 * 4, b = 4.0 * 16 * (8 * 64 + 1);
    const int n = (int)((sqrt(b * b + 4 * a * 80e9) - b) / (2 * a));
    char text[40];
    if (!has_gnuplot()) return test_skip("plots: the longest N", "there is no gnuplot");
    draw("memory-training");
    snprintf(text, sizeof text, "N = %d %03d", n / 1000, n % 1000);
    ck_assert_msg(says(svg, "80 GB|24 GB") && strstr(svg, text) != NULL, "no '%s'", text);
}
END_TEST

// Without gnuplot. At N=128 naive asks for 16252928 bytes backward, and has 6815744 reach DRAM.
START_TEST(traffic_is_drawn_in_characters) {
    run_command("awk", "-f", "plots/text.awk", "plots/data/traffic-backward.csv", NULL);
    expect(0,
           "backward, B=1 H=16 d=64 fp32|     128               16.3|naive 6.8|N  naive|N =    128",
           "");
    run_command("awk", "-f", "plots/text.awk", "plots/data/traffic.csv", NULL);
    expect(0, "forward, B=1 H=16 d=64 fp32|q-outer-plain|Q  Q outer|Q outer stands on the floor",
           "");
    ck_assert_ptr_null(strstr(got.out, "recompute")); // its forward pass is another stage's
}
END_TEST

Suite *plots_suite(void) {
    Suite *suite = suite_create("plots");
    TCase *tests = tcase_create("plots");
    tcase_add_test(tests, all_pictures_are_drawn);
    tcase_add_test(tests, the_longest_n_of_the_picture_is_the_closed_form);
    tcase_add_test(tests, traffic_is_drawn_in_characters);
    suite_add_tcase(suite, tests);
    return suite;
}
