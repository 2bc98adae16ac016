// test_command_line.c -- build/attention as a person uses it: run as a process, judged by what it prints,
// by its exit status (0 good, 1 a check failed, 2 refused) and by what it leaves behind.
#include "cpu/modules.h"
#include "cpu/npy.h"
#include "tests/harness.h"
#include "tests/temporary_folder.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/wait.h>

Suite *command_line_suite(void);

// ---- running the program -------------------------------------------------------------------------------
typedef struct outcome {
    int status; // exit status, or -1 when a signal ended it
    char out[65536], err[16384];
} outcome;
static outcome got; // of the last run

static void read_file(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "r");
    const size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = 0;
    if (file) fclose(file);
}

// ATTENTION_PROGRAM in the environment, or `attention` beside the tests.
static const char *program(void) {
    static char path[4200];
    const char *named = getenv("ATTENTION_PROGRAM");
    snprintf(path, sizeof path, "%s", named ? named : "");
    if (!named) {
        unsetenv("ATTENTION_MODULES"); // the program's own folder is meant
        snprintf(path, sizeof path, "%s/attention", attn_modules_folder());
    }
    return path;
}

// Runs the program with the arguments up to NULL, no shell between; `got` is what came of it.
static void run(const char *first, ...) {
    const temporary_folder folder = make_temporary_folder();
    char out[300], err[300], *arguments[64] = {(char *)program()};
    int count = 1, status = 0;
    va_list list;
    va_start(list, first);
    for (const char *a = first; a && count < 63; a = va_arg(list, const char *))
        arguments[count++] = (char *)a;
    va_end(list);
    snprintf(out, sizeof out, "%s/out", folder.path);
    snprintf(err, sizeof err, "%s/err", folder.path);
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen(out, "w", stdout) || !freopen(err, "w", stderr)) _exit(126);
        execv(arguments[0], arguments);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    got.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_file(out, got.out, sizeof got.out);
    read_file(err, got.err, sizeof got.err);
    remove_temporary_folder(&folder);
    ck_assert_msg(got.status != 127, "%s cannot be run", arguments[0]);
}

static int says(const char *text, const char *words) { // each of "a|b|c"
    char copy[512];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *rest, *word = strtok_r(copy, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
        if (!strstr(text, word)) return 0;
    return 1;
}

static void expect(int status, const char *out_words, const char *err_words) {
    ck_assert_msg(
        got.status == status && says(got.out, out_words) && says(got.err, err_words),
        "expected exit status %d, output with '%s', complaint with '%s'; got %d, output\n%.1500s"
        "\ncomplaint\n%.800s",
        status, out_words, err_words, got.status, got.out, got.err);
}

// Exit status 2, nothing on standard output, one line that says all the words.
static void expect_refused(const char *words) {
    expect(2, "", words);
    ck_assert_msg(got.out[0] == 0, "a refusal printed: %.300s", got.out);
    ck_assert_msg(strchr(got.err, '\n') == got.err + strlen(got.err) - 1,
                  "a refusal is not one line: %s", got.err);
}

static int is_built(const char *device) {
    char path[4300];
    snprintf(path, sizeof path, "%s/%s/01.so", attn_modules_folder(), device);
    return access(path, R_OK) == 0;
}

// ---- help and mistakes in typing -----------------------------------------------------------------------
START_TEST(help_is_given) {
    static const char *const commands[] = {"list",  "chapter", "run",     "check",
                                           "bench", "pass",    "traffic", "tiles"};
    run("--help", NULL);
    expect(0, "list|chapter|run|check|bench|pass|traffic|tiles|Exit status", "");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        run(commands[i], "--help", NULL);
        expect(0, commands[i], "");
        expect(0, "--help", "");
        ck_assert_str_eq(got.err, "");
    }
    run(NULL);
    expect(2, "list|chapter", "");
}
END_TEST

START_TEST(unknown_words_are_refused) {
    run("attend", NULL);
    expect_refused("attend|--help");
    run("chapter", "1", "--frob", "3", NULL);
    expect_refused("--frob|chapter --help");
    run("chapter", NULL);
    expect_refused("chapter|--help");
    run("chapter", "one", NULL);
    expect_refused("'one'|from 1 to 99");
    run("chapter", "1", "2", NULL);
    expect_refused("'2'");
    run("chapter", "98", NULL);
    expect_refused("98|list");
    run("list", "--device", "tpu", NULL);
    expect_refused("tpu|host, emulator, check, gpu or count");
    run("list", "--n", "8", NULL);
    expect_refused("--n|list");
    run("check", "naive-ish", "--case", "tests/golden/one", NULL);
    expect_refused("naive-ish|list");
    run("run", "naive-ish", "--case", "tests/golden/one", "--out", "/nowhere", NULL);
    expect_refused("naive-ish|list");
    run("run", "naive", "--case", "tests/golden/one", NULL);
    expect_refused("--out");
    run("check", "all", NULL);
    expect_refused("--case");
}
END_TEST

