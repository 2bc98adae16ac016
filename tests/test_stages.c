// test_stages.c -- every stage of every chapter on every device, against the reference: a Check test for
// each stage, device and family of cases. Nothing here names a chapter.
#include "tests/test_stages.h"
#include "tests/combinations.h"
#include "tests/feature_cases.h"
#include "tests/harness.h"
#include "tests/stage_rows.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *stages_suite(void);

static int is_emulated(const attn_loaded_stage *row) {
    const char *kind = row->module->device->kind;
    return strcmp(kind, "check") == 0 || strcmp(kind, "emulator") == 0;
}

// Every access is watched there: by the check build, or by a sanitizer in the emulator.
int is_slow_device(const attn_loaded_stage *row) {
    return is_emulated(row) && (TEST_SANITIZED || strcmp(row->module->device->kind, "check") == 0);
}

test_case small_case(const attn_loaded_stage *row) {
    test_case c = {.kind = ATTN_INPUT_NORMAL, .seed = 7};
    const int small = test_run.quick || is_slow_device(row);
    c.problem = attn_problem_of(small ? 37 : 70, small ? 45 : 100, small ? 20 : 40);
    c.problem.batch = 2, c.problem.heads = 4, c.problem.kv_heads = 2;
    c.problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    // What the stage does not do is left away, so that the family says something about it.
    if (!(row->stage->features & ATTN_HAS_CAUSAL)) c.problem.causal = ATTN_CAUSAL_OFF;
    if (!(row->stage->features & ATTN_HAS_GROUPED_HEADS)) c.problem.kv_heads = c.problem.heads;
    return c;
}

int same_bits(const float *a, const float *b, size_t count) {
    return memcmp(a, b, count * sizeof *a) == 0;
}

static void prove(const attn_loaded_stage *row, const test_case *c, test_failures *failures) {
    test_input input = test_input_make(c);
    test_prove(row, c, &input, NULL, failures);
    test_input_free(&input);
}

// ---- sizes ---------------------------------------------------------------------------------------------
// Multiply-adds of one product. What is left out for a slow device or a quick answer is the largest.
static double work_of(const attn_problem *p) {
    return (double)attn_score_elements(p) * (double)p->head_dim;
}

void family_sizes(const attn_loaded_stage *row, test_failures *failures) {
    static test_case cases[MAX_COMBINATIONS];
    const int count = combinations_make(cases);
    double most = 1e30;
    if (is_slow_device(row)) most = 4e5;
    if (test_run.quick) most = is_slow_device(row) ? 1e4 : is_emulated(row) ? 1e5 : 3e5;
    for (int i = 0; i < count; i++)
        if (work_of(&cases[i].problem) <= most) prove(row, &cases[i], failures);
}

// ---- features in generated combinations, of what the stage does ----------------------------------------
void family_features(const attn_loaded_stage *row, test_failures *failures) {
    static test_case cases[MAX_FEATURE_CASES];
    const int count = feature_cases_make(row->stage->features, cases);
    double most = 1e30;
    if (is_slow_device(row)) most = 4e5;
    if (test_run.quick) most = is_slow_device(row) ? 5e4 : is_emulated(row) ? 2e5 : 1e30;
    for (int i = 0; i < count; i++)
        if (work_of(&cases[i].problem) <= most) prove(row, &cases[i], failures);
}

// ---- logits, from all alike to far apart ---------------------------------------------------------------
void family_logits(const attn_loaded_stage *row, test_failures *failures) {
    static const float factors[] = {1e-30f, 1e-6f, 0.1f, 1, 30, -30, 1000, 2e6f};
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++)
        for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
            test_case c = small_case(row);
            c.kind = (attn_input_kind)kind, c.seed = 100 + f;
            // With scores of some 1e7, P = e^(S - L) is far above 1 where nobody prevents it. With
            // larger ones, or more columns, naive's bound would be infinite.
            if (factors[f] > 1000) {
                if (kind != ATTN_INPUT_RISING) continue;
                c.problem.head_dim = 8, c.problem.scale = attn_default_scale(8);
            }
            c.problem.batch = 1, c.problem.heads = c.problem.kv_heads = 1;
            c.problem.scale *= factors[f];
            prove(row, &c, failures);
        }
}

