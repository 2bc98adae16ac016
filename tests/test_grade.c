// test_grade.c -- the exercises: what is handed out fails, the answer passes, and each usual mistake gets its
// hint. `make test` has built them: tests/grade/wrong.txt, grade.mk.
#include "cpu/modules.h"
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/temporary_folder.h"

#include <glob.h>
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
    run_command(grader, number, folder, "--seconds", strstr(name, "never-ends") ? "8" : "60",
                "--megabytes", "1000", "--seed", seed, NULL);
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
        ck_assert_msg(strstr(got.out, " cases pass"), "%s: %s", name, got.out);
    }
    ck_assert_int_gt(found, 0);
}
END_TEST

// ---- make breakN ---------------------------------------------------------------------------------------
enum { MAX_BUGS = 96 };
typedef struct planted {
    char chapter[3], name[80], mutant[100];
    int what, why;
} planted;
static planted bugs[MAX_BUGS];
static int bug_count;

static void read_bugs_of(const char *path) {
    FILE *file = fopen(path, "r");
    char line[2000];
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "bug      ", 9) == 0 && bug_count < MAX_BUGS) {
            planted *b = &bugs[bug_count++];
            memset(b, 0, sizeof *b);
            snprintf(b->chapter, sizeof b->chapter, "%.2s", path + strlen("chapters/"));
            snprintf(b->name, sizeof b->name, "%.79s", line + 9);
        }
        if (bug_count == 0) continue;
        planted *b = &bugs[bug_count - 1];
        if (strncmp(line, "mutant   ", 9) == 0)
            snprintf(b->mutant, sizeof b->mutant, "%.99s", line + 9);
        b->what |= strncmp(line, "what     ", 9) == 0;
        b->why |= strncmp(line, "why      ", 9) == 0;
    }
    if (file) fclose(file);
}

static void read_bugs(void) {
    glob_t files;
    bug_count = 0;
    if (glob("chapters/*/bugs.txt", 0, NULL, &files) != 0) return;
    for (size_t i = 0; i < files.gl_pathc; i++) read_bugs_of(files.gl_pathv[i]);
    globfree(&files);
}

START_TEST(each_bug_is_a_mutant_with_a_reason) {
    static char table[262144];
    read_file("tests/mutants/mutants.txt", table, sizeof table);
    ck_assert_msg(bug_count > 0 && bug_count < MAX_BUGS, "%d bugs", bug_count);
    for (int i = 0; i < bug_count; i++) {
        const planted *b = &bugs[i];
        char line[140];
        snprintf(line, sizeof line, "mutant   %s\n", b->mutant);
        ck_assert_msg(b->mutant[0] && strstr(table, line), "%s: no mutant '%s'", b->name,
                      b->mutant);
        ck_assert_msg(b->what && b->why, "%s lacks a line what or why", b->name);
    }
}
END_TEST

// As built for the mutants' own test: for one device.
START_TEST(a_planted_bug_is_seen) {
    const planted *b = &bugs[_i];
    char grader[4200], folder[4300];
    snprintf(grader, sizeof grader, "%s/grader", build_folder());
    snprintf(folder, sizeof folder, "%s/mutants/%s", build_folder(), b->mutant);
    setenv("OMP_NUM_THREADS", "1", 1);
    if (access(folder, R_OK) != 0)
        return test_skip(b->name, "its mutant is not built; make test builds it");
    run_command(grader, b->chapter[0] == '0' ? b->chapter + 1 : b->chapter, folder, "--bug", "1",
                "--seconds", "200", NULL);
    ck_assert_msg(got.status == 0 && strstr(got.out, "FAIL"), "%s: %s%s", b->name, got.out,
                  got.err);
}
END_TEST

// ---- make exerciseN, handout ---------------------------------------------------------------------------
static void run_make(const char *target, const char *folder, const char *work) {
    unsetenv("MAKEFLAGS"); // what the make that runs these tests was told is not meant for the next
    unsetenv("MFLAGS");
    unsetenv("MAKELEVEL");
    run_command("make", "-s", "-C", folder, target, work, NULL);
}

START_TEST(the_handout_has_no_answers_and_grades) {
    const temporary_folder folder = make_temporary_folder();
    char build[300], tree[400], work[600], here[300], command[2000];
    ck_assert(getcwd(here, sizeof here) != NULL);
    snprintf(build, sizeof build, "BUILD=%s", folder.path);
    snprintf(tree, sizeof tree, "%s/handout/attention-exercises", folder.path);
    run_make("handout", ".", build);
    expect(0, "Without the answers|tar.gz", "");
    snprintf(command, sizeof command,
             "cd '%s' && grep -rl '//<answer>' chapters; ls tests/grade/wrong.txt chapters/*/work",
             tree);
    run_command("sh", "-c", command, NULL);
    ck_assert_str_eq(got.out, "");

    run_make("exercise3", tree, "V=");
    expect(0, "work/exercise3.cu|make grade3", "");
    run_make("grade3", tree, "V=");
    expect(2, "This is exercise 3 as it is handed out", "Error 1");
    ck_assert_msg(!strstr(got.out, "Hint"), "%s", got.out);
    snprintf(command, sizeof command,
             "echo mine > '%s/chapters/03-tiled-q-outer/work/exercise3.cu'", tree);
    run_command("sh", "-c", command, NULL);
    run_make("exercise3", tree, "V=");
    expect(0, "is there already", "");
    run_make("grade3", tree, "V=");
    expect(2, "does not compile|exercise3.cu:1:", "Error 3");
    snprintf(command, sizeof command, "cat '%s/chapters/03-tiled-q-outer/work/exercise3.cu'", tree);
    run_command("sh", "-c", command, NULL);
    ck_assert_str_eq(got.out, "mine\n");

    snprintf(work, sizeof work, "WORK=%s/chapters/03-tiled-q-outer/exercise/exercise.cu", here);
    run_make("grade3", tree, work);
    expect(0, "PASS  exercise 3", "");
    snprintf(command, sizeof command, "cat '%s/build/grade/3/junit.xml'", tree);
    run_command("sh", "-c", command, NULL);
    expect(0, "<testsuite name=\"exercise3\"|failures=\"0\"|</testsuite>", "");
    run_make("grade3", tree, "WORK=nowhere.cu");
    expect(2, "", "no nowhere.cu to grade|Error 2");
    remove_temporary_folder(&folder);
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
    read_bugs();
    tcase_add_test(tests, each_bug_is_a_mutant_with_a_reason);
    snprintf(folder, sizeof folder, "%s/grade/wrong", attn_modules_folder());
    if (access(table_file, R_OK) != 0) {
        test_skip("grade: all", "%s is not here: a tree without the answers", table_file);
    } else {
        tcase_add_test(tests, the_table_is_whole);
    }
    if (access(table_file, R_OK) != 0) {
        // Nothing more can be asked.
    } else if (test_run.quick || access(folder, R_OK) != 0) {
        test_skip("grade: answers", "%s",
                  test_run.quick ? "they take minutes; make test has them"
                                 : "make test builds them");
    } else {
        tcase_add_test(tests, what_is_handed_out_fails);
        tcase_add_test(tests, the_handout_has_no_answers_and_grades);
        tcase_add_loop_test(tests, the_answer_gets_its_verdict, 0, answer_count);
        tcase_add_loop_test(tests, a_planted_bug_is_seen, 0, bug_count);
    }
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
