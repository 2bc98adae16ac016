// features.c -- see features.h; and attention features, which prints the table by itself.
#include "cpu/cli/features.h"

#include "cpu/cli/bench.h"
#include "cpu/cli/commands.h"
#include "cpu/cli/table.h"
#include "cpu/median.h"
#include "cpu/proof.h"

#include <stdio.h>
#include <string.h>

// Above this the double-precision reference takes too long: a row is then run and not compared.
static const double COMPARED_FLOPS = 1e10;
enum { MOST_ROUNDS = 64, LONGEST_ON_HOST = 1024, LONGEST_UNTIMED = 512, LONGEST_CHECKED = 128 };

typedef struct measured_row {
    attn_feature_row feature;
    attn_case input;
    attn_status status;
    int compared;
    attn_proof proof;
    double seconds[2][MOST_ROUNDS]; // by pass
    double median[2];               // of the rounds
} measured_row;

typedef struct measured_rows {
    const attn_loaded_stage *stage;
    int timed, count;
    measured_row row[ATTN_FEATURE_ROWS];
} measured_rows;

const attn_loaded_stage *attn_find_featured(const attn_modules *modules, int chapter,
                                            const char *device) {
    const attn_loaded_stage *last = NULL;
    for (int i = 0; i < modules->stage_count; i++) {
        const attn_loaded_stage *row = &modules->stage[i];
        if ((chapter == 0 || row->module->chapter == chapter) &&
            strcmp(row->module->device->kind, device) == 0 &&
            (attn_shown_features() & ~row->stage->features) == 0)
            last = row;
    }
    return last;
}

// ---- measuring -----------------------------------------------------------------------------------------
static attn_inputs inputs_of(const measured_rows *m, const measured_row *row) {
    attn_inputs inputs = attn_case_inputs(&row->input);
    if (!m->stage->stage->backward) inputs.d_o = NULL;
    return inputs;
}

static attn_status prove_row(const attn_modules *modules, const measured_rows *m,
                             measured_row *row) {
    const attn_problem *p = &row->feature.problem;
    const attn_inputs inputs = inputs_of(m, row);
    row->compared = 4.0 * (double)p->head_dim * (double)attn_score_elements(p) <= COMPARED_FLOPS;
    if (!row->compared) return attn_run_stage(m->stage, p, &inputs, 1, &row->proof.run);
    attn_trial trial;
    ATTN_TRY(attn_trial_begin(modules, p, &inputs, NULL, &trial));
    const attn_status status = attn_prove(m->stage, &trial, 1, &row->proof);
    attn_trial_free(&trial);
    return status;
}

static void time_row(const measured_rows *m, measured_row *row, int repeats, int round) {
    const attn_inputs inputs = inputs_of(m, row);
    attn_run run;
    if (row->status.code != ATTN_OK) return;
    row->status = attn_run_stage(m->stage, &row->feature.problem, &inputs, repeats, &run);
    if (row->status.code != ATTN_OK) return;
    for (int pass = 0; pass < 2; pass++) row->seconds[pass][round] = run.seconds[pass];
    attn_run_free(&run);
}

static void say_failure(const measured_rows *m, const measured_row *row) {
    char text[256];
    snprintf(text, sizeof text, "counted bytes differ from the closed form");
    if (row->status.code != ATTN_OK) snprintf(text, sizeof text, "%s", row->status.text);
    for (int r = 0; r < ATTN_RESULTS; r++)
        if (row->proof.compared[r] && !row->proof.comparison[r].pass)
            attn_comparison_describe(&row->proof.comparison[r], text, sizeof text);
    fprintf(stderr, "FAIL  %s on %s, %s: %s\n", m->stage->stage->name,
            m->stage->module->device->kind, row->feature.name, text);
}

static attn_status measure(const attn_modules *modules, const attn_options *o, int rounds,
                           measured_rows *m, int *failed) {
    for (int i = 0; i < m->count; i++) {
        measured_row *row = &m->row[i];
        ATTN_TRY(attn_case_random(&row->feature.problem, o->input, o->seed, 1, &row->input));
        row->status = prove_row(modules, m, row);
        const int wrong = row->status.code == ATTN_OK ? row->compared && !row->proof.pass
                                                      : row->status.code == ATTN_DEVICE;
        if (wrong) (*failed)++, say_failure(m, row);
    }
    // In turn, so that what slows a machine for a while slows all alike.
    for (int round = 0; m->timed && round < rounds; round++)
        for (int i = 0; i < m->count; i++) {
            if (strcmp(m->stage->module->device->kind, "gpu") == 0) attn_bench_pause();
            time_row(m, &m->row[i], o->repeats, round);
        }
    for (int i = 0; i < m->count; i++)
        for (int pass = 0; pass < 2; pass++)
            m->row[i].median[pass] = attn_median(m->row[i].seconds[pass], rounds);
    return attn_ok();
}

