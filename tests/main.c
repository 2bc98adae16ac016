// main.c -- build/tests: runs all suites and ends with one line, "N passed, N failed[, N skipped]".
//
//   build/tests [--quick] [--device host|emulator|check|gpu|count] [--suite NAME]
//
// Each test runs in a process of its own, so that a crash is one failure and not the end. Such a
// process is a fork, and neither OpenMP's threads nor CUDA survive one: nothing here may start them
// before the tests run. Exit status: 0 when something passed and nothing failed, else 1; 2 when the
// options are wrong.
#define _GNU_SOURCE
#include "tests/harness.h"
#include "cpu/modules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

Suite *npy_suite(void);
Suite *random_suite(void);
Suite *problem_suite(void);
Suite *case_suite(void);
Suite *reference_suite(void);
Suite *features_suite(void);
Suite *compare_suite(void);
Suite *memory_suite(void);
Suite *variation_suite(void);
Suite *emulator_suite(void);
Suite *texts_suite(void);
Suite *command_line_suite(void);
Suite *make_suite(void);
Suite *plots_suite(void);
Suite *recorded_suite(void);
Suite *trace_suite(void);
Suite *stages_suite(void);
Suite *mutants_suite(void);
Suite *grade_suite(void);

static const struct {
    const char *name;
    Suite *(*make)(void);
} suites[] = {
    {"npy", npy_suite},
    {"random", random_suite},
    {"problem", problem_suite},
    {"case", case_suite},
    {"reference", reference_suite},
    {"features", features_suite},
    {"compare", compare_suite},
    {"memory", memory_suite},
    {"variation", variation_suite},
    {"emulator", emulator_suite},
    {"texts", texts_suite},
    {"command_line", command_line_suite},
    {"make", make_suite},
    {"plots", plots_suite},
    {"recorded", recorded_suite},
    {"trace", trace_suite},
    {"stages", stages_suite},
    {"mutants", mutants_suite},
    {"grade", grade_suite},
};
enum { SUITES = sizeof suites / sizeof suites[0] };

test_options test_run;

int test_wants_device(const char *device) {
    return test_run.device == NULL || strcmp(test_run.device, device) == 0;
}

// ---- skipped tests: told by the tests' own processes, through memory that all of them share ----------
enum { MAX_SKIPPED = 4096 };
typedef struct skip_notes {
    int count, ran; // ran: those of a test that ran and would otherwise count as passed
    char text[MAX_SKIPPED][240];
} skip_notes;
static skip_notes *notes;
static pid_t parent;

void test_skip(const char *what, const char *why_format, ...) {
    const int at = __atomic_fetch_add(&notes->count, 1, __ATOMIC_RELAXED);
    if (getpid() != parent) __atomic_fetch_add(&notes->ran, 1, __ATOMIC_RELAXED);
    if (at >= MAX_SKIPPED) return;
    char why[200];
    va_list arguments;
    va_start(arguments, why_format);
    vsnprintf(why, sizeof why, why_format, arguments);
    va_end(arguments);
    snprintf(notes->text[at], sizeof notes->text[at], "%.60s: %.170s", what, why);
}

static void print_skipped(void) {
    for (int i = 0; i < notes->count && i < MAX_SKIPPED; i++)
        printf("skipped  %s\n", notes->text[i]);
}

// ---- options -------------------------------------------------------------------------------------------
static int is_known(const char *name, const char *const *known) {
    for (; *known; known++)
        if (strcmp(name, *known) == 0) return 1;
    return 0;
}

static int refuse(const char *what, const char *value, const char *allowed) {
    fprintf(stderr, "tests: %s '%s'; allowed: %s\n", what, value, allowed);
    return 2;
}

static int parse(int argc, char **argv) {
    const char *names[SUITES + 1] = {NULL};
    for (int i = 0; i < SUITES; i++) names[i] = suites[i].name;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--quick") == 0) {
            test_run.quick = 1;
        } else if (strcmp(argv[i], "--device") == 0) {
            if (!is_known(value, attn_device_kinds))
                return refuse("unknown device", value, "host, emulator, check, gpu, count");
            test_run.device = argv[++i];
        } else if (strcmp(argv[i], "--suite") == 0) {
            if (!is_known(value, names)) {
                refuse("unknown suite", value, "");
                for (int s = 0; s < SUITES; s++) fprintf(stderr, "  %s\n", suites[s].name);
                return 2;
            }
            test_run.suite = argv[++i];
        } else {
            return refuse("unknown option", argv[i], "--quick, --device DEVICE, --suite NAME");
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    const int refused = parse(argc, argv);
    if (refused) return refused;
    notes = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (notes == MAP_FAILED) return perror("tests: mmap"), 2;
    parent = getpid();

    // Time limits are there to end what hangs, not to measure a machine that is busy.
    setenv("CK_DEFAULT_TIMEOUT", "600", 0);
    setenv("CK_TIMEOUT_MULTIPLIER", TEST_SANITIZED ? "6" : "2", 0);
    SRunner *runner = NULL;
    for (int i = 0; i < SUITES; i++) {
        if (test_run.suite && strcmp(test_run.suite, suites[i].name) != 0) continue;
        Suite *suite = suites[i].make();
        if (runner)
            srunner_add_suite(runner, suite);
        else
            runner = srunner_create(suite);
    }
    srunner_set_fork_status(runner, CK_FORK);
    fflush(stdout); // or every fork prints it again
    srunner_run_all(runner, CK_NORMAL);

    const int failed = srunner_ntests_failed(runner);
    const int passed = srunner_ntests_run(runner) - failed - notes->ran;
    print_skipped();
    printf("%d passed, %d failed", passed, failed);
    if (notes->count > 0) printf(", %d skipped", notes->count);
    printf("\n");
    srunner_free(runner);
    return failed == 0 && passed > 0 ? 0 : 1;
}
