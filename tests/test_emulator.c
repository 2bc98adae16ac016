// test_emulator.c -- the emulator finds the mistakes seeded in tests/seeded-bugs, says what and where,
// and lets clean kernels pass: under every compiler and level, with the same results and bytes.
//
// Each case is a process of its own, `build/seeded/<kind>-<compiler><level> run NAME`. What must be
// found stands in the case's table; where, in the source, on the line that ends in "// BUG NAME".
#include "tests/harness.h"
#include "cpu/modules.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if !defined(SEEDED_FOLDER)
#define SEEDED_FOLDER "build/seeded"
#endif
#if !defined(SEEDED_QUICK) // the one compiler and level that test-quick builds
#define SEEDED_QUICK "-O1"
#endif
#define SOURCES "tests/seeded-bugs"

enum { MAX_PROGRAMS = 40, OUTPUT = 16384, SHORT = 256, LONG = 1024 };

// Programs by name: "check-g++-O1".
static char programs[MAX_PROGRAMS][64];
static int program_count;

static int by_name(const void *a, const void *b) {
    return strcmp(a, b);
}

static void find_programs(void) {
    DIR *folder = opendir(SEEDED_FOLDER);
    struct dirent *entry;
    program_count = 0;
    while (folder && (entry = readdir(folder)) && program_count < MAX_PROGRAMS)
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < sizeof programs[0] &&
            (!test_run.quick || strstr(entry->d_name, SEEDED_QUICK)))
            strcpy(programs[program_count++], entry->d_name);
    if (folder) closedir(folder);
    qsort(programs, (size_t)program_count, sizeof programs[0], by_name);
}

static int is_check(const char *program) {
    return strncmp(program, "check", 5) == 0;
}

// What the program prints, standard error included; its exit status, or -1 when a signal ended it.
static int run(const char *program, const char *arguments, char *output) {
    char command[LONG];
    snprintf(command, sizeof command, SEEDED_FOLDER "/%.63s %s 2>&1", program, arguments);
    FILE *pipe = popen(command, "r");
    ck_assert_msg(pipe != NULL, "cannot run %s", command);
    const size_t length = fread(output, 1, OUTPUT - 1, pipe);
    output[length] = 0;
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// One line of `list`: name, wanted by the plain emulator, by the checks, in the report; "-": nothing.
typedef struct expectation {
    char name[64], plain[SHORT], check[SHORT], report[SHORT];
    int no_line;
} expectation;

static const char *next_field(const char *line, char *field, size_t size) {
    const size_t length = strcspn(line, "\t\n");
    snprintf(field, size, "%.*s", (int)length, line);
    return line[length] ? line + length + 1 : line + length;
}

static const char *parse(const char *line, expectation *e) {
    char flag[8];
    line = next_field(line, e->name, sizeof e->name);
    line = next_field(line, e->plain, sizeof e->plain);
    line = next_field(line, e->check, sizeof e->check);
    line = next_field(line, e->report, sizeof e->report);
    line = next_field(line, flag, sizeof flag);
    e->no_line = strcmp(flag, "1") == 0;
    return line;
}

// "tests/seeded-bugs/memory.cu:8" for the line with the case's mark; marks may name one kind:
// "// BUG write-behind (check)".
static int find_mark(const char *name, int check, char *where, size_t size) {
    char mark[2][SHORT], line[512], path[LONG];
    snprintf(mark[0], SHORT, "// BUG %s\n", name);
    snprintf(mark[1], SHORT, "// BUG %s (%s)\n", name, check ? "check" : "plain");
    DIR *folder = opendir(SOURCES);
    struct dirent *entry;
    int found = 0;
    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof path, SOURCES "/%s", entry->d_name);
        FILE *file = strstr(entry->d_name, ".cu") ? fopen(path, "r") : NULL;
        for (int number = 1; file && fgets(line, sizeof line, file); number++)
            if (strstr(line, mark[0]) || strstr(line, mark[1])) {
                snprintf(where, size, " at %s:%d", path, number);
                found++;
            }
        if (file) fclose(file);
    }
    if (folder) closedir(folder);
    return found == 1;
}