// ---- nothing to do, which has an answer too ------------------------------------------------------------
void family_empty(const attn_loaded_stage *row, test_failures *failures) {
    static const struct {
        int64_t batch, q_len, kv_len;
        attn_causal causal;
    } sizes[] = {
        {0, 33, 65, ATTN_CAUSAL_OFF},         {2, 0, 65, ATTN_CAUSAL_OFF},
        {2, 33, 0, ATTN_CAUSAL_OFF},          {1, 0, 0, ATTN_CAUSAL_OFF},
        {0, 0, 0, ATTN_CAUSAL_OFF},           {2, 33, 0, ATTN_CAUSAL_BOTTOM_RIGHT},
        {2, 0, 65, ATTN_CAUSAL_BOTTOM_RIGHT}, {2, 70, 3, ATTN_CAUSAL_BOTTOM_RIGHT},
        {1, 1, 0, ATTN_CAUSAL_TOP_LEFT},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_case c = {.problem = attn_problem_of(sizes[i].q_len, sizes[i].kv_len, 17), .seed = i};
        c.problem.batch = sizes[i].batch, c.problem.causal = sizes[i].causal;
        c.problem.heads = 4;
        c.problem.kv_heads = row->stage->features & ATTN_HAS_GROUPED_HEADS ? 2 : 4;
        prove(row, &c, failures);
        // Said once more without the reference: no key means 0 and minus infinity, no query 0.
        test_input input = test_input_make(&c);
        attn_run run;
        if ((sizes[i].kv_len == 0 || sizes[i].q_len == 0) &&
            test_run_stage(row, &c, &input, &run, failures)) {
            for (int r = 0; r < ATTN_RESULTS; r++) {
                const float *out = test_output(&run, (attn_result)r);
                const float wanted = r == ATTN_RESULT_LSE ? -1.0f / 0.0f : 0;
                for (size_t e = 0; out && e < test_output_elements(&c.problem, (attn_result)r); e++)
                    if (out[e] != wanted) {
                        test_failed(failures, row, &c, "%s[%zu] is %g, not %g",
                                    attn_result_name((attn_result)r), e, out[e], wanted);
                        break;
                    }
            }
            attn_run_free(&run);
        }
        test_input_free(&input);
    }
}

// ---- tile sizes, of stages that let them be chosen -----------------------------------------------------
void family_tiles(const attn_loaded_stage *row, test_failures *failures) {
    static const int64_t sizes[] = {1, 3, 8, 16, 31, 64, 100, 1000};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int r = -1; r < SIZES; r++)
        for (int s = -1; s < SIZES; s++) {
            if (r < 0 && s < 0) continue;
            if (test_run.quick && (r + s) % 3) continue;
            test_case c = small_case(row);
            c.seed = (uint64_t)(100 * (r + 1) + s + 1);
            c.kind = (attn_input_kind)((r + s + 2) % ATTN_INPUT_KINDS);
            c.problem.br = r < 0 ? 0 : sizes[r], c.problem.bc = s < 0 ? 0 : sizes[s];
            prove(row, &c, failures);
        }
}

// ---- PyTorch's results, and real input -----------------------------------------------------------------
// A folder of the project, from where the program is run or from where it lies.
static const char *find_folder(const char *name) {
    static char path[4200];
    snprintf(path, sizeof path, "%s", name);
    if (access(path, R_OK) != 0)
        snprintf(path, sizeof path, "%s/../%s", attn_modules_folder(), name);
    ck_assert_msg(access(path, R_OK) == 0, "there is no folder %s", name);
    return path;
}

static void prove_folder(const attn_loaded_stage *row, const char *folder,
                         test_failures *failures) {
    attn_case loaded;
    const attn_status status = attn_case_load(folder, &loaded);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    const test_case c = {.problem = loaded.problem, .note = folder};
    const test_input input = {loaded.q, loaded.k, loaded.v, loaded.d_o, loaded.bias, loaded.mask};
    test_prove(row, &c, &input, &loaded, failures);
    attn_case_free(&loaded);
}

void family_golden(const attn_loaded_stage *row, test_failures *failures) {
    char folder[4300], path[4700];
    snprintf(folder, sizeof folder, "%s", find_folder("tests/golden"));
    DIR *listing = opendir(folder);
    ck_assert_ptr_nonnull(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        snprintf(path, sizeof path, "%s/%.255s/case.txt", folder, entry->d_name);
        if (access(path, R_OK) != 0) continue;
        *strrchr(path, '/') = 0;
        prove_folder(row, path, failures);
    }
    closedir(listing);
    ck_assert_msg(failures->cases >= 29, "only %d golden cases found", failures->cases);
}

void family_real_input(const attn_loaded_stage *row, test_failures *failures) {
    prove_folder(row, find_folder("tests/real-input"), failures);
}