static const struct {
    const char *option, *value, *words;
} wrong_values[] = {
    {"--n", NULL, "--n needs a value"},
    {"--n", "abc", "N|'abc'|whole number"},
    {"--n", "", "N|''|whole number"},
    {"--n", "12x", "N|'12x'"},
    {"--n", "1.5", "N|'1.5'"},
    {"--n", "99999999999999999999", "N|99999999999999999999"},
    {"--n", "-1", "-1|from 0"},
    {"--qlen", "-5", "-5|from 0"},
    {"--kvlen", "-6", "-6|from 0"},
    {"--batch", "-2", "-2|from 0"},
    {"--heads", "0", "is 0|from 1"},
    {"--heads", "-4", "-4|from 1"},
    {"--kvheads", "3", "heads is 4|kv_heads 3|multiple"},
    {"--kvheads", "0", "is 0|from 1"},
    {"--dim", "0", "is 0|from 1"},
    {"--dim", "-64", "-64|from 1"},
    {"--scale", "nan", "scale|finite"},
    {"--scale", "inf", "scale|finite"},
    {"--scale", "-inf", "scale|finite"},
    {"--scale", "1e60", "scale|finite"},
    {"--scale", "big", "SCALE|'big'"},
    {"--causal", "2", "CAUSAL|2|from 0 to 1"},
    {"--window", "-1", "WINDOW|-1"},
    {"--br", "0", "BR|0|from 1"},
    {"--bc", "-3", "BC|-3"},
    {"--seed", "-1", "SEED|-1"},
    {"--seed", "x", "SEED|'x'"},
    {"--kind", "odd", "odd|normal|rising"},
    {"--repeat", "0", "REPEAT|0|from 1 to 1000"},
    {"--device", "cpu", "cpu|host"},
    {"--input", "/nowhere/at/all", "/nowhere/at/all"},
};
enum { WRONG_VALUES = sizeof wrong_values / sizeof *wrong_values };

START_TEST(wrong_values_are_refused) {
    for (int i = 0; i < WRONG_VALUES; i++) {
        run("chapter", "1", wrong_values[i].option, wrong_values[i].value, NULL);
        expect_refused(wrong_values[i].words);
    }
}
END_TEST

START_TEST(huge_problems_are_refused_before_anything_is_allocated) {
    run("chapter", "1", "--n", "500000", "--heads", "1", "--dim", "8", "--device", "host", NULL);
    expect_refused("naive needs|are free|chapter 2");
    run("chapter", "1", "--n", "1000000000", "--heads", "1000000", "--batch", "1000000", NULL);
    expect_refused("2^60");
    run("chapter", "1", "--n", "1073741824", NULL);
    expect_refused("1073741824|1073741823");
    run("chapter", "1", "--n", "100000000", "--heads", "1000", NULL);
    expect_refused("are free");
}
END_TEST

START_TEST(a_device_that_is_not_there_is_named) {
    if (is_built("gpu")) return test_skip("command_line: a missing device", "the GPU's is built");
    run("chapter", "1", "--device", "gpu", NULL);
    expect(2, "", "gpu");
}
END_TEST

// ---- list and tables -----------------------------------------------------------------------------------
START_TEST(list_has_the_stages) {
    run("list", NULL);
    expect(0, "stage|chapter|device|naive|host", "");
    run("list", "--device", "host", NULL);
    expect(0, "naive|host", "");
    ck_assert_ptr_null(strstr(got.out, "emulator"));
}
END_TEST

