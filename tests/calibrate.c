// calibrate.c -- prints the tables of notes/precision.md: how much of their allowances two right
// versions use, and by how much broken ones exceed them.
//
//   calibrate [seeds [FILE]]     default 20; FILE: renew the tables between its markers
#include "cpu/cli/generated.h"
#include "tests/rounding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static char text[2][8192]; // right versions, broken ones
static size_t used;
static char *table = text[0];

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (used < sizeof text[0])
        used += (size_t)vsnprintf(table + used, sizeof text[0] - used, format, arguments);
    va_end(arguments);
}

static void print_row(const char *name, const double *ratio, int precise) {
    put("| %-30s |", name);
    for (int r = 0; r <= ATTN_RESULT_DV; r++) put(precise ? " %6.2f |" : " %6.1e |", ratio[r]);
    put("\n");
}

static void print_head(const char *title) {
    put("\n| %-30s |", title);
    for (int r = 0; r <= ATTN_RESULT_DV; r++) put(" %6s |", attn_result_name((attn_result)r));
    put("\n| --- | ---: | ---: | ---: | ---: | ---: |\n");
}

static void raise_all(double *maximum, const double *value) {
    for (int r = 0; r <= ATTN_RESULT_DV; r++) // a NaN stays to be seen
        if (!(value[r] <= maximum[r])) maximum[r] = value[r];
}

int main(int count, char **arguments) {
    const int seeds = count > 1 ? atoi(arguments[1]) : 20;
    double naive[KINDS][ATTN_RESULTS] = {{0}}, online[KINDS][ATTN_RESULTS] = {{0}};
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < PROBLEMS; i++)
            for (int seed = 1; seed <= seeds; seed++) {
                attn_problem problem = problem_of(i);
                ratios ratio = measure(&problem, (input_kind)kind, seed, BUG_NONE);
                raise_all(naive[kind], ratio.naive);
                raise_all(online[kind], ratio.online);
            }
    printf("%d problems, %d seeds each, seen at worst\n", PROBLEMS, seeds);
    print_head("naive: error / bound");
    for (int kind = 0; kind < KINDS; kind++) print_row(kind_name(kind), naive[kind], 1);
    print_head("online: error / allowance");
    for (int kind = 0; kind < KINDS; kind++) print_row(kind_name(kind), online[kind], 1);

    // One row a bug: its error on the input that shows it best, in parts of what a stage may be off
    // by, then of what the naive version may.
    table = text[1], used = 0;
    for (int against = 0; against < 2; against++) {
        print_head(against ? "broken: error / naive's bound" : "broken: error / allowance");
        for (int broken = 1; broken < BUGS; broken++) {
            double worst[ATTN_RESULTS] = {0};
            for (int kind = 0; kind < KINDS; kind++)
                for (int i = 0; i < PROBLEMS; i++) {
                    attn_problem problem = problem_of(i);
                    ratios ratio = measure(&problem, (input_kind)kind, 1, (bug)broken);
                    raise_all(worst, against ? ratio.bound : ratio.online);
                }
            print_row(bug_name((bug)broken), worst, 0);
        }
    }
    printf("%s%s", text[0], text[1]);
    if (count < 3) return 0;
    attn_status status = attn_generated_replace(arguments[2], "calibrate-right", text[0] + 1);
    if (status.code == ATTN_OK)
        status = attn_generated_replace(arguments[2], "calibrate-broken", text[1] + 1);
    if (status.code != ATTN_OK) fprintf(stderr, "calibrate: %s\n", status.text);
    return attn_exit_status(status);
}
