// chapter_tables.c -- see chapter.h: each pass' error, FLOPs, bytes and time, on the host and on a device.
#include "cpu/cli/chapter.h"
#include "cpu/cli/table.h"
#include "cpu/fma_probe.h"

#include <stdio.h>
#include <string.h>

static attn_table table; // too large for a stack

int attn_is_on_host(const attn_measured *m) {
    return strcmp(m->row->module->device->kind, "host") == 0;
}

int attn_has_time(const attn_measured *m) {
    return m->row->module->device->timer_start != NULL;
}

int attn_pass_ran(const attn_measured *m, attn_pass pass) {
    return m->status.code == ATTN_OK && (pass == ATTN_FORWARD || m->proof.run.out.dq != NULL);
}

const char *attn_counted_text(const attn_measured *m) {
    if (!m->proof.bytes_compared) return "not counted here";
    return m->proof.bytes_equal ? "yes" : "NO";
}

static void add_error_cells(const attn_measured *m, attn_pass pass) {
    const attn_comparison *worst = attn_proof_worst(&m->proof, pass);
    if (!m->checked || !worst) {
        attn_table_cell(&table, "not compared");
        attn_table_cell(&table, "%s", "");
        return;
    }
    attn_table_cell(&table, worst->pass ? "%.1e" : "FAIL %.1e", worst->worst);
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
        if (m->stage[i].status.code != ATTN_OK && attn_is_on_host(&m->stage[i]) == host)
            printf("    %d %s: not run: %s\n", m->stage[i].row->module->chapter,
                   m->stage[i].row->stage->name, m->stage[i].status.text);
}