// Every row has as many fields as the first; quoted fields may hold commas.
static void expect_csv(int least_rows) {
    int columns = 0, fields = 1, quoted = 0, rows = 0;
    ck_assert_msg(got.out[0] != 0, "no CSV: %s", got.err);
    for (const char *s = got.out; *s; s++) {
        if (*s == '"') quoted = !quoted;
        if (quoted || (*s != ',' && *s != '\n')) continue;
        if (*s == ',') {
            fields++;
            continue;
        }
        if (rows == 0) columns = fields;
        ck_assert_msg(fields == columns, "row %d has %d fields, the head %d:\n%s", rows, fields,
                      columns, got.out);
        rows++, fields = 1;
    }
    ck_assert_msg(!quoted && columns > 1 && rows > least_rows, "%d rows of %d:\n%s", rows, columns,
                  got.out);
}

START_TEST(csv_has_equal_rows) {
    run("list", "--csv", NULL);
    ck_assert_int_eq(got.status, 0);
    expect_csv(1);
    run("check", "all", "--case", "tests/golden/one", "--csv", NULL);
    ck_assert_int_eq(got.status, 0);
    expect_csv(5);
    run("chapter", "1", "--n", "33", "--dim", "8", "--csv", "--device", "host", NULL);
    ck_assert_msg(got.status == 0, "%s", got.err);
    expect_csv(2);
}
END_TEST

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
// each tile of Br queries. Tiles of 64 x 64 take three of 64 x 65 numbers, and one more for P: 66560 bytes,
// where a T4 gives a block 65536.
START_TEST(tiles_are_compared) {
    if (!is_built("emulator")) return test_skip("command_line: tiles", "there is no emulator");
    run("tiles", "--heads", "1", "--br", "64", "--bc", "64", NULL);
    expect(0, "B=1 H=1 N=1024 d=64|Br|Bc|shared KB|3 q-outer-plain|65.0|8.65075|0.26624|all but T4",
           "");
    run("tiles", "--heads", "1", "--csv", NULL);
    expect(0,
           ",64,64,66560,8650752,266240,1052672,all but T4\n|,128,64,|,16,16,|q-outer,|fixed,fixed",
           "");
    expect_csv(16);
    run("tiles", "--dim", "128", NULL);
    expect(0, "H100 H200 B200", "left out, 1 of 16|128 x 128|shared memory");
    run("tiles", "--br", "48", NULL);
    expect(2, "", "48|16, 32, 64 or 128");
    run("tiles", "--pass", "backward", NULL);
    expect_refused("no stage on emulator takes tile sizes");
    run("tiles", "--br", "0", NULL);
    expect_refused("BR|0|from 1");
}
END_TEST

