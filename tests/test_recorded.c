// test_recorded.c -- figures that were recorded, in plots/, and what is made of them: the tables in the READMEs
// and notes are what the CSV says, the CSV of the L2 model is what the program says. And the modules' calls from Python,
// by which gpu/cuda/peers.py records.
#include "cpu/modules.h"
#include "tests/harness.h"
#include "tests/program.h"
#include "tests/temporary_folder.h"

Suite *recorded_suite(void);

static char text[65536], other[2 * sizeof text];

// ---- the tables in the READMEs ----------------------------------------------------------------------------
START_TEST(tables_are_what_their_csv_says) {
    run_command("sh", "plots/tables.sh", "check", NULL);
    expect(0, "", "");
    ck_assert_str_eq(got.err, "");
    run_command("sh", "plots/tables.sh", "chekc", NULL);
    expect(2, "", "renew or check");
}
END_TEST

static void copy_csv(const char *from, const char *to) {
    DIR *listing = opendir(from);
    ck_assert_ptr_nonnull(listing);
    ck_assert_int_eq(mkdir(to, 0777), 0);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char source[600], copy[600];
        snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
        snprintf(copy, sizeof copy, "%s/%s", to, entry->d_name);
        if (!strstr(entry->d_name, ".csv")) continue;
        read_file(source, text, sizeof text);
        write_text(copy, text);
    }
    closedir(listing);
}

static temporary_folder copy_of_plots(void) {
    const temporary_folder folder = make_temporary_folder();
    copy_csv("plots/recorded", in_folder(&folder, "recorded"));
    copy_csv("plots/data", in_folder(&folder, "data"));
    return folder;
}

// `from` with a 9 before the last value of each row and before those with a point: not in notes, nor in the
// names of the columns.
static void spoil(const char *from, char *to) {
    int names = 0;
    while (*from) {
        const int is_row = *from != '#' && names++ > 0;
        for (int last = 0; !last; from++) {
            const size_t length = strcspn(from, ",\n");
            last = from[length] != ',';
            if (is_row && (last || memchr(from, '.', length))) *to++ = '9';
            memcpy(to, from, length + 1), to += length + 1, from += length;
            if (!*from) return; // a last line without an end
        }
    }
    *to = 0;
}

START_TEST(a_stale_table_is_found) {
    static const struct {
        const char *csv, *shown_in;
    } read[] = {
        {"recorded/h200-stages.csv",
         "README.md: the table "
         "recorded-stages|chapters/03|q-outer-stages|chapters/04|kv-outer-stages"},
        {"recorded/dram-h200.csv",
         "README.md: the table recorded-stages|gpu/emulator|l2-agreement"},
        {"recorded/h200-peers.csv", "README.md: the table recorded-stages|q-outer-peers"},
        {"recorded/h200-short.csv", "q-outer-short"},
        {"recorded/h200-slices.csv", "kv-split-slices"},
        {"recorded/copy-h200.csv",
         "notes/theory.md: the table roofline|naive-kernels|decode-rates"},
        {"data/l2-model.csv", "kv-outer-orders"},
    };
    const temporary_folder folder = copy_of_plots();
    run_command("sh", "plots/tables.sh", "check", folder.path, NULL);
    expect(0, "", "");
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        read_file(in_folder(&folder, read[i].csv), text, sizeof text);
        spoil(text, other);
        write_text(in_folder(&folder, read[i].csv), other);
        run_command("sh", "plots/tables.sh", "check", folder.path, NULL);
        expect(1, "", read[i].shown_in);
        ck_assert_msg(says(got.err, "make tables"), "%s", got.err);
        write_text(in_folder(&folder, read[i].csv), text);
    }
    // What a table needs and the CSV lacks is no empty cell.
    write_text(in_folder(&folder, "data/l2-model.csv"), "stage,pass\n");
    run_command("sh", "plots/tables.sh", "check", folder.path, NULL);
    expect(2, "", "l2-model.csv");
    remove_temporary_folder(&folder);
}
END_TEST

// What `make record` writes of features, with times of 1, 2, 3 ... ms: the table that is made of it.
START_TEST(a_table_of_features_is_made_of_its_csv) {
    static const char *const features[] = {"off", "causal"};
    const temporary_folder folder = copy_of_plots();
    FILE *file = fopen(in_folder(&folder, "recorded/h200-features.csv"), "w");
    int ms = 0;
    ck_assert_ptr_nonnull(file);
    fprintf(file,
            "# a GPU\n# today, make record\nfeature,stage,device,pass,batch,heads,kv_heads,q_len,"
            "kv_len,head_dim,error,allowed,flops,read_bytes,written_bytes,ms,knobs\n");
    for (int d = 64; d <= 128; d += 64)
        for (int pass = 0; pass < 2; pass++)
            for (int f = 0; f < 2; f++)
                fprintf(file,
                        "%s,a-stage,gpu,%s,2,%d,%d,4096,4096,%d,,,%d,3000000000,500000000,%d,\n",
                        features[f], pass ? "backward" : "forward", 1024 / d, 1024 / d, d,
                        f ? 300 : 400, ++ms);
    fclose(file);
    snprintf(text, sizeof text, "folder=%s", folder.path);
    run_command("awk", "-v", text, "-f", "plots/tables/csv.awk", "-f", "plots/tables/features.awk",
                NULL);
    expect(0,
           "B=2 H=16 N=4096 d=64, on `a-stage`|B=2 H=8 N=4096 d=128|"
           "\n\nFLOPs skipped: |. a GPU; today, make record (`plots/recorded/h200-features.csv`)",
           "");
    ck_assert_ptr_nonnull(strstr(got.out, "| causal, bottom-right | 25.0 % | 3.00 + 0.500 | 2.00 | "
                                          "2.00 | 25.0 % | 3.00 + 0.500 | 4.00 | 1.33 |\n"));
    run_command("sh", "plots/tables.sh", "check", folder.path, NULL);
    expect(1, "", "chapters/06-masks/README.md: the table features");
    remove_temporary_folder(&folder);
}
END_TEST