// ---- stages on the host ----
static void print_host(const attn_measurement *m, attn_pass pass) {
    static const char *const heads[] = {"stage",           "max error", "allowed",
                                        "GFLOP done",      "read MB",   "written MB",
                                        "extra memory MB", "ms",        "useful GFLOP/s",
                                        "of FMA peak",     NULL};
    int disturbed = 0;
    attn_table_begin(&table, heads);
    for (int i = 0; i < m->count; i++) {
        const attn_measured *stage = &m->stage[i];
        if (!attn_is_on_host(stage) || !attn_pass_ran(stage, pass)) continue;
        const double seconds = stage->proof.run.seconds[pass];
        const double rate = seconds > 0 ? attn_useful_flops(&m->problem, pass) / seconds / 1e9 : 0;
        begin_stage_row(stage);
        add_error_cells(stage, pass);
        add_flops_cell(stage, &m->problem, pass);
        add_bytes_cells(stage, &m->problem, pass);
        attn_table_cell(&table, "%.4g", seconds * 1e3);
        attn_table_cell(&table, "%.1f", rate);
        // Faster than the peak: another program had the processor during the probe.
        const int known =
            rate <= m->fma_peak && attn_probes_agree(stage->peak_before, stage->peak_after);
        disturbed |= !known;
        if (!known)
            attn_table_cell(&table, "?");
        else
            attn_table_cell(&table, "%.2f", rate / m->fma_peak);
    }
    if (table.rows == 0) return;
    printf("\n%s on this CPU (median of the repeats; peak: %.0f GFLOP/s of fp32 multiply-adds)\n",
           pass == ATTN_FORWARD ? "Forward" : "Backward", m->fma_peak);
    if (pass == ATTN_FORWARD)
        printf(
            "    Bytes by formula: what the loops ask for, with what a tile or a row needs kept on "
            "the chip.\n"
            "    GFLOP done counts all products that run; useful ones are 4d a pair of query and "
            "key that see\n    each other.\n");
    else
        printf("    Useful ones are 10d a pair, whatever a stage executes: rates compare as times "
               "do.\n");
    attn_table_print(&table, 4);
    if (disturbed)
        printf("    ?: above the measured peak, or the peak measured before and after differs by "
               "more than "
               "20 %%:\n    another program had a part of the machine; run it again.\n");
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
    const attn_measured *shown = NULL;
    for (int i = 0; i < m->count; i++)
        if (!attn_is_on_host(&m->stage[i]) && attn_pass_ran(&m->stage[i], pass))
            shown = &m->stage[i];
    if (!shown) return;
    attn_table_begin(&table, attn_has_time(shown) ? timed : emulated);
    for (int i = 0; i < m->count; i++) {
        const attn_measured *stage = &m->stage[i];
        if (attn_is_on_host(stage) || !attn_pass_ran(stage, pass)) continue;
        begin_stage_row(stage);
        add_error_cells(stage, pass);
        add_flops_cell(stage, &m->problem, pass);
        add_bytes_cells(stage, &m->problem, pass);
        if (!attn_has_time(stage)) continue;
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
    shown->row->module->device->describe(device, sizeof device);
    printf("\n%s on %s\n", pass == ATTN_FORWARD ? "Forward" : "Backward", device);
    if (pass == ATTN_FORWARD)
        printf("    Bytes that the kernels ask of device memory; how many of them reach the DRAM "
               "behind the L2 cache is another question.\n");
    if (pass == ATTN_BACKWARD && attn_has_time(shown))
        printf("    Useful FLOPs are 10d a pair here, 4d forward, whatever a stage executes.\n");
    attn_table_print(&table, 4);
}

// The inputs that every stage reads. All else that is read, a stage has written before.
static int is_input(const char *name) {
    static const char *const names[] = {"q", "k", "v", "do"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return 1;
    return 0;
}

// Read MB by tensor: the inputs together, then each that some stage reads besides.
static void print_by_tensor(const attn_measurement *m, attn_pass pass) {
    char names[ATTN_TABLE_COLUMNS][16];
    const char *heads[ATTN_TABLE_COLUMNS + 1] = {"read MB by tensor",
                                                 pass == ATTN_FORWARD ? "Q+K+V" : "Q+K+V+dO"};
    int others = 0, columns = 2, shown = 0;
    for (int i = 0; i < m->count; i++) {
        if (attn_is_on_host(&m->stage[i]) || !attn_pass_ran(&m->stage[i], pass)) continue;
        const attn_traffic model = attn_model_bytes(m->stage[i].row->stage, &m->problem, pass);
        for (int t = 0; t < model.count; t++) {
            int known = is_input(model.tensor[t].name) || model.tensor[t].read == 0;
            for (int s = 0; s < others; s++) known |= strcmp(names[s], model.tensor[t].name) == 0;
            if (!known && others < ATTN_TABLE_COLUMNS - 4)
                snprintf(names[others++], sizeof names[0], "%s", model.tensor[t].name);
        }
        shown++;
    }
    if (shown == 0) return;
    for (int s = 0; s < others; s++) heads[columns++] = names[s];
    heads[columns++] = "model = counted";
    heads[columns] = NULL;
    attn_table_begin(&table, heads);
    for (int i = 0; i < m->count; i++) {
        const attn_measured *stage = &m->stage[i];
        if (attn_is_on_host(stage) || !attn_pass_ran(stage, pass)) continue;
        const attn_traffic model = attn_model_bytes(stage->row->stage, &m->problem, pass);
        uint64_t inputs = 0;
        for (int t = 0; t < model.count; t++)
            if (is_input(model.tensor[t].name)) inputs += model.tensor[t].read;
        begin_stage_row(stage);
        attn_table_cell(&table, "%.6g", (double)inputs / 1e6);
        for (int s = 0; s < others; s++)
            attn_table_cell(&table, "%.6g", (double)attn_traffic_of(&model, names[s]).read / 1e6);
        attn_table_cell(&table, "%s", attn_counted_text(stage));
    }
    printf("\n");
    attn_table_print(&table, 4);
}

void attn_print_fallbacks(FILE *file, const attn_chapter *chapter, const attn_measurement *m) {
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        const attn_loaded_stage *row = m->fallback[elsewhere];
        if (!row) continue;
        fprintf(file, "%s; chapter %d falls back to %s of chapter %d on %s\n",
                m->refused[elsewhere].text, chapter->number, row->stage->name, row->module->chapter,
                row->module->device->kind);
    }
}

void attn_print_tables(const attn_chapter *chapter, const attn_measurement *m) {
    for (int pass = 0; pass < 2; pass++) print_host(m, (attn_pass)pass);
    attn_print_training(chapter, m, 1);
    print_refusals(m, 1);
    for (int pass = 0; pass < 2; pass++) {
        print_device(m, (attn_pass)pass);
        print_by_tensor(m, (attn_pass)pass);
    }
    attn_print_training(chapter, m, 0);
    print_refusals(m, 0);
    if (m->own_tiles)
        printf(
            "    Stages whose tiles cannot be chosen kept their own: BR and BC are not theirs.\n");
    attn_print_repeats(m);
    attn_print_predictions(chapter, m);
}