// What the pictures in plots/ are drawn from is what the program says today. Only from N=1024 on does
// naive leave the L2, and its DRAM bytes depend on the kernel's order; that takes seconds.
START_TEST(plots_data_is_what_the_program_writes) {
    if (!is_built("emulator")) return test_skip("command_line: plots/data", "there is no emulator");
    setenv("EMULATED_GPU", "H200", 1);
    for (int traffic = 0; traffic < 2; traffic++) {
        static char committed[65536];
        const char *path = traffic ? "plots/data/traffic.csv" : "plots/data/tiles-1024.csv";
        int rows = 0;
        read_file(path, committed, sizeof committed);
        if (traffic)
            run("traffic", "--heads", "16", "--n", test_run.quick ? "128" : "1024", "--device",
                "emulator", "--csv", NULL);
        else
            run("tiles", "--heads", "16", "--n", "1024", "--csv", NULL);
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

START_TEST(traffic_beyond_what_is_counted_is_the_formula_alone) {
    if (!is_built("emulator"))
        return test_skip("command_line: traffic --count-to", "there is no emulator");
    run("traffic", "--n", "64", "--to", "16384", "--count-to", "64", "--heads", "1", "--dim", "16",
        "--device", "emulator", "--csv", NULL);
    ck_assert_int_eq(got.status, 0);
    expect_csv(40);
    // S and P of 16384^2 numbers: no memory is asked for, and nothing stands in the counted columns.
    expect(0, "naive,forward,emulator,1,1,1,16384,16384,16,0,all,|,,,,,,2147483648\n|compulsory",
           "");
}
END_TEST

START_TEST(a_chapter_passes) {
    if (test_run.quick) return test_skip("command_line: a chapter passes", "it takes ten seconds");
    run("chapter", "1", "--n", "40", "--dim", "16", "--heads", "2", "--repeat", "1", NULL);
    expect(
        0,
        "Chapter 1|B=1 H=2 N=40 d=16 fp32|naive|max error|allowed|PASS|golden cases|make chapter1",
        "");
}
END_TEST

// `word` with no letter or digit on either side.
static int has_word(const char *text, const char *word) {
    for (const char *s = text; (s = strstr(s, word)) != NULL; s++)
        if ((s == text || !isalnum((unsigned char)s[-1])) &&
            !isalnum((unsigned char)s[strlen(word)]))
            return 1;
    return 0;
}

START_TEST(emulated_time_is_never_shown) {
    static const char *const words[] = {"ms",      "us",      "ns",      "s",
                                        "seconds", "TFLOP/s", "GFLOP/s", "GB/s"};
    if (!is_built("emulator"))
        return test_skip("command_line: emulated time", "no emulator is built");
    run("chapter", "1", "--n", "40", "--dim", "16", "--device", "emulator", NULL);
    expect(0, "Forward on|Backward on|read MB|model = counted|yes|PASS", "");
    // What a GPU's clock measured once, and is committed, may be shown: it says where.
    char *recorded = strstr(got.out, "\nRecorded on ");
    if (recorded) *recorded = 0;
    // "S" and "s" are tensors, too: only as a unit, after a number.
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        ck_assert_msg(strcmp(words[w], "s") == 0 || !has_word(got.out, words[w]),
                      "'%s' stands in\n%s", words[w], got.out);
    if (test_run.quick) return;
    run("chapter", "1", "--n", "40", "--dim", "16", "--device", "emulator", "--csv", NULL);
    ck_assert_int_eq(got.status, 0);
    // The column `seconds` is there for all devices, and empty here: ",," before the verdict.
    ck_assert_msg(strstr(got.out, ",,PASS\n") != NULL, "%s", got.out);
}
END_TEST

// ---- run and check -------------------------------------------------------------------------------------
static void copy_file(const temporary_folder *to, const char *from_folder, const char *name) {
    char path[300];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", from_folder, name);
    char *bytes = read_bytes(path, &size);
    write_bytes(in_folder(to, name), bytes, size);
    free(bytes);
}

static temporary_folder copy_case(const char *from, int with_results) {
    static const char *const inputs[] = {"case.txt", "q.npy", "k.npy", "v.npy", "do.npy"};
    static const char *const results[] = {"o.npy", "lse.npy", "dq.npy", "dk.npy", "dv.npy"};
    const temporary_folder folder = make_temporary_folder();
    for (int i = 0; i < 5; i++) {
        copy_file(&folder, from, inputs[i]);
        if (with_results) copy_file(&folder, from, results[i]);
    }
    return folder;
}

START_TEST(run_then_check_agree) {
    static const char *const cases[] = {"tests/golden/gqa", "tests/golden/causal-long-q",
                                        "tests/golden/window"};
    static const char *const devices[] = {"host", "emulator"};
    for (int c = 0; c < 3; c++)
        for (int d = 0; d < 2; d++) {
            if (!is_built(devices[d])) continue;
            const temporary_folder folder = copy_case(cases[c], 0);
            run("run", "naive", "--case", folder.path, "--out", folder.path, "--device", devices[d],
                NULL);
            expect(0, "naive|o.npy|dv.npy", "");
            ck_assert_int_eq(count_entries(folder.path), 10);
            run("check", "all", "--case", folder.path, NULL);
            expect(0, "PASS|0 failed|file", "");
            run("check", "naive", "--case", folder.path, "--device", devices[d], NULL);
            expect(0, "PASS|1 passed, 0 failed", "");
            remove_temporary_folder(&folder);
        }
}
END_TEST

START_TEST(run_makes_the_folder_it_writes_to) {
    const temporary_folder folder = make_temporary_folder();
    run("run", "naive", "--case", "tests/golden/one", "--out", in_folder(&folder, "new"), NULL);
    expect(0, "wrote", "");
    ck_assert_int_eq(count_entries(in_folder(&folder, "new")), 5);
    remove_temporary_folder(&folder);
}
END_TEST

START_TEST(a_falsified_result_fails) {
    static const char *const files[] = {"o.npy", "lse.npy", "dq.npy", "dk.npy", "dv.npy"};
    static const char *const names[] = {"o", "lse", "dq", "dk", "dv"};
    for (int f = 0; f < 5; f++) {
        const temporary_folder folder = copy_case("tests/golden/cross", 1);
        size_t size;
        char *bytes = read_bytes(in_folder(&folder, files[f]), &size);
        float value;
        memcpy(&value, bytes + size - 12, sizeof value);
        value += 0.01f * (1 + value * value);
        memcpy(bytes + size - 12, &value, sizeof value);
        write_bytes(in_folder(&folder, files[f]), bytes, size);
        free(bytes);
        run("check", "naive", "--case", folder.path, "--device", "host", NULL);
        expect(1, "FAIL|0 passed, 1 failed", "");
        ck_assert_msg(says(got.out, names[f]), "%s", got.out);
        remove_temporary_folder(&folder);
    }
}
END_TEST

START_TEST(check_needs_something_to_compare_with) {
    const temporary_folder folder = copy_case("tests/golden/one", 0);
    run("check", "all", "--case", folder.path, NULL);
    expect_refused("nothing to compare|o.npy");
    remove_temporary_folder(&folder);
}
END_TEST

// ---- bad folders and files -----------------------------------------------------------------------------
START_TEST(missing_and_malformed_cases_are_refused) {
    run("check", "all", "--case", "/nowhere/at/all", NULL);
    expect_refused("/nowhere/at/all");
    run("run", "naive", "--case", "/nowhere/at/all", "--out", "/nowhere", NULL);
    expect_refused("/nowhere/at/all");
    static const struct {
        const char *file, *text, *words;
    } wrong[] = {
        {"case.txt", "batch one\n", "case.txt|batch"},
        {"case.txt",
         "batch 1\nheads 3\nkv_heads 2\nq_len 1\nkv_len 1\nhead_dim 4\ncausal 0\nwindow 0\n",
         "heads"},
        {"q.npy", "this is no array", "q.npy"},
        {"k.npy", "", "k.npy"},
        {"v.npy", "\x93NUMPY\x01", "v.npy"},
        {"case.txt",
         "batch 1\nheads 1\nkv_heads 1\nq_len 7\nkv_len 17\nhead_dim 32\ncausal 0\nwindow 0\n",
         "q.npy"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const temporary_folder folder = copy_case("tests/golden/one", 1);
        write_text(in_folder(&folder, wrong[i].file), wrong[i].text);
        run("check", "naive", "--case", folder.path, NULL);
        expect_refused(wrong[i].words);
        run("run", "naive", "--case", folder.path, "--out", in_folder(&folder, "new"), NULL);
        expect_refused(wrong[i].words);
        ck_assert_msg(access(in_folder(&folder, "new"), F_OK) != 0, "a refused run left a folder");
        remove_temporary_folder(&folder);
    }
}
END_TEST

// Permissions do not stop root; a folder below a file, or a folder in a result's place, stops anyone.
START_TEST(a_folder_that_cannot_be_written_is_refused) {
    const temporary_folder folder = make_temporary_folder();
    write_text(in_folder(&folder, "file"), "x");
    run("run", "naive", "--case", "tests/golden/one", "--out", in_folder(&folder, "file/below"),
        NULL);
    expect_refused("file/below");
    run("run", "naive", "--case", "tests/golden/one", "--out", in_folder(&folder, "file"), NULL);
    expect_refused("file");
    run("run", "naive", "--case", "tests/golden/one", "--out", in_folder(&folder, "a/b"), NULL);
    expect_refused("a/b");
    ck_assert_int_eq(count_entries(folder.path), 1);
    remove_temporary_folder(&folder);
}
END_TEST

START_TEST(nothing_half_written_is_left) {
    const temporary_folder folder = make_temporary_folder();
    ck_assert_int_eq(mkdir(in_folder(&folder, "dk.npy"), 0777), 0); // in the way of the fourth file
    run("run", "naive", "--case", "tests/golden/one", "--out", folder.path, NULL);
    expect_refused("dk.npy");
    ck_assert_msg(count_entries(folder.path) == 1, "a run that failed left files behind");
    remove_temporary_folder(&folder);
}
END_TEST

// ---- falling back --------------------------------------------------------------------------------------
// A stage of chapter 2 has no backward pass, and these cases have do.npy.
START_TEST(what_a_stage_cannot_do_falls_back_or_is_refused) {
    run("list", NULL);
    if (!strstr(got.out, "online "))
        return test_skip("command_line: fallback", "no stage 'online'");
    const temporary_folder folder = copy_case("tests/golden/one", 0);
    run("run", "online", "--case", folder.path, "--out", in_folder(&folder, "new"), "--no-fallback",
        NULL);
    expect_refused("online|backward");
    ck_assert_msg(access(in_folder(&folder, "new"), F_OK) != 0, "a refused run left a folder");
    run("run", "online", "--case", folder.path, "--out", in_folder(&folder, "new"), NULL);
    expect(0, "online|backward|falling back to naive|naive on host: wrote", "");
    ck_assert_int_eq(count_entries(in_folder(&folder, "new")), 5);
    remove_temporary_folder(&folder);
}
END_TEST

// check proves forward results of a stage that has no backward pass; a case with none of these has no
// verdict, and no verdict is not a pass.
START_TEST(a_case_that_no_stage_does_fails) {
    run("list", NULL);
    if (!strstr(got.out, "online "))
        return test_skip("command_line: no stage", "no stage 'online'");
    const temporary_folder folder = copy_case("tests/golden/one", 1);
    unlink(in_folder(&folder, "o.npy"));
    unlink(in_folder(&folder, "lse.npy"));
    run("check", "online", "--case", folder.path, "--device", "host", NULL);
    ck_assert_msg(got.status == 0 || got.status == 1, "%s", got.err);
    ck_assert_msg(got.status == 1 || says(got.out, "lse|reference"), "nothing was compared:\n%s",
                  got.out);
    remove_temporary_folder(&folder);
}
END_TEST

// ---- a chapter that is broken --------------------------------------------------------------------------
START_TEST(a_broken_chapter_fails) {
    char modules[4300], own[4300];
    snprintf(modules, sizeof modules, "%s/mutants/naive-lse-without-m", attn_modules_folder());
    snprintf(own, sizeof own, "%s", program());
    if (test_run.quick || access(modules, R_OK) != 0)
        return test_skip("command_line: a broken chapter fails", "a quick run builds no mutants");
    setenv("ATTENTION_PROGRAM", own, 1);
    setenv("ATTENTION_MODULES", modules, 1);
    run("chapter", "1", "--n", "20", "--dim", "8", NULL);
    expect(1, "FAIL", "FAIL|lse");
    ck_assert_ptr_null(strstr(got.out, "PASS"));
    run("check", "all", "--case", "tests/golden/dense", NULL);
    expect(1, "FAIL|lse", "");
}
END_TEST

START_TEST(a_folder_without_modules_is_said) {
    const temporary_folder folder = make_temporary_folder();
    char own[4300];
    snprintf(own, sizeof own, "%s", program());
    setenv("ATTENTION_PROGRAM", own, 1);
    setenv("ATTENTION_MODULES", folder.path, 1);
    run("list", NULL);
    expect(2, "", "make chapters");
    ck_assert_int_eq(mkdir(in_folder(&folder, "host"), 0777), 0);
    write_text(in_folder(&folder, "host/01.so"), "no module");
    run("list", NULL);
    expect_refused("host/01.so|cannot be loaded");
    remove_temporary_folder(&folder);
}
END_TEST

Suite *command_line_suite(void) {
    Suite *suite = suite_create("command_line");
    TCase *tests = tcase_create("command_line");
    tcase_add_test(tests, help_is_given);
    tcase_add_test(tests, unknown_words_are_refused);
    tcase_add_test(tests, wrong_values_are_refused);
    tcase_add_test(tests, huge_problems_are_refused_before_anything_is_allocated);
    tcase_add_test(tests, a_device_that_is_not_there_is_named);
    tcase_add_test(tests, list_has_the_stages);
    tcase_add_test(tests, csv_has_equal_rows);
    tcase_add_test(tests, traffic_counts_and_models);
    tcase_add_test(tests, tiles_are_compared);
    tcase_add_test(tests, plots_data_is_what_the_program_writes);
    tcase_add_test(tests, traffic_beyond_what_is_counted_is_the_formula_alone);
    tcase_add_test(tests, a_chapter_passes);
    tcase_add_test(tests, emulated_time_is_never_shown);
    tcase_add_test(tests, run_then_check_agree);
    tcase_add_test(tests, run_makes_the_folder_it_writes_to);
    tcase_add_test(tests, a_falsified_result_fails);
    tcase_add_test(tests, check_needs_something_to_compare_with);
    tcase_add_test(tests, missing_and_malformed_cases_are_refused);
    tcase_add_test(tests, a_folder_that_cannot_be_written_is_refused);
    tcase_add_test(tests, nothing_half_written_is_left);
    tcase_add_test(tests, what_a_stage_cannot_do_falls_back_or_is_refused);
    tcase_add_test(tests, a_case_that_no_stage_does_fails);
    tcase_add_test(tests, a_broken_chapter_fails);
    tcase_add_test(tests, a_folder_without_modules_is_said);
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
