// test_grade.c -- the exercises: what is handed out fails, the answer passes, and each usual mistake gets its
// hint. `make test` has built them: tests/grade/wrong.txt, grade.mk.
#include "cpu/modules.h"
#include "tests/harness.h"
#include "tests/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *grade_suite(void);

enum { MAX_ANSWERS = 128 };
typedef struct wrong_answer {
    char name[80], hint[120];
} wrong_answer;
static wrong_answer answers[MAX_ANSWERS];
static int answer_count;
static const char table_file[] = "tests/grade/wrong.txt";

static void read_table(void) {
    FILE *table = fopen(table_file, "r");
    char line[400];
    answer_count = 0;
    while (table && fgets(line, sizeof line, table)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "mutant   ", 9) == 0 && answer_count < MAX_ANSWERS)
            snprintf(answers[answer_count++].name, sizeof answers->name, "%.79s", line + 9);
        if (strncmp(line, "hint     ", 9) == 0 && answer_count > 0)
            snprintf(answers[answer_count - 1].hint, sizeof answers->hint, "%.119s", line + 9);
    }
    if (table) fclose(table);
}

static const char *build_folder(void) {
    unsetenv("ATTENTION_MODULES"); // the program's own folder is meant
    return attn_modules_folder();
}

// Grades build/grade/wrong/NAME; `got.out` is then on one line.
static void grade(const char *name, const char *seed) {
    char grader[4200], folder[4300], number[2] = {name[0], 0};
    setenv("OMP_NUM_THREADS", "1", 1); // as grade.sh does
    snprintf(grader, sizeof grader, "%s/grader", build_folder());
    snprintf(folder, sizeof folder, "%s/grade/wrong/%s", build_folder(), name);
    run_command(grader, number, folder, "--seconds", "20", "--seed", seed, NULL);
    char *to = got.out;
    for (const char *from = got.out; *from; from++) {
        const char c = *from == '\n' ? ' ' : *from;
        if (c != ' ' || to == got.out || to[-1] != ' ') *to++ = c;
    }
    *to = 0;
}

START_TEST(the_answer_gets_its_verdict) {
    const wrong_answer *a = &answers[_i];
    const int right = strcmp(a->hint, "PASS") == 0;
    grade(a->name, "1");
    ck_assert_msg(strstr(got.out, a->hint) != NULL, "%s: no '%s' in: %s%s", a->name, a->hint,
                  got.out, got.err);
    const int ended =
        strstr(a->hint, "never ends") || strstr(a->hint, "signal") || strstr(a->hint, "of memory");
    ck_assert_int_eq(got.status, right ? 0 : ended ? 4 : 1);
    ck_assert_msg(!right || !strstr(got.out, "Hint"), "%s", got.out);
    if (!right) return;
    grade(a->name, "7");
    ck_assert_msg(got.status == 0, "%s with other sizes: %s", a->name, got.out);
}
END_TEST

START_TEST(what_is_handed_out_fails) {
    int found = 0;
    for (int number = 1; number <= 9; number++) {
        char path[4300], name[20];
        snprintf(name, sizeof name, "%d-stub", number);
        snprintf(path, sizeof path, "%s/grade/wrong/%s", build_folder(), name);
        if (access(path, R_OK) != 0) continue;
        found++;
        grade(name, "1");
        ck_assert_msg(got.status == 1 && strstr(got.out, "FAIL"), "%s: %s%s", name, got.out,
                      got.err);
        ck_assert_msg(strstr(got.out, "the first case that fails: "), "%s: %s", name, got.out);
    }
    ck_assert_int_gt(found, 0);
}
END_TEST

START_TEST(the_table_is_whole) {
    ck_assert_msg(answer_count > 0 && answer_count < MAX_ANSWERS, "%s: %d answers", table_file,
                  answer_count);
    for (int i = 0; i < answer_count; i++)
        ck_assert_msg(answers[i].hint[0], "%s has no hint", answers[i].name);
}
END_TEST

Suite *grade_suite(void) {
    Suite *suite = suite_create("grade");
    TCase *tests = tcase_create("answers");
    char folder[4300];
    read_table();
    tcase_add_test(tests, the_table_is_whole);
    snprintf(folder, sizeof folder, "%s/grade/wrong", attn_modules_folder());
    if (test_run.quick || access(folder, R_OK) != 0) {
        test_skip("grade: all", "%s",
                  test_run.quick ? "they take minutes; make test has them"
                                 : "make test builds them");
    } else {
        tcase_add_test(tests, what_is_handed_out_fails);
        tcase_add_loop_test(tests, the_answer_gets_its_verdict, 0, answer_count);
    }
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
