// main.c -- build/grader: grades one answer, in a process of its own, with a limit of time and memory.
//
//   build/grader N MODULES [--seed S] [--junit FILE] [--seconds S] [--megabytes M] [--untouched 1]
//   build/grader N MODULES --bug 1 [--seconds S]         a chapter with a bug: bug.c; 0 it was seen, 1 not
//
// MODULES is the folder with the answer's modules, emulator/0N.so and check/0N.so, or host/0N.so; the
// project's own are in the program's folder. --untouched 1: it is what is handed out, and gets no hints. Exit status:
// 0 passed; 1 wrong; 2 refused, nothing was graded; 4 ended by a limit or a crash. (3, it does not compile,
// is grade.sh's.)
#define _GNU_SOURCE
#include "tests/grade/grader.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PASSED = 0, WRONG = 1, REFUSED = 2, BROKEN = 4 };

typedef struct options {
    const exercise *e;
    const char *modules, *junit;
    uint64_t seed;
    int number, bug, untouched;
    long seconds, megabytes;
} options;

// What the grading process is at, for the one that waits for it.
typedef struct progress {
    char now[200];
    int done; // the grader came to its own end, and was not ended by the answer
} progress;
static progress *at;

static int refuse(const char *text) {
    fprintf(stderr, "grade: %s\n", text);
    return REFUSED;
}

// ---- grading -----------------------------------------------------------------------------------------
static attn_modules project, answer, checked;

static attn_status load(const options *o) {
    ATTN_TRY(attn_modules_load("host", &project));
    if (o->e->counts_naive) ATTN_TRY(attn_modules_load("emulator", &project));
    if (setenv("ATTENTION_MODULES", o->modules, 1) != 0)
        return attn_error(ATTN_IO, "the environment cannot be changed");
    ATTN_TRY(attn_modules_load(o->e->device, &answer));
    if (strcmp(o->e->device, "host") != 0) ATTN_TRY(attn_modules_load("check", &checked));
    if (o->e->counts_naive && !attn_find_yardstick(&project, "emulator"))
        return attn_error(ATTN_IO, "naive, whose bytes are counted, is not built for the emulator");
    if (answer.stage_count != 1) return attn_error(ATTN_IO, "there is no answer in %s", o->modules);
    return attn_ok();
}

static void try_case(const options *o, const attn_loaded_stage *row, grade_case *c) {
    snprintf(at->now, sizeof at->now, "%.150s", c->name);
    c->tried = 1;
    c->status = o->e->counts_naive
                    ? count_naive(attn_find_yardstick(&project, "emulator"), row->stage, c)
                    : attn_prove(row, &c->trial, 1, &c->proof);
    c->pass = c->status.code == ATTN_OK && c->proof.pass;
}

// Three cases under all checks: two with several tiles and rests, of queries and of keys, one with more heads.
static attn_status find_races(const grade_case *cases, int count) {
    enum { LEAST = 100, MOST = 20000 }; // rows times keys
    int tiled = 0, grouped = 0;         // found so far
    for (int i = 0; i < count && checked.stage_count > 0; i++) {
        const attn_problem *p = &cases[i].data.problem;
        const int64_t size = p->q_len * p->kv_len;
        attn_run run;
        attn_inputs inputs = cases[i].trial.inputs;
        if (!checked.stage[0].stage->backward) inputs.d_o = NULL;
        if (size < LEAST || size > MOST) continue;
        if (p->heads == 1 ? tiled == 2 || p->q_len < 65 : grouped == 1) continue;
        snprintf(at->now, sizeof at->now, "%.150s, in the check build", cases[i].name);
        ATTN_TRY(attn_run_stage(&checked.stage[0], p, &inputs, 1, &run));
        attn_run_free(&run);
        *(p->heads == 1 ? &tiled : &grouped) += 1;
    }
    return attn_ok();
}

static void print_hint(const char *text) {
    printf("\nHint: ");
    for (int column = 6; *text;) {
        const int word = (int)strcspn(text, " ");
        if (column + word > 96) column = printf("\n      ") - 1;
        column += printf("%.*s ", word, text);
        text += word;
        while (*text == ' ') text++;
    }
    printf("\n");
}

static const char *hint_of(const options *o, grade_case *cases, int count, const grade_case *first,
                           const attn_status *races) {
    if (o->e->counts_naive) return recognise_bytes(answer.stage[0].stage, cases, count);
    const attn_status *finding = races->code == ATTN_DEVICE ? races : first ? &first->status : NULL;
    const char *hint = finding ? hint_of_finding(o->e, finding->text) : NULL;
    if (hint) return hint;
    const mistake *m = recognise(o->e, cases, count);
    if (m) return m->hint;
    return first && first->asks_too_much ? o->e->byte_hint : NULL;
}

static int report(const options *o, const attn_loaded_stage *row, grade_case *cases, int count,
                  const attn_status *races) {
    int passed = 0;
    grade_case *first = NULL;
    for (int i = count - 1; i >= 0; i--) {
        passed += cases[i].pass;
        if (cases[i].pass) continue;
        first = &cases[i];
        describe_failure(o->e, row, first);
    }
    const int right = !first && races->code == ATTN_OK;
    const char *hint = right || o->untouched ? NULL : hint_of(o, cases, count, first, races);
    if (first)
        printf("FAIL  the first case that fails: %s\n      %s\n", first->name, first->failure);
    if (races->code != ATTN_OK) printf("FAIL  the check build: %s\n", races->text);
    if (!hint && !o->untouched && first && first->status.code == ATTN_OK)
        hint = "this is none of the usual mistakes, or there are two at once.";
    if (hint) print_hint(hint);
    printf("%s  exercise %d, %s: %d of %d cases pass%s\n", right ? "PASS" : "FAIL", o->e->number,
           o->e->title, passed, count,
           right && checked.stage_count > 0 ? "; the bytes are the closed form's, no races" : "");
    return right ? PASSED : WRONG;
}

