// scenarios.c -- attention scenarios: what the CUDA stages do at the shapes of training, of reading a prompt
// (prefill) and of writing a token (decode). FLOPs and bytes are closed forms, and blocks are what the
// stages' own code launches, on the emulator without running any (EMULATED_DRY); so no shape is too large.
// Times are those of this machine's GPU, if it has one, and those recorded for the very same shape.
#define _GNU_SOURCE // setenv, open_memstream
#include "cpu/case.h"
#include "cpu/cli/commands.h"
#include "cpu/cli/recorded.h"
#include "cpu/cli/table.h"
#include "cpu/memory.h"
#include "cpu/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scenario {
    const char *name;
    int64_t batch, heads, kv_heads, q_len, kv_len, d;
    int causal, backward;
} scenario;

static const scenario scenarios[] = {
    {"training", 8, 32, 32, 2048, 2048, 64, 0, 1},
    {"training, longer", 8, 32, 32, 8192, 8192, 64, 0, 1},
    {"prefill", 1, 32, 8, 4096, 4096, 128, 0, 0},
    {"prefill, causal", 1, 32, 8, 4096, 4096, 128, 1, 0},
    {"decode", 1, 32, 8, 1, 4096, 128, 0, 0},
    {"decode, longer", 1, 32, 8, 1, 32768, 128, 0, 0},
    {"decode, many", 64, 32, 8, 1, 4096, 128, 0, 0},
    {"decode, many and longer", 64, 32, 8, 1, 32768, 128, 0, 0},
    {"decode, few heads", 1, 8, 8, 1, 65536, 64, 0, 0},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static attn_modules modules;
static attn_table table; // of one scenario, or of all as CSV

static attn_problem problem_of(const scenario *s) {
    attn_problem p = attn_problem_of(s->q_len, s->kv_len, s->d);
    p.batch = s->batch, p.heads = s->heads, p.kv_heads = s->kv_heads;
    p.causal = s->causal ? ATTN_CAUSAL_BOTTOM_RIGHT : ATTN_CAUSAL_OFF;
    return p;
}

// ---- what a pass launches ----
typedef struct launches {
    int multiprocessors;
    // Of the launch with most dynamic shared memory, which has the tiles; of several the one with fewest
    // blocks. Naive's have none.
    long blocks;
    size_t shared;
    char text[1500]; // all of them, as reported
} launches;

static void add_launch(launches *all, long blocks, size_t shared) {
    if (all->blocks > 0 && shared < all->shared) return;
    if (all->blocks > 0 && shared == all->shared && blocks >= all->blocks) return;
    all->blocks = blocks, all->shared = shared;
}

static attn_status run_dry(const attn_stage *stage, const attn_problem *p, attn_pass pass) {
    void *const nowhere = (void *)4096; // as a GPU has them, aligned; nobody reads or writes there
    const attn_tensors t = {.q = nowhere,
                            .k = nowhere,
                            .v = nowhere,
                            .o = nowhere,
                            .lse = nowhere,
                            .d_o = nowhere,
                            .dq = nowhere,
                            .dk = nowhere,
                            .dv = nowhere};
    void *buffers[2 * ATTN_MAX_BUFFERS];
    for (int i = 0; i < 2 * ATTN_MAX_BUFFERS; i++) buffers[i] = nowhere;
    return pass == ATTN_FORWARD ? stage->forward(p, &t, buffers) : stage->backward(p, &t, buffers);
}

static attn_status find_launches(const attn_loaded_stage *row, const attn_problem *p,
                                 attn_pass pass, launches *found) {
    char *report = NULL;
    size_t size = 0;
    memset(found, 0, sizeof *found);
    setenv("EMULATED_DRY", "1", 1);
    const attn_status status = run_dry(row->stage, p, pass);
    FILE *file = open_memstream(&report, &size);
    if (file) row->module->device->report(file), fclose(file);
    unsetenv("EMULATED_DRY");
    for (char *line = report; line && *line; line = strchr(line, '\n') + 1) {
        long blocks = 0;
        int threads = 0;
        size_t shared = 0;
        sscanf(line, "multiprocessors %d", &found->multiprocessors);
        if (sscanf(line, "launch %ld %d %zu", &blocks, &threads, &shared) == 3)
            add_launch(found, blocks, shared);
    }
    snprintf(found->text, sizeof found->text, "%s", report ? report : "");
    free(report);
    return status;
}

// ---- times ----
// Input that takes minutes to make is not made.
enum { MOST_TIMED_ELEMENTS = 1 << 28 };

static double time_on_gpu(const char *stage, const attn_problem *p, attn_pass pass,
                          const attn_case *random) {
    const attn_loaded_stage *row = attn_find_stage(&modules, stage, "gpu");
    attn_inputs inputs = attn_case_inputs(random);
    attn_run run;
    if (!row || !inputs.q) return 0;
    if (pass == ATTN_FORWARD) inputs.d_o = NULL;
    if (attn_run_stage(row, p, &inputs, 6, &run).code != ATTN_OK) return 0; // too large, say
    const double seconds = run.seconds[pass];
    attn_run_free(&run);
    return seconds * 1e3;
}

// ---- the table ----
static char recorded_on[200];
static int has_gpu;
static char same[2000]; // lines: stages without a row, whose launches and bytes are another's

static void bytes_cell(double bytes) {
    char text[40];
    attn_bytes_text(bytes, text, sizeof text);
    attn_table_cell(&table, "%s", bytes > 0 ? text : "0");
}

static void ms_cell(double ms) {
    if (ms > 0)
        attn_table_cell(&table, "%.4g", ms);
    else
        attn_table_cell(&table, "%s", "");
}

static void add_row(const attn_loaded_stage *row, const attn_problem *p, attn_pass pass,
                    const launches *l, const scenario *s, const attn_case *random, int csv) {
    const attn_stage *stage = row->stage;
    const attn_traffic model = attn_model_bytes(stage, p, pass);
    const attn_tensor_bytes bytes = attn_traffic_total(&model);
    const double flops = stage->flops(p, pass), moved = (double)bytes.read + (double)bytes.written;
    const double extra = (double)attn_extra_bytes(stage, p, pass, NULL);
    attn_table_row(&table);
    if (csv) attn_table_cell(&table, "%s", s->name);
    attn_table_cell(&table, "%s", stage->name);
    if (csv) {
        attn_table_cell(&table, "%s", pass == ATTN_FORWARD ? "forward" : "backward");
        const int64_t sizes[] = {p->batch, p->heads, p->kv_heads, p->q_len, p->kv_len, p->head_dim};
        for (int i = 0; i < 6; i++) attn_table_cell(&table, "%lld", (long long)sizes[i]);
        attn_table_cell(&table, "%d", s->causal);
        attn_table_cell(&table, "%.0f", flops);
        attn_table_cell(&table, "%llu", (unsigned long long)bytes.read);
        attn_table_cell(&table, "%llu", (unsigned long long)bytes.written);
        attn_table_cell(&table, "%.0f", extra);
        attn_table_cell(&table, "%ld", l->blocks);
        attn_table_cell(&table, "%d", l->multiprocessors);
    } else {
        attn_table_cell(&table, flops < 1e12 ? "%.4g" : "%.0f", flops / 1e9);
        bytes_cell((double)bytes.read);
        bytes_cell((double)bytes.written);
        attn_table_cell(&table, flops < 100 * moved ? "%.3g" : "%.0f", flops / moved);
        bytes_cell(extra);
        attn_table_cell(&table, "%ld", l->blocks);
        attn_table_cell(&table, l->blocks < 10 * l->multiprocessors ? "%.2g" : "%.0f",
                        (double)l->blocks / l->multiprocessors);
    }
    if (has_gpu) ms_cell(time_on_gpu(stage->name, p, pass, random));
    ms_cell(attn_recorded_ms(stage->name, pass, p, recorded_on, sizeof recorded_on));
}

// The stages of one pass, each with the launches that it has.
typedef struct passing {
    const attn_loaded_stage *row;
    launches launches;
    int first; // the first that has the same launches and bytes: itself, or a stage before it
} passing;

static int is_same(const passing *a, const passing *b, const attn_problem *p, attn_pass pass) {
    const attn_traffic bytes[] = {attn_model_bytes(a->row->stage, p, pass),
                                  attn_model_bytes(b->row->stage, p, pass)};
    return strcmp(a->launches.text, b->launches.text) == 0 && attn_traffic_equal(bytes, bytes + 1);
}

static void say_same(const passing *all, int count) {
    same[0] = 0;
    for (int first = 0; first < count; first++) {
        const char *before = "    as ";
        for (int i = first + 1; i < count; i++) {
            if (all[i].first != first) continue;
            size_t used = strlen(same);
            if (before[0] == ' ')
                snprintf(same + used, sizeof same - used,
                         "    as %s: ", all[first].row->stage->name);
            used = strlen(same);
            snprintf(same + used, sizeof same - used, "%s%s", before[0] == ' ' ? "" : ", ",
                     all[i].row->stage->name);
            before = ",";
        }
        if (before[0] == ',') strncat(same, "\n", sizeof same - strlen(same) - 1);
    }
}

static attn_status add_pass(const scenario *s, attn_pass pass, int csv) {
    static passing all[ATTN_MAX_STAGES];
    const attn_problem p = problem_of(s);
    int count = 0;
    for (int i = 0; i < modules.stage_count; i++) {
        passing *one = &all[count];
        one->row = &modules.stage[i];
        if (strcmp(one->row->module->device->kind, "emulator") != 0) continue;
        if (attn_stage_supports(one->row->stage, &p, pass).code != ATTN_OK) continue;
        ATTN_TRY(find_launches(one->row, &p, pass, &one->launches));
        one->first = 0;
        while (one->first < count && !is_same(&all[one->first], one, &p, pass)) one->first++;
        count++;
    }
    say_same(all, count);
    attn_case random = {.q = NULL};
    if (has_gpu && attn_kv_elements(&p) <= MOST_TIMED_ELEMENTS)
        (void)attn_case_random(&p, ATTN_INPUT_NORMAL, 1, pass == ATTN_BACKWARD,
                               &random); // no room: no times
    for (int i = 0; i < count; i++)
        if (all[i].first == i) add_row(all[i].row, &p, pass, &all[i].launches, s, &random, csv);
    attn_case_free(&random);
    return attn_ok();
}

// The heads, without the time here where there is no GPU.
static void begin_table(const char *const *heads, const char *time_here) {
    const char *used[ATTN_TABLE_COLUMNS + 1] = {NULL};
    for (int n = 0; *heads; heads++)
        if (has_gpu || strcmp(*heads, time_here) != 0) used[n++] = *heads;
    attn_table_begin(&table, used);
}

static attn_status print_pass(const scenario *s, attn_pass pass) {
    static const char *const heads[] = {"stage",     "GFLOP",       "read",   "written",
                                        "FLOP/byte", "extra",       "blocks", "/SM",
                                        "ms here",   "recorded ms", NULL};
    const attn_problem p = problem_of(s);
    const attn_tensor_bytes least = attn_compulsory_bytes(&p, pass);
    const double bytes = (double)least.read + (double)least.written;
    char problem[160], text[40];
    attn_problem_describe(&p, problem, sizeof problem);
    attn_bytes_text(bytes, text, sizeof text);
    begin_table(heads, "ms here");
    ATTN_TRY(add_pass(s, pass, 0));
    const double useful = attn_useful_flops(&p, pass) / bytes;
    printf("%s, %s: %s\n    at least %s, each input and output once: %.*f useful FLOPs a byte\n",
           s->name, pass == ATTN_FORWARD ? "forward" : "backward", problem, text,
           useful < 10 ? 1 : 0, useful);
    attn_table_print(&table, 4);
    printf("%s\n", same);
    return attn_ok();
}

static attn_status print_csv(void) {
    static const char *const heads[] = {
        "scenario",        "stage",      "pass",          "batch",       "heads",
        "kv_heads",        "q_len",      "kv_len",        "head_dim",    "causal",
        "flops",           "read_bytes", "written_bytes", "extra_bytes", "blocks",
        "multiprocessors", "ms",         "recorded_ms",   NULL};
    begin_table(heads, "ms");
    for (int i = 0; i < SCENARIOS; i++)
        for (int pass = 0; pass < 1 + scenarios[i].backward; pass++)
            ATTN_TRY(add_pass(&scenarios[i], (attn_pass)pass, 1));
    attn_table_print_csv(&table);
    return attn_ok();
}

static attn_status run(const attn_options *o) {
    ATTN_TRY(attn_device_usable("emulator"));
    ATTN_TRY(attn_load_devices(NULL, &modules));
    for (int i = 0; i < modules.module_count; i++)
        if (strcmp(modules.module[i]->device->kind, "gpu") == 0) has_gpu = 1;
    if (o->csv) return print_csv();
    for (int i = 0; i < SCENARIOS; i++)
        for (int pass = 0; pass < 1 + scenarios[i].backward; pass++)
            ATTN_TRY(print_pass(&scenarios[i], (attn_pass)pass));
    printf(
        "GFLOP: of the stage's matrix products. read, written: bytes asked of device memory, by\n"
        "the closed forms; a cache may answer. FLOP/byte: the one over the other. extra: memory\n"
        "besides the tensors. blocks: of the launch with the tiles, or where none has tiles in\n"
        "dynamic shared memory, with fewest; /SM: over the GPU's multiprocessors, and below 1 "
        "some\n"
        "have nothing to do. as: stages with the same launches and bytes.\n");
    if (has_gpu) printf("ms here: median of 6 runs; none where input or buffers are too large.\n");
    if (recorded_on[0]) printf("recorded ms: %s; plots/recorded.\n", recorded_on);
    return attn_ok();
}

int attn_command_scenarios(const attn_options *options) {
    return attn_complain(run(options));
}