// ---- the suite -----------------------------------------------------------------------------------------
// Where and when a family runs: everywhere, but for these.
enum {
    NOT_QUICK = 1,       // not in a quick run
    NOT_CHECK = 2,       // not on the check build, which is slow
    NOT_QUICK_CHECK = 4, // not on the check build in a quick run
    ONLY_HOST = 8,
    ONLY_TILES = 16, // of stages whose tiles can be chosen
    ONLY_EMULATED = 32,
    ONLY_FEATURES = 64, // of stages that do more than masks of a band and grouped heads
};
static const struct {
    const char *name;
    test_family *run;
    int where;
} families[] = {
    {"sizes", family_sizes, 0},
    {"features", family_features, ONLY_FEATURES},
    {"logits", family_logits, NOT_CHECK},
    {"empty problems", family_empty, 0},
    {"tile sizes", family_tiles, NOT_CHECK | ONLY_TILES},
    {"golden cases", family_golden, NOT_QUICK_CHECK},
    {"real input", family_real_input, NOT_QUICK | NOT_CHECK},
    {"values no query sees", family_unseen_values, 0},
    {"values some queries see", family_values_some_see, NOT_CHECK},
    {"values queries see", family_visible_values, NOT_CHECK},
    {"rows without keys", family_rows_without_keys, 0},
    {"scores all minus infinity", family_scores_all_minus_infinity, 0},
    {"far scores", family_far_scores, 0},
    {"guarded memory", family_guarded_memory, ONLY_HOST},
    {"inputs unchanged", family_inputs_unchanged, 0},
    {"repeatable", family_repeatable, 0},
    {"any number of threads", family_threads, NOT_CHECK},
    {"extra memory", family_extra_memory, 0},
    {"FLOPs", family_flops, 0},
    {"indices beyond 32 bits", family_large_indices, ONLY_EMULATED},
    {"refusals", family_refusals, 0},
    {"causal is full attention on each prefix", family_causal_is_full_on_prefixes, NOT_CHECK},
    {"a window as wide as N", family_wide_window, NOT_CHECK},
    {"grouped heads are repeated K and V", family_grouped_is_repeated, NOT_CHECK},
    {"permuted keys", family_permuted_keys, NOT_CHECK},
    {"packed sequences are each alone", family_packed_is_each_alone, ONLY_FEATURES},
    {"a constant bias moves only L", family_constant_bias, ONLY_FEATURES | NOT_CHECK},
    {"strided is contiguous", family_strided_is_contiguous, ONLY_FEATURES},
    {"dropout", family_dropout, ONLY_FEATURES | NOT_CHECK},
    {"values that features hide", family_hidden_values, ONLY_FEATURES},
    {"rows that nothing is shown", family_blind_rows, ONLY_FEATURES},
};
enum { FAMILIES = sizeof families / sizeof *families };

static int runs_on(const stage_row *row, int where) {
    const int host = strcmp(row->device, "host") == 0, check = strcmp(row->device, "check") == 0;
    if (where & NOT_QUICK && test_run.quick) return 0;
    if (where & NOT_CHECK && check) return 0;
    if (where & NOT_QUICK_CHECK && check && test_run.quick) return 0;
    if (where & ONLY_HOST && !host) return 0;
    if (where & ONLY_FEATURES && !(row->features & FEATURES_BEYOND_SIZES)) return 0;
    if (where & ONLY_EMULATED && !check && strcmp(row->device, "emulator") != 0) return 0;
    return !(where & ONLY_TILES) || row->features & ATTN_HAS_TILE_SIZES;
}

static const stage_rows *rows;

// _i: row * FAMILIES + family.
START_TEST(stage_goes_through) {
    static test_failures failures;
    const attn_loaded_stage *row = stage_row_load(&rows->row[_i / FAMILIES]);
    families[_i % FAMILIES].run(row, &failures);
    test_verdict(row, families[_i % FAMILIES].name, &failures);
}
END_TEST

START_TEST(modules_load) {
    ck_assert_msg(rows->error[0] == 0, "%s", rows->error);
    ck_assert_msg(rows->count > 0, "no stage is built in %s", attn_modules_folder());
}
END_TEST

Suite *stages_suite(void) {
    Suite *suite = suite_create("stages");
    TCase *loading = tcase_create("modules");
    rows = stage_rows_find();
    tcase_add_test(loading, modules_load);
    suite_add_tcase(suite, loading);
    for (int k = 0; attn_device_kinds[k]; k++) {
        const char *device = attn_device_kinds[k];
        char what[80];
        snprintf(what, sizeof what, "stages: all tests on the device %s", device);
        if (!test_wants_device(device))
            test_skip(what, "this run is restricted to %s", test_run.device);
        else if (rows->unusable[k][0])
            test_skip(what, "%s", rows->unusable[k]);
    }
    for (int r = 0; r < rows->count; r++) {
        if (!test_wants_device(rows->row[r].device)) continue;
        static char names[MAX_STAGE_ROWS][80];
        snprintf(names[r], sizeof names[r], "%s on %s", rows->row[r].stage, rows->row[r].device);
        TCase *tests = tcase_create(names[r]);
        for (int f = 0; f < FAMILIES; f++) {
            if (!runs_on(&rows->row[r], families[f].where)) continue;
            const int at = r * FAMILIES + f;
            tcase_add_loop_test(tests, stage_goes_through, at, at + 1);
        }
        tcase_set_timeout(tests, 600);
        suite_add_tcase(suite, tests);
    }
    return suite;
}