// ---- the tables ----------------------------------------------------------------------------------------
static attn_table table; // too large for a stack

static void add_row(const measured_rows *m, const measured_row *row, attn_pass pass) {
    const attn_stage *stage = m->stage->stage;
    const attn_problem *p = &row->feature.problem, *off = &m->row[0].feature.problem;
    const attn_traffic model = attn_model_bytes(stage, p, pass);
    const attn_tensor_bytes total = attn_traffic_total(&model);
    const attn_comparison *worst = row->compared ? attn_proof_worst(&row->proof, pass) : NULL;
    const double done = stage->flops(p, pass), full = stage->flops(off, pass);
    attn_table_row(&table);
    attn_table_cell(&table, "%s", row->feature.name);
    attn_table_cell(&table, "%s", row->feature.knobs);
    if (worst) {
        attn_table_cell(&table, "%.1e", worst->worst);
        attn_table_cell(&table, "%.1e", worst->allowed);
    } else {
        attn_table_cell(&table, "not compared");
        attn_table_cell(&table, "%s", "");
    }
    attn_table_cell(&table, "%.1f", full > 0 ? 100 * (full - done) / full : 0);
    attn_table_cell(&table, "%.6g", (double)total.read / 1e6);
    attn_table_cell(&table, "%.6g", (double)total.written / 1e6);
    if (!m->timed) return;
    const double seconds = row->median[pass], plain = m->row[0].median[pass];
    attn_table_cell(&table, "%.4g", seconds * 1e3);
    attn_table_cell(&table, "%.2f", plain > 0 ? seconds / plain : 0);
}

static void print_pass(const measured_rows *m, attn_pass pass) {
    static const char *const heads[] = {"feature",         "asked for by",
                                        "max error",       "allowed",
                                        "% FLOPs skipped", "read MB",
                                        "written MB",      "ms",
                                        "over all off",    NULL};
    attn_table_begin(&table, heads);
    if (!m->timed) table.columns -= 2; // no time
    for (int i = 0; i < m->count; i++)
        if (m->row[i].status.code == ATTN_OK) add_row(m, &m->row[i], pass);
    printf("  %s\n", pass == ATTN_FORWARD ? "Forward" : "Backward");
    attn_table_print(&table, 4);
}

// Of a problem that short, which says nothing of longer ones.
static int skips_no_tile(const measured_rows *m) {
    const attn_stage *stage = m->stage->stage;
    const double full = stage->flops(&m->row[0].feature.problem, ATTN_FORWARD);
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->row[i].feature.key, "causal") == 0)
            return m->row[i].feature.problem.kv_len > 1 &&
                   stage->flops(&m->row[i].feature.problem, ATTN_FORWARD) == full;
    return 0;
}

static void print_tables(const measured_rows *m) {
    char problem[200];
    attn_problem_describe(&m->row[0].feature.problem, problem, sizeof problem);
    printf("\nWhat each feature costs %s of chapter %d on %s: %s\n", m->stage->stage->name,
           m->stage->module->chapter, m->stage->module->device->kind, problem);
    printf(
        "    FLOPs skipped: of those with all off, what the products no longer execute; below 0: "
        "what they\n    execute besides. Bytes %s.\n",
        m->row[0].proof.bytes_compared ? "as counted, by the closed form" : "by the closed form");
    if (skips_no_tile(m))
        printf(
            "    Only whole tiles are skipped, and causal leaves each tile of this short problem a "
            "pair: a larger N skips.\n");
    for (int pass = 0; pass < (m->stage->stage->backward ? 2 : 1); pass++)
        print_pass(m, (attn_pass)pass);
    for (int i = 0; i < m->count; i++)
        if (m->row[i].status.code != ATTN_OK)
            printf("    %s: not run: %s\n", m->row[i].feature.name, m->row[i].status.text);
}

static void add_number(int known, const char *format, double value) {
    if (known)
        attn_table_cell(&table, format, value);
    else
        attn_table_cell(&table, "%s", "");
}