static int grade(const options *o) {
    static grade_case cases[GRADE_MAX_CASES];
    attn_status status = load(o);
    if (status.code != ATTN_OK) return refuse(status.text);
    const attn_loaded_stage *row = &answer.stage[0];
    const int count = grade_cases(o->e, &project, row->stage, o->seed, cases, &status);
    if (status.code != ATTN_OK) return refuse(status.text);
    for (int i = 0; i < count; i++) try_case(o, row, &cases[i]);
    const attn_status races = find_races(cases, count);
    snprintf(at->now, sizeof at->now, "the report");
    const int result = report(o, row, cases, count, &races);
    if (o->junit)
        status = write_junit(o->junit, o->e, cases, count, races.text[0] ? races.text : NULL);
    grade_cases_free(cases, count);
    if (status.code != ATTN_OK) return refuse(status.text);
    fflush(stdout);
    return result;
}

static int show_bug(const options *o) {
    int caught = 0;
    attn_status status = attn_modules_load("host", &project);
    if (setenv("ATTENTION_MODULES", o->modules, 1) != 0) return refuse("no environment");
    static const char *const devices[] = {"host", "emulator", "check"};
    for (int i = 0; i < 3 && status.code == ATTN_OK; i++)
        status = attn_modules_load(devices[i], &answer);
    if (status.code == ATTN_OK && answer.stage_count == 0)
        status = attn_error(ATTN_IO, "there is no broken chapter in %s", o->modules);
    if (status.code == ATTN_OK)
        status = meet_bug(o->number, &project, &answer, at->now, sizeof at->now, &caught);
    return status.code != ATTN_OK ? refuse(status.text) : caught ? PASSED : WRONG;
}

// ---- limits --------------------------------------------------------------------------------------------
static int broken(const options *o, const char *why) {
    char text[500];
    snprintf(text, sizeof text, "%s: %s", at->now[0] ? at->now : "loading the answer", why);
    printf("FAIL  %s\n", text);
    if (o->junit) {
        const attn_status status = write_junit(o->junit, o->e, NULL, 0, text);
        if (status.code != ATTN_OK) return refuse(status.text);
    }
    return BROKEN;
}

// Memory that the process really has; the emulator's address space is much larger. 0: not known here.
static long resident_megabytes(pid_t process) {
    char path[64];
    long all = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)process);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) >> 10) >> 10;
}

static int watch(const options *o, pid_t child) {
    const time_t end = time(NULL) + o->seconds;
    char why[300];
    for (;;) {
        int status = 0;
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) kill(-child, SIGKILL); // what it has started
        if (ended == child && WIFEXITED(status) && at->done) return WEXITSTATUS(status);
        if (ended == child && WIFEXITED(status))
            return broken(o, "ended the grader: an answer must return, not exit");
        if (ended < 0 && errno != EINTR) return refuse("the grading process is lost");
        if (ended == child) {
            snprintf(why, sizeof why, "ended by signal %d (%s): an index out of bounds?",
                     WTERMSIG(status), strsignal(WTERMSIG(status)));
            return broken(o, why);
        }
        const int late = time(NULL) > end, large = resident_megabytes(child) > o->megabytes;
        if (late || large) {
            kill(-child, SIGKILL); // with all that it has started
            waitpid(child, &status, 0);
            snprintf(why, sizeof why,
                     late ? "not done after %ld seconds: a loop that never ends?"
                          : "more than %ld MB of memory: something grows without end?",
                     late ? o->seconds : o->megabytes);
            return broken(o, why);
        }
        usleep(20000);
    }
}

static int limited(const options *o) {
    fflush(stdout);
    const pid_t child = fork();
    if (child < 0) return refuse("no process could be started");
    if (child > 0) {
        setpgid(child, child); // in both, so that it is done, whoever comes first
        return watch(o, child);
    }
    setpgid(0, 0);
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL); // Ctrl-C reaches the parent alone
#endif
    const int result = o->bug ? show_bug(o) : grade(o);
    fflush(stdout);
    at->done = 1;
    _exit(result);
}

static int number(const char *text, long least, long *value) {
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return text[0] && !*end && errno == 0 && *value >= least;
}

int main(int argc, char **argv) {
    options o = {.seed = 1, .seconds = 120, .megabytes = 2048};
    long n = 0;
    if (argc < 3 || !number(argv[1], 1, &n)) return refuse("usage: grader N MODULES [options]");
    o.number = (int)n;
    o.e = exercise_of(o.number);
    o.modules = argv[2];
    if (!o.e) return refuse("there is no exercise of that number");
    for (int i = 3; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        long got = 0;
        if (strcmp(argv[i], "--junit") == 0)
            o.junit = value;
        else if (!number(value, 0, &got))
            return refuse("SEED= and the limits are whole numbers, 0 or more");
        else if (strcmp(argv[i], "--seed") == 0)
            o.seed = (uint64_t)got;
        else if (strcmp(argv[i], "--bug") == 0)
            o.bug = 1;
        else if (strcmp(argv[i], "--untouched") == 0)
            o.untouched = 1;
        else if (strcmp(argv[i], "--seconds") == 0)
            o.seconds = got;
        else if (strcmp(argv[i], "--megabytes") == 0)
            o.megabytes = got;
        else
            return refuse("unknown option; there are --seed --junit --seconds --megabytes");
    }
    at = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return refuse("no shared memory");
    return limited(&o);
}