// ---- plots/data/l2-model.csv --------------------------------------------------------------------------------
// The rows that take seconds: N = 1000, forward; in a quick run chapter 3's alone.
static int is_modelled_anew(const char *stage, const char *pass, const char *q_len) {
    return strcmp(q_len, "1000") == 0 && strcmp(pass, "forward") == 0 &&
           (!test_run.quick || strcmp(stage, "q-outer") == 0);
}

START_TEST(the_l2_model_is_what_the_program_says) {
    int compared = 0;
    if (!is_built("emulator")) return test_skip("recorded: l2-model.csv", "there is no emulator");
    if (TEST_SANITIZED) return test_skip("recorded: l2-model.csv", "sanitizers make it minutes");
    read_file("plots/data/l2-model.csv", text, sizeof text);
    for (char *rest, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        enum { STAGE, PASS, BATCH, HEADS, Q_LEN, KV_LEN, DIM, GPU, READ, WRITTEN, LEFT, FIELDS };
        char *field[FIELDS] = {NULL}, heads[32];
        int fields = 0;
        for (char *more, *f = strtok_r(line, ",", &more); f && fields < FIELDS;
             f = strtok_r(NULL, ",", &more))
            field[fields++] = f;
        if (fields < FIELDS || !is_modelled_anew(field[STAGE], field[PASS], field[Q_LEN])) continue;
        snprintf(heads, sizeof heads, "%d", atoi(field[BATCH]) * atoi(field[HEADS]));
        setenv("EMULATED_GPU", field[GPU], 1);
        run("pass", field[STAGE], "--device", "emulator", "--heads", heads, "--qlen", field[Q_LEN],
            "--kvlen", field[KV_LEN], "--dim", field[DIM], NULL);
        snprintf(other, sizeof other, "DRAM read %s MB, written %s MB, left in the L2 %s MB",
                 field[READ], field[WRITTEN], field[LEFT]);
        ck_assert_msg(
            got.status == 0 && strstr(got.out, other) != NULL,
            "%s: the program says\n%sand plots/data/l2-model.csv\n%s\nmake l2-model renews it",
            field[STAGE], got.out, other);
        compared++;
    }
    ck_assert_int_ge(compared, test_run.quick ? 1 : 5);
}
END_TEST

// ---- gpu/cuda/modules.py --------------------------------------------------------------------------------------
static int has_python(void) {
    run_command("python3", "--version", NULL);
    return got.status == 0;
}

START_TEST(python_calls_the_modules) {
    if (TEST_SANITIZED)
        return test_skip("recorded: modules.py", "Python has no sanitizer to load them with");
    if (!has_python()) return test_skip("recorded: modules.py", "there is no python3");
    run_command("python3", "-B", "gpu/cuda/modules.py", attn_modules_folder(), "host", "emulator",
                NULL);
    expect(0, "PASS naive on host, both passes", "");
    ck_assert_ptr_null(strstr(got.out, "FAIL"));
    ck_assert_msg(!is_built("emulator") || says(got.out, "PASS naive on emulator"), "%s", got.out);
    run_command("python3", "-B", "gpu/cuda/modules.py", "tests", "host", NULL);
    expect(2, "", "no stage was run");
}
END_TEST

START_TEST(python_finds_a_broken_module) {
    char folder[4300];
    snprintf(folder, sizeof folder, "%s/mutants/naive-lse-without-m", attn_modules_folder());
    if (access(folder, R_OK) != 0 || !has_python())
        return test_skip("recorded: modules.py on a broken module", "it takes mutants and python3");
    run_command("python3", "-B", "gpu/cuda/modules.py", folder, "host", NULL);
    expect(1, "FAIL naive on host", "");
}
END_TEST

Suite *recorded_suite(void) {
    Suite *suite = suite_create("recorded");
    TCase *tests = tcase_create("recorded");
    tcase_add_test(tests, tables_are_what_their_csv_says);
    tcase_add_test(tests, a_stale_table_is_found);
    tcase_add_test(tests, a_table_of_features_is_made_of_its_csv);
    tcase_add_test(tests, the_l2_model_is_what_the_program_says);
    tcase_add_test(tests, python_calls_the_modules);
    tcase_add_test(tests, python_finds_a_broken_module);
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