static void add_csv_row(const measured_rows *m, const measured_row *row, attn_pass pass) {
    const attn_stage *stage = m->stage->stage;
    const attn_problem *p = &row->feature.problem;
    const attn_traffic model = attn_model_bytes(stage, p, pass);
    const attn_tensor_bytes total = attn_traffic_total(&model);
    const attn_comparison *worst = row->compared ? attn_proof_worst(&row->proof, pass) : NULL;
    const int64_t sizes[] = {p->batch, p->heads, p->kv_heads, p->q_len, p->kv_len, p->head_dim};
    attn_table_row(&table);
    attn_table_cell(&table, "%s", row->feature.key);
    attn_table_cell(&table, "%s", stage->name);
    attn_table_cell(&table, "%s", m->stage->module->device->kind);
    attn_table_cell(&table, "%s", pass == ATTN_FORWARD ? "forward" : "backward");
    for (int s = 0; s < 6; s++) attn_table_cell(&table, "%lld", (long long)sizes[s]);
    add_number(worst != NULL, "%.6e", worst ? worst->worst : 0);
    add_number(worst != NULL, "%.6e", worst ? worst->allowed : 0);
    attn_table_cell(&table, "%.0f", stage->flops(p, pass));
    attn_table_cell(&table, "%llu", (unsigned long long)total.read);
    attn_table_cell(&table, "%llu", (unsigned long long)total.written);
    add_number(m->timed, "%.6f", 1e3 * row->median[pass]);
    attn_table_cell(&table, "%s", row->feature.knobs); // last, for it may have commas
}

static void print_csv(const measured_rows *m) {
    static const char *const heads[] = {"feature", "stage",      "device",        "pass",
                                        "batch",   "heads",      "kv_heads",      "q_len",
                                        "kv_len",  "head_dim",   "error",         "allowed",
                                        "flops",   "read_bytes", "written_bytes", "ms",
                                        "knobs",   NULL};
    attn_table_begin(&table, heads);
    for (int pass = 0; pass < (m->stage->stage->backward ? 2 : 1); pass++)
        for (int i = 0; i < m->count; i++)
            if (m->row[i].status.code == ATTN_OK) add_csv_row(m, &m->row[i], (attn_pass)pass);
    for (int i = 0; i < m->count; i++)
        if (m->row[i].status.code != ATTN_OK)
            fprintf(stderr, "not run: %s: %s\n", m->row[i].feature.name, m->row[i].status.text);
    attn_table_print_csv(&table);
}

static void shorten(attn_problem *p, int64_t most) {
    if (p->q_len > most) p->q_len = most;
    if (p->kv_len > most) p->kv_len = most;
}

attn_status attn_print_features(const attn_modules *modules, const attn_loaded_stage *stage,
                                const attn_options *o, int rounds, int *failed) {
    static measured_rows m;
    attn_feature_row rows[ATTN_FEATURE_ROWS];
    attn_problem asked = o->problem;
    memset(&m, 0, sizeof m);
    m.stage = stage, m.timed = stage->module->device->timer_start != NULL;
    if (!m.timed) shorten(&asked, LONGEST_UNTIMED);
    if (strcmp(stage->module->device->kind, "check") == 0) shorten(&asked, LONGEST_CHECKED);
    if (strcmp(stage->module->device->kind, "host") == 0) shorten(&asked, LONGEST_ON_HOST);
    ATTN_TRY(attn_feature_rows(&asked, stage->stage, rows, &m.count));
    for (int i = 0; i < m.count; i++) m.row[i].feature = rows[i];
    const attn_status status = measure(modules, o, rounds, &m, failed);
    if (status.code == ATTN_OK && o->csv) print_csv(&m);
    if (status.code == ATTN_OK && !o->csv) print_tables(&m);
    for (int i = 0; i < m.count; i++) {
        attn_proof_free(&m.row[i].proof);
        attn_case_free(&m.row[i].input);
    }
    attn_feature_rows_free(rows, m.count);
    return status;
}

// ---- attention features ----------------------------------------------------------------------------------
// The device asked for; else a GPU, else the emulator, else the host: the first with such a stage.
static const attn_loaded_stage *choose(const attn_modules *modules, const char *device) {
    static const char *const preference[] = {"gpu", "emulator", "host"};
    const attn_loaded_stage *row = NULL;
    if (device) return attn_find_featured(modules, 0, device);
    for (size_t i = 0; i < sizeof preference / sizeof *preference && !row; i++)
        row = attn_find_featured(modules, 0, preference[i]);
    return row;
}

static attn_status features(const attn_options *o, int *failed) {
    static attn_modules modules;
    ATTN_TRY(attn_load_devices(o->device, &modules));
    const attn_loaded_stage *stage = choose(&modules, o->device);
    if (!stage)
        return attn_error(ATTN_UNSUPPORTED,
                          "no stage that is built does all features%s%s: make "
                          "build builds all chapters",
                          o->device ? " on the device " : "", o->device ? o->device : "");
    if (o->csv) {
        char what[100];
        snprintf(what, sizeof what, "make features; median of %d rounds of %d runs", o->rounds,
                 o->repeats);
        attn_bench_origin(stage->module->device, what);
    }
    return attn_print_features(&modules, stage, o, o->rounds, failed);
}

int attn_command_features(const attn_options *options) {
    int failed = 0;
    const attn_status status = features(options, &failed);
    return status.code == ATTN_OK ? failed > 0 : attn_complain(status);
}