static int ends_in(const char *text, size_t length, const char *end) {
    const size_t n = strlen(end);
    return length >= n && strncmp(text + length - n, end, n) == 0;
}

// Whether the case behaved; if not, the reason.
static int behaved(const char *program, const expectation *e, char *reason, size_t size) {
    static char output[OUTPUT];
    char arguments[SHORT], where[LONG + SHORT] = "";
    const char *wanted = is_check(program) ? e->check : e->plain;
    snprintf(arguments, sizeof arguments, "run %s", e->name);
    const int status = run(program, arguments, output);
    const size_t first_line = strcspn(output, "\n");
    if (strcmp(wanted, "-") == 0) {
        const int passed = status == 0 && strncmp(output, "passed\n", 7) == 0;
        const int reported =
            !is_check(program) || strcmp(e->report, "-") == 0 || strstr(output, e->report) != NULL;
        if (passed && reported) return 1;
        wanted = passed ? e->report : "passed";
    } else {
        if (!e->no_line && !find_mark(e->name, is_check(program), where, sizeof where)) {
            snprintf(reason, size, "%s: there is not one line with its mark", e->name);
            return 0;
        }
        const char *at = strstr(output, wanted);
        if (status > 0 && status != 3 && at && at < output + first_line &&
            ends_in(output, first_line, where))
            return 1;
    }
    snprintf(reason, size, "%s: wanted: %s%.400s; status %d, said: %.600s", e->name, wanted, where,
             status, output);
    return 0;
}

START_TEST(test_seeded_cases) {
    const char *program = programs[_i];
    static char list[OUTPUT];
    char reason[1600], reasons[4000] = "";
    expectation e;
    int cases = 0, failed = 0;
    setenv("OMP_NUM_THREADS", "1", 1); // of two blocks that race, the first comes first
    ck_assert_int_eq(run(program, "list", list), 0);
    for (const char *line = list; *line;) {
        line = parse(line, &e);
        cases++;
        if (behaved(program, &e, reason, sizeof reason)) continue;
        failed++;
        snprintf(reasons + strlen(reasons), sizeof reasons - strlen(reasons), "\n%s", reason);
    }
    ck_assert_msg(cases > 60, "%s lists only %d cases", program, cases);
    ck_assert_msg(failed == 0, "%s: %d of %d cases failed:%s", program, failed, cases, reasons);
}
END_TEST

// Which of two blocks comes first is chance; that the race is found is not.
START_TEST(test_races_of_parallel_blocks) {
    static const char *const names[] = {"blocks-write-then-read", "blocks-read-then-write",
                                        "blocks-write-twice", "blocks-sum-without-atomics",
                                        "blocks-atomic-then-plain"};
    static char output[OUTPUT];
    char arguments[SHORT];
    setenv("OMP_NUM_THREADS", "4", 1);
    for (int p = 0; p < program_count; p++)
        for (int i = 0; is_check(programs[p]) && i < 100; i++) {
            snprintf(arguments, sizeof arguments, "run %s", names[i % 5]);
            ck_assert_msg(run(programs[p], arguments, output) == 1 &&
                              strstr(output, "device-memory race: "),
                          "%s %s: %s", programs[p], arguments, output);
        }
}
END_TEST

// The lines "bytes: TENSOR READ WRITTEN" of an output, alone.
static void keep_bytes(char *output) {
    char *to = output;
    for (char *line = output; *line;) {
        const size_t length = strcspn(line, "\n") + 1;
        char *next = line[length - 1] ? line + length : line + length - 1;
        if (strncmp(line, "bytes: ", 7) == 0) {
            memmove(to, line, (size_t)(next - line));
            to += next - line;
        }
        line = next;
    }
    *to = 0;
}

