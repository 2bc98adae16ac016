// chapter_tables.c -- see chapter.h: what a chapter prints of its measurement.
//
// Host and device stages are separate tables, forward and backward too. Time stands only where a clock
// means something: never for the emulator.
#include "cpu/cli/chapter.h"
#include "cpu/cli/table.h"
#include "cpu/memory.h"

#include <stdio.h>
#include <string.h>

static attn_table table; // too large for a stack

static int is_host(const attn_loaded_stage *row) {
    return strcmp(row->module->device->kind, "host") == 0;
}

static int has_time(const attn_loaded_stage *row) {
    return row->module->device->timer_start != NULL;
}

static int pass_ran(const attn_measured *m, attn_pass pass) {
    return m->status.code == ATTN_OK && (pass == ATTN_FORWARD || m->proof.run.out.dq != NULL);
}

static void add_error_cells(const attn_measured *m, attn_pass pass) {
    const attn_comparison *worst = attn_proof_worst(&m->proof, pass);
    if (!m->checked || !worst) {
        attn_table_cell(&table, "not compared");
        attn_table_cell(&table, "%s", "");
        return;
    }
    attn_table_cell(&table, "%.1e", worst->worst);
    attn_table_cell(&table, "%.1e", worst->allowed);
}

// What the stage's matrix products execute, by its own closed form.
static void add_flops_cell(const attn_measured *m, const attn_problem *problem, attn_pass pass) {
    attn_table_cell(&table, "%.4g", m->row->stage->flops(problem, pass) / 1e9);
}

// Read, written, and what is stored besides the tensors, by the stage's own closed forms.
static void add_bytes_cells(const attn_measured *m, const attn_problem *problem, attn_pass pass) {
    const attn_traffic model = attn_model_bytes(m->row->stage, problem, pass);
    const attn_tensor_bytes total = attn_traffic_total(&model);
    attn_table_cell(&table, "%.6g", (double)total.read / 1e6);
    attn_table_cell(&table, "%.6g", (double)total.written / 1e6);
    attn_table_cell(&table, "%.6g", (double)m->proof.run.extra_bytes[pass] / 1e6);
}

static void begin_stage_row(const attn_measured *m) {
    attn_table_row(&table);
    attn_table_cell(&table, "%d %s", m->row->module->chapter, m->row->stage->name);
}

static void print_refusals(const attn_measurement *m, int host) {
    for (int i = 0; i < m->count; i++)
        if (m->stage[i].status.code != ATTN_OK && is_host(m->stage[i].row) == host)
            printf("    %d %s: not run: %s\n", m->stage[i].row->module->chapter,
                   m->stage[i].row->stage->name, m->stage[i].status.text);
}

// ---- stages on the host ----
static void print_host(const attn_measurement *m, attn_pass pass) {
    static const char *const heads[] = {"stage",           "max error", "allowed",
                                        "GFLOP done",      "read MB",   "written MB",
                                        "extra memory MB", "ms",        "useful GFLOP/s",
                                        "of FMA peak",     NULL};
    int disturbed = 0; // faster than the peak: another program had the processor during the probe
    attn_table_begin(&table, heads);
    for (int i = 0; i < m->count; i++) {
        const attn_measured *stage = &m->stage[i];
        if (!is_host(stage->row) || !pass_ran(stage, pass)) continue;
        const double seconds = stage->proof.run.seconds[pass];
        const double rate = seconds > 0 ? attn_useful_flops(&m->problem, pass) / seconds / 1e9 : 0;
        begin_stage_row(stage);
        add_error_cells(stage, pass);
        add_flops_cell(stage, &m->problem, pass);
        add_bytes_cells(stage, &m->problem, pass);
        attn_table_cell(&table, "%.4g", seconds * 1e3);
        attn_table_cell(&table, "%.1f", rate);
        disturbed |= rate > m->fma_peak;
        if (rate > m->fma_peak)
            attn_table_cell(&table, "?");
        else
            attn_table_cell(&table, "%.2f", rate / m->fma_peak);
    }
    if (table.rows == 0) return;
    printf("\n%s on this CPU (median of the repeats; peak: %.0f GFLOP/s of fp32 multiply-adds)\n",
           pass == ATTN_FORWARD ? "Forward" : "Backward", m->fma_peak);
    printf("    Bytes by formula: what the loops ask for, with what a tile or a row needs kept on "
           "the chip.\n"
           "    GFLOP done counts all products that run; useful ones are 4d a pair that sees each "
           "other "
           "forward,\n    10d backward, whatever a stage does.\n");
    attn_table_print(&table, 4);
    if (disturbed)
        printf(
            "    ?: above the measured peak, so another program slowed the probe; run it again.\n");
}