// Bytes of every clean case, summed up by hand from the kernels: not only the same everywhere, right.
START_TEST(test_bytes_are_right) {
    static const struct {
        const char *name, *bytes;
    } known[] = {
        {"shuffles", "bytes: b 0 1280\n"},
        {"atomics", "bytes: b 800 800\n"}, // 50 blocks, 4 + 4 + 8 bytes, read and written
        {"widths", "bytes: a 1408 0\nbytes: b 0 1152\n"},
        {"transposed", "bytes: a 1024 0\nbytes: b 0 256\n"},
        {"pipeline", "bytes: a 5120 0\nbytes: b 0 128\n"},
        {"block-sums", "bytes: a 24576 0\nbytes: b 0 192\n"},
        {"memset", "bytes: b 0 512\nbytes: c 256 256\n"},
        {"many-buffers", "bytes: even 0 1800\nbytes: odd 0 1800\n"},
    };
    static char output[OUTPUT];
    char arguments[SHORT];
    for (int p = 0; p < program_count; p++)
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            snprintf(arguments, sizeof arguments, "run %s", known[i].name);
            ck_assert_msg(run(programs[p], arguments, output) == 0, "%s %s: %s", programs[p],
                          arguments, output);
            keep_bytes(output);
            ck_assert_msg(strcmp(output, known[i].bytes) == 0, "%s %s:\n%s, not\n%s", programs[p],
                          arguments, output, known[i].bytes);
        }
}
END_TEST

// The smaller GPU of the environment is the one whose limit holds.
START_TEST(test_emulated_gpu) {
    static char output[OUTPUT];
    ck_assert_int_eq(setenv("EMULATED_GPU", "t4", 1), 0);
    ck_assert_int_ne(run(programs[0], "run too-much-dynamic", output), 0);
    ck_assert_msg(strstr(output, "a T4 allows a block 65536: smaller tiles") != NULL, "%s", output);
    ck_assert_int_eq(setenv("EMULATED_GPU", "abacus", 1), 0);
    ck_assert_int_eq(run(programs[0], "run positions", output), 2);
    ck_assert_msg(strstr(output, "EMULATED_GPU=abacus is not one of H100, ") != NULL, "%s", output);
    ck_assert_int_eq(setenv("EMULATED_GPU", "H200/133", 1), 0);
    ck_assert_int_eq(run(programs[0], "run positions", output), 2);
    ck_assert_msg(strstr(output, "H200/133: behind the / stands") != NULL, "%s", output);
}
END_TEST

// What reaches DRAM, worked out by hand (tests/seeded-bugs/l2.cu has the cache that this is for): the same
// from every build, with any number of OS threads.
START_TEST(test_dram_is_right) {
    static const struct {
        const char *name;
        int read, written, left;
    } known[] = {
        {"l2-cold", 32768, 0, 0},           // 256 lines, for the first time
        {"l2-again", 32768, 0, 0},          // the second kernel finds all of them
        {"l2-too-large", 2 * 131072, 0, 0}, // over 592 lines the oldest goes just before its turn
        {"l2-lines", 256 * 32, 0, 0},       // a sector of each line, not the line
        {"l2-half-sector", 32, 0, 0},       // 16 bytes asked for: a sector all the same
        {"l2-write-back", 0, 131072 - 47360, 47360}, // nothing read; 37 * 10 lines stay dirty
        {"l2-write-read", 0, 0, 32768},              // what was written is there
        {"l2-copies", 32768, 0, 0},                  // cp.async passes the L2 like other reads
        {"l2-adds", 1024, 0, 1024},                  // 256 floats read and written
        {"l2-memset", 0, 0, 32768},                  //
        {"l2-shared-sweep", 2 * 131072, 0, 0},       // once for each of two waves of four blocks
        {"l2-own-sweeps", 8 * 4 * 32768, 0, 0},      // every sweep of every block
        {"l2-fewer-at-a-time", 8 * 32768, 0, 0},     // the first sweep of every block
    };
    static char output[OUTPUT];
    char arguments[SHORT], wanted[SHORT];
    setenv("EMULATED_GPU", "T4/40", 1);
    for (int p = 0; p < program_count; p++)
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            setenv("OMP_NUM_THREADS", i % 2 ? "1" : "3", 1);
            snprintf(arguments, sizeof arguments, "dram %s", known[i].name);
            snprintf(wanted, sizeof wanted, "dram: %d read %d written %d left\n", known[i].read,
                     known[i].written, known[i].left);
            ck_assert_msg(run(programs[p], arguments, output) == 0 && strstr(output, wanted),
                          "%s %s: wanted %snot %s", programs[p], arguments, wanted, output);
        }
}
END_TEST