// ---- stages on a device ----
static void print_device(const attn_measurement *m, attn_pass pass) {
    static const char *const emulated[] = {"stage",   "max error",  "allowed",         "GFLOP done",
                                           "read MB", "written MB", "extra memory MB", NULL};
    static const char *const timed[] = {"stage",           "max error",
                                        "allowed",         "GFLOP done",
                                        "read MB",         "written MB",
                                        "extra memory MB", "ms",
                                        "useful TFLOP/s",  NULL};
    const attn_loaded_stage *device_row = NULL;
    for (int i = 0; i < m->count; i++)
        if (!is_host(m->stage[i].row) && pass_ran(&m->stage[i], pass)) device_row = m->stage[i].row;
    if (!device_row) return;
    attn_table_begin(&table, has_time(device_row) ? timed : emulated);
    for (int i = 0; i < m->count; i++) {
        const attn_measured *stage = &m->stage[i];
        if (is_host(stage->row) || !pass_ran(stage, pass)) continue;
        begin_stage_row(stage);
        add_error_cells(stage, pass);
        add_flops_cell(stage, &m->problem, pass);
        add_bytes_cells(stage, &m->problem, pass);
        if (!has_time(stage->row)) continue;
        const double seconds = stage->proof.run.seconds[pass];
        attn_table_cell(&table, "%.4g", seconds * 1e3);
        attn_table_cell(&table, "%.2f",
                        seconds > 0 ? attn_useful_flops(&m->problem, pass) / seconds / 1e12 : 0);
    }
    const attn_tensor_bytes compulsory = attn_compulsory_bytes(&m->problem, pass);
    attn_table_row(&table);
    attn_table_cell(&table, "  compulsory");
    for (int i = 0; i < 3; i++) attn_table_cell(&table, "%s", "");
    attn_table_cell(&table, "%.6g", (double)compulsory.read / 1e6);
    attn_table_cell(&table, "%.6g", (double)compulsory.written / 1e6);
    char device[160];
    device_row->module->device->describe(device, sizeof device);
    printf("\n%s on %s\n", pass == ATTN_FORWARD ? "Forward" : "Backward", device);
    printf("    Bytes that the kernels ask of device memory; how many of them reach the DRAM "
           "behind the "
           "L2 cache is another question.\n");
    attn_table_print(&table, 4);
}

// The tensors that the mathematics gives and takes; all others a stage has chosen to store.
static int is_tensor_of_problem(const char *name) {
    static const char *const names[] = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return 1;
    return 0;
}

static const char *counted_text(const attn_measured *stage) {
    if (!stage->proof.bytes_compared) return "not counted here";
    return stage->proof.bytes_equal ? "yes" : "NO";
}

// Read MB by tensor: those of the problem together, then each that a stage stores besides.
static void print_by_tensor(const attn_measurement *m, attn_pass pass) {
    char names[ATTN_TABLE_COLUMNS][16];
    const char *heads[ATTN_TABLE_COLUMNS + 1] = {"read MB by tensor",
                                                 pass == ATTN_FORWARD ? "Q+K+V" : "Q+K+V+dO"};
    int stored = 0, columns = 2, shown = 0;
    for (int i = 0; i < m->count; i++) {
        if (is_host(m->stage[i].row) || !pass_ran(&m->stage[i], pass)) continue;
        const attn_traffic model = attn_model_bytes(m->stage[i].row->stage, &m->problem, pass);
        for (int t = 0; t < model.count; t++) {
            int known = is_tensor_of_problem(model.tensor[t].name);
            for (int s = 0; s < stored; s++) known |= strcmp(names[s], model.tensor[t].name) == 0;
            if (!known && stored < ATTN_TABLE_COLUMNS - 4)
                snprintf(names[stored++], sizeof names[0], "%s", model.tensor[t].name);
        }
        shown++;
    }
    if (shown == 0) return;
    for (int s = 0; s < stored; s++) heads[columns++] = names[s];
    heads[columns++] = "model = counted";
    heads[columns] = NULL;
    attn_table_begin(&table, heads);
    for (int i = 0; i < m->count; i++) {
        const attn_measured *stage = &m->stage[i];
        if (is_host(stage->row) || !pass_ran(stage, pass)) continue;
        const attn_traffic model = attn_model_bytes(stage->row->stage, &m->problem, pass);
        double problem_bytes = 0;
        for (int t = 0; t < model.count; t++)
            if (is_tensor_of_problem(model.tensor[t].name))
                problem_bytes += (double)model.tensor[t].read;
        begin_stage_row(stage);
        attn_table_cell(&table, "%.6g", problem_bytes / 1e6);
        for (int s = 0; s < stored; s++)
            attn_table_cell(&table, "%.6g", (double)attn_traffic_of(&model, names[s]).read / 1e6);
        attn_table_cell(&table, "%s", counted_text(stage));
    }
    printf("\n");
    attn_table_print(&table, 4);
}

// ---- what would change: from the closed forms ----
static const char *growth(double ratio) {
    if (ratio > 3.5) return "grows with N^2";
    if (ratio > 1.5) return "grows with N";
    return ratio > 0 ? "does not grow with N" : "none";
}

// From N to 2 N; problems shorter than a few tiles say little about growth, so from 1024 at least.
static void print_growth(const attn_measurement *m, const attn_loaded_stage *row) {
    enum { LEAST = 1024 };
    attn_problem once = m->problem;
    if (once.q_len < LEAST || once.kv_len < LEAST) once.q_len = once.kv_len = LEAST;
    attn_problem twice = once;
    twice.q_len *= 2, twice.kv_len *= 2;
    if (once.batch == 0 || attn_problem_check(&twice).code != ATTN_OK) return;
    const attn_traffic before = attn_model_bytes(row->stage, &once, ATTN_FORWARD);
    const attn_traffic after = attn_model_bytes(row->stage, &twice, ATTN_FORWARD);
    const double read =
        (double)attn_traffic_total(&after).read / (double)attn_traffic_total(&before).read;
    const double extra = (double)attn_extra_bytes(row->stage, &once, ATTN_FORWARD, NULL);
    const double extra_after = (double)attn_extra_bytes(row->stage, &twice, ATTN_FORWARD, NULL);
    printf("    %d %s, N %lld -> %lld: read x %.2f (%s)", row->module->chapter, row->stage->name,
           (long long)once.kv_len, (long long)twice.kv_len, read, growth(read));
    if (extra > 0)
        printf(", extra memory x %.2f (%s)\n", extra_after / extra, growth(extra_after / extra));
    else
        printf(", no extra memory\n");
}

// From 64 queries a tile to those asked for, or to 32.
static void print_tile_effect(const attn_measurement *m, const attn_loaded_stage *row) {
    attn_problem before = m->problem, after = m->problem;
    if (!(row->stage->features & ATTN_HAS_TILE_SIZES)) return;
    before.br = 64;
    if (after.br == 0 || after.br == 64) after.br = 32;
    if (attn_stage_supports(row->stage, &before, ATTN_FORWARD).code != ATTN_OK ||
        attn_stage_supports(row->stage, &after, ATTN_FORWARD).code != ATTN_OK)
        return;
    const attn_traffic of_64 = attn_model_bytes(row->stage, &before, ATTN_FORWARD);
    const attn_traffic asked = attn_model_bytes(row->stage, &after, ATTN_FORWARD);
    printf("    %d %s, Br 64 -> %lld: read %.6g -> %.6g MB\n", row->module->chapter,
           row->stage->name, (long long)after.br, (double)attn_traffic_total(&of_64).read / 1e6,
           (double)attn_traffic_total(&asked).read / 1e6);
}