// A stage's launch on the check build, as plots/data/requests.csv has it, and by formula: q-outer has tiles
// of 128 x 64 here, and 4 warps a block.
START_TEST(test_requests_are_right) {
    const int heads = 2, n = 512, d = 64, query_tiles = n / 128, warps = 4;
    static char output[OUTPUT], csv[OUTPUT];
    char command[LONG * 6], wanted[LONG];
    const int matrix = heads * n * d / 8; // sectors of 8 floats, of Q, K, V or O
    const int warp_tiles = heads * query_tiles * warps * (n / 64);
    const int reads = (d + 64) / 4 * (8 + 8); // Q and K, P and V; 16 bytes a lane, two passes each
    const int writes = 8 * 2;                 // P; four passes each
    snprintf(wanted, sizeof wanted,
             "q-outer,forward,1,2,512,512,64,1,q_outer<D>,0,%d,%d,%d,0,%d,0\n",
             matrix * (1 + 2 * query_tiles), matrix + heads * n, warp_tiles * reads * 2,
             warp_tiles * writes * 4);
    snprintf(command, sizeof command, "sh plots/requests.sh %s/attention plots q-outer",
             attn_modules_folder());
    FILE *pipe = popen(command, "r"), *file = fopen("plots/data/requests.csv", "r");
    ck_assert(pipe != NULL && file != NULL);
    output[fread(output, 1, OUTPUT - 1, pipe)] = 0;
    csv[fread(csv, 1, OUTPUT - 1, file)] = 0;
    fclose(file);
    ck_assert_int_eq(pclose(pipe), 0);
    ck_assert_str_eq(output, wanted);
    ck_assert_msg(strstr(csv, output) != NULL, "plots/data/requests.csv is stale: make requests");
}
END_TEST

static int programs_like(const char *text) {
    int count = 0;
    for (int i = 0; i < program_count; i++) count += strstr(programs[i], text) != NULL;
    return count;
}

Suite *emulator_suite(void) {
    Suite *suite = suite_create("emulator");
    TCase *cases = tcase_create("seeded");
    tcase_set_timeout(cases, TEST_SANITIZED ? 600 : 180);
    find_programs();
    if (programs_like("clang++") == 0)
        test_skip("emulator under clang++", TEST_SANITIZED
                                                ? "the sanitizers' build has one compiler"
                                                : "clang++ is not installed");
    if (TEST_SANITIZED) test_skip("check build", "it is a sanitizer itself, and takes no others");
    // No programs at all is a failure, not a skip: the first test finds no folder to run from.
    tcase_add_loop_test(cases, test_seeded_cases, 0, program_count > 0 ? program_count : 1);
    tcase_add_test(cases, test_races_of_parallel_blocks);
    tcase_add_test(cases, test_bytes_are_right);
    tcase_add_test(cases, test_dram_is_right);
    tcase_add_test(cases, test_emulated_gpu);
    if (!TEST_SANITIZED && test_wants_device("check"))
        tcase_add_test(cases, test_requests_are_right);
    suite_add_tcase(suite, cases);
    return suite;
}