static void print_predictions(const attn_chapter *chapter, const attn_measurement *m) {
    printf("\nFrom the closed forms\n");
    for (int i = 0; i < m->count; i++) {
        const attn_loaded_stage *row = m->stage[i].row;
        const int wanted = attn_chapter_owns(chapter, row) || row->stage->yardstick;
        // The same stage on two devices is said once, for the one that moves the bytes.
        if (!wanted || m->stage[i].status.code != ATTN_OK ||
            (chapter->other_devices_used && is_host(row)))
            continue;
        print_growth(m, row);
        print_tile_effect(m, row);
    }
}

void attn_print_tables(const attn_chapter *chapter, const attn_measurement *m) {
    for (int pass = 0; pass < 2; pass++) print_host(m, (attn_pass)pass);
    print_refusals(m, 1);
    for (int pass = 0; pass < 2; pass++) {
        print_device(m, (attn_pass)pass);
        print_by_tensor(m, (attn_pass)pass);
    }
    print_refusals(m, 0);
    if (m->own_tiles)
        printf(
            "    Stages whose tiles cannot be chosen kept their own: BR and BC are not theirs.\n");
    print_predictions(chapter, m);
}

void attn_print_chapter_csv(const attn_chapter *chapter, const attn_measurement *m) {
    static const char *const heads[] = {"chapter",
                                        "stage",
                                        "device",
                                        "pass",
                                        "batch",
                                        "heads",
                                        "kv_heads",
                                        "q_len",
                                        "kv_len",
                                        "head_dim",
                                        "causal",
                                        "window",
                                        "error",
                                        "allowed",
                                        "read_bytes",
                                        "written_bytes",
                                        "model_is_counted",
                                        "extra_bytes",
                                        "seconds",
                                        "verdict",
                                        NULL};
    const attn_problem *p = &m->problem;
    (void)chapter;
    attn_table_begin(&table, heads);
    for (int i = 0; i < m->count; i++)
        for (int pass = 0; pass < 2; pass++) {
            const attn_measured *stage = &m->stage[i];
            if (!pass_ran(stage, (attn_pass)pass)) continue;
            const attn_traffic model = attn_model_bytes(stage->row->stage, p, (attn_pass)pass);
            const attn_tensor_bytes total = attn_traffic_total(&model);
            const attn_comparison *worst = attn_proof_worst(&stage->proof, (attn_pass)pass);
            const int64_t sizes[] = {p->batch,  p->heads,    p->kv_heads,        p->q_len,
                                     p->kv_len, p->head_dim, (int64_t)p->causal, p->window_left};
            attn_table_row(&table);
            attn_table_cell(&table, "%d", stage->row->module->chapter);
            attn_table_cell(&table, "%s", stage->row->stage->name);
            attn_table_cell(&table, "%s", stage->row->module->device->kind);
            attn_table_cell(&table, "%s", pass == ATTN_FORWARD ? "forward" : "backward");
            for (int s = 0; s < 8; s++) attn_table_cell(&table, "%lld", (long long)sizes[s]);
            if (stage->checked && worst) {
                attn_table_cell(&table, "%.6e", worst->worst);
                attn_table_cell(&table, "%.6e", worst->allowed);
            } else {
                attn_table_cell(&table, "%s", "");
                attn_table_cell(&table, "%s", "");
            }
            attn_table_cell(&table, "%llu", (unsigned long long)total.read);
            attn_table_cell(&table, "%llu", (unsigned long long)total.written);
            attn_table_cell(&table, "%s", stage->proof.bytes_compared ? counted_text(stage) : "");
            attn_table_cell(&table, "%llu", (unsigned long long)stage->proof.run.extra_bytes[pass]);
            if (has_time(stage->row))
                attn_table_cell(&table, "%.9f", stage->proof.run.seconds[pass]);
            else
                attn_table_cell(&table, "%s", "");
            attn_table_cell(&table, "%s",
                            !stage->checked     ? "not compared"
                            : stage->proof.pass ? "PASS"
                                                : "FAIL");
        }
    attn_table_print_csv(&table);
}
