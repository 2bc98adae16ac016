// traffic.c -- attention traffic: the bytes of every stage, by formula, by count, and behind the L2.
//
// The count comes from the emulator or from the counting build on a GPU, and must be the formula's, tensor
// by tensor; else the exit status is 1. What reaches DRAM is modelled by the emulator; on a GPU only a
// profiler can tell (make ncu).
#include "cpu/case.h"
#include "cpu/cli/commands.h"
#include "cpu/cli/table.h"
#include "cpu/memory.h"
#include "cpu/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attn_modules modules;
static attn_table table; // too large for a stack

typedef struct measured {
    const attn_loaded_stage *row;
    attn_problem problem;
    attn_traffic model, counted;
    int has_count, has_dram;
    attn_dram dram;
} measured;

static attn_status measure(const attn_options *o, const attn_loaded_stage *row,
                           const attn_problem *problem, measured *m) {
    memset(m, 0, sizeof *m);
    m->row = row, m->problem = *problem;
    ATTN_TRY(attn_stage_supports(row->stage, problem, o->pass));
    m->model = attn_model_bytes(row->stage, problem, o->pass);
    if (problem->kv_len > o->counted_n) return attn_ok();

    attn_case random;
    ATTN_TRY(attn_case_random(problem, o->input, o->seed, 1, &random));
    const attn_inputs inputs = attn_case_inputs(&random);
    attn_run run;
    const attn_status status = attn_run_cold(row, problem, &inputs, o->pass, &run);
    attn_case_free(&random);
    if (status.code != ATTN_OK) return status;
    m->has_count = 1, m->counted = run.traffic[o->pass];
    m->has_dram = run.modelled, m->dram = run.dram[o->pass];
    attn_run_free(&run);
    return attn_ok();
}

// ---- for people ----
static void begin_table(int with_dram) {
    static const char *const modelled[] = {
        "stage",         "N", "read MB", "written MB", "counted", "DRAM read MB", "DRAM written MB",
        "left in L2 MB", NULL};
    static const char *const counted[] = {"stage", "N", "read MB", "written MB", "counted", NULL};
    attn_table_begin(&table, with_dram ? modelled : counted);
}

static void add_row(const measured *m) {
    const attn_tensor_bytes model = attn_traffic_total(&m->model);
    const attn_tensor_bytes counted = attn_traffic_total(&m->counted);
    attn_table_row(&table);
    attn_table_cell(&table, "%d %s", m->row->module->chapter, m->row->stage->name);
    attn_table_cell(&table, "%lld", (long long)m->problem.kv_len);
    attn_table_cell(&table, "%.6g", (double)model.read / 1e6);
    attn_table_cell(&table, "%.6g", (double)model.written / 1e6);
    if (!m->has_count)
        attn_table_cell(&table, "not");
    else if (attn_traffic_equal(&m->model, &m->counted))
        attn_table_cell(&table, "the same");
    else
        attn_table_cell(&table, "NOT THE SAME: %.6g + %.6g", (double)counted.read / 1e6,
                        (double)counted.written / 1e6);
    if (!m->has_dram) return;
    attn_table_cell(&table, "%.6g", (double)m->dram.read / 1e6);
    attn_table_cell(&table, "%.6g", (double)m->dram.written / 1e6);
    attn_table_cell(&table, "%.6g", (double)m->dram.left / 1e6);
}

static void add_compulsory(const attn_problem *p, attn_pass pass) {
    const attn_tensor_bytes compulsory = attn_compulsory_bytes(p, pass);
    attn_table_row(&table);
    attn_table_cell(&table, "  compulsory");
    attn_table_cell(&table, "%lld", (long long)p->kv_len);
    attn_table_cell(&table, "%.6g", (double)compulsory.read / 1e6);
    attn_table_cell(&table, "%.6g", (double)compulsory.written / 1e6);
}

static void print_by_tensor(const measured *m) {
    if (!m->has_count) return;
    printf("    %d %s, counted:", m->row->module->chapter, m->row->stage->name);
    for (int t = 0; t < m->counted.count; t++) {
        const attn_tensor_bytes *tensor = &m->counted.tensor[t];
        printf("%s %s", t ? "," : "", tensor->name);
        if (tensor->read) printf(" %.6g read", (double)tensor->read / 1e6);
        if (tensor->written) printf(" %.6g written", (double)tensor->written / 1e6);
    }
    printf("\n");
}

static void print_head(const attn_options *o, const attn_device *device, int with_dram) {
    char problem[200], text[200];
    attn_problem_describe(&o->problem, problem, sizeof problem);
    device->describe(text, sizeof text);
    printf("%s, %s, on %s\n", o->pass == ATTN_FORWARD ? "Forward" : "Backward", problem, text);
    printf("    read, written: what the kernels ask of device memory, by the closed form\n");
    if (with_dram)
        printf(
            "    DRAM: what passes the L2 of that GPU, from an empty one on; modelled. Bytes left "
            "in the\n    L2 are written, but not yet to DRAM\n");
    else
        printf("    What reaches DRAM, a profiler can tell: make ncu\n");
}

// ---- for programs ----
static void print_csv_start(const char *stage, const attn_options *o, const char *device,
                            const attn_problem *p, attn_tensor_bytes model, const char *tensor) {
    printf("%s,%s,%s,%lld,%lld,%lld,%lld,%lld,%lld,%d,%s,%llu,%llu", stage,
           o->pass == ATTN_FORWARD ? "forward" : "backward", device, (long long)p->batch,
           (long long)p->heads, (long long)p->kv_heads, (long long)p->q_len, (long long)p->kv_len,
           (long long)p->head_dim, p->causal != ATTN_CAUSAL_OFF, tensor,
           (unsigned long long)model.read, (unsigned long long)model.written);
}

// What the pass asks for besides the tensors, what is kept between the passes, and what a run holds in all
// on a GPU: a backward pass with the forward pass before it.
static void print_memory_csv(const attn_stage *stage, const attn_problem *p, attn_pass pass) {
    const attn_memory run = attn_run_memory(stage, p, pass == ATTN_BACKWARD);
    printf(",%llu,%llu,%.0f\n", (unsigned long long)attn_extra_bytes(stage, p, pass, NULL),
           (unsigned long long)attn_kept_bytes(stage, p, NULL, 0), run.tensors + run.buffers);
}

static void print_csv(const attn_options *o, const measured *m) {
    // Every tensor that the model or the count knows, then all of them together.
    attn_traffic names = m->model;
    for (int t = 0; t < m->counted.count; t++)
        attn_traffic_add(&names, m->counted.tensor[t].name, 0, 0);
    for (int t = 0; t <= names.count; t++) {
        const int all = t == names.count;
        const char *name = all ? "all" : names.tensor[t].name;
        const attn_tensor_bytes model =
            all ? attn_traffic_total(&m->model) : attn_traffic_of(&m->model, name);
        const attn_tensor_bytes counted =
            all ? attn_traffic_total(&m->counted) : attn_traffic_of(&m->counted, name);
        print_csv_start(m->row->stage->name, o, m->row->module->device->kind, &m->problem, model,
                        name);
        if (m->has_count)
            printf(",%llu,%llu", (unsigned long long)counted.read,
                   (unsigned long long)counted.written);
        else
            printf(",,");
        if (all && m->has_dram)
            printf(",%llu,%llu,%llu", (unsigned long long)m->dram.read,
                   (unsigned long long)m->dram.written, (unsigned long long)m->dram.left);
        else
            printf(",,,");
        if (all)
            print_memory_csv(m->row->stage, &m->problem, o->pass);
        else
            printf(",,,\n");
    }
}

static void print_compulsory_csv(const attn_options *o, const attn_problem *p) {
    print_csv_start("compulsory", o, "", p, attn_compulsory_bytes(p, o->pass), "all");
    printf(",,,,,,,,\n");
}

static const char *device_of(const attn_options *o) {
    if (!o->device) return attn_device_usable("count").code == ATTN_OK ? "count" : "emulator";
    return strcmp(o->device, "gpu") == 0 ? "count" : o->device;
}

static attn_status traffic(const attn_options *o, int *differ) {
    const char *kind = device_of(o);
    const attn_device *device = NULL;
    int stages = 0;
    ATTN_TRY(attn_load_devices(kind, &modules));
    for (int i = 0; i < modules.stage_count && !device; i++)
        if (strcmp(modules.stage[i].module->device->kind, kind) == 0)
            device = modules.stage[i].module->device;
    if (!device || !device->empty_l2 || !device->traffic)
        return attn_error(ATTN_BAD_INPUT,
                          "--device is '%s'; bytes are counted on emulator, check, and gpu", kind);
    if (o->csv)
        printf("stage,pass,device,batch,heads,kv_heads,q_len,kv_len,head_dim,causal,tensor,"
               "model_read_bytes,model_written_bytes,counted_read_bytes,counted_written_bytes,"
               "dram_read_bytes,dram_written_bytes,dram_left_bytes,extra_bytes,kept_bytes,"
               "run_bytes\n");
    else
        print_head(o, device, device->dram != NULL), begin_table(device->dram != NULL);
    static measured last[ATTN_MAX_STAGES];
    attn_problem problem = o->problem;
    for (;;) {
        stages = 0;
        for (int i = 0; i < modules.stage_count; i++) {
            const attn_loaded_stage *row = &modules.stage[i];
            if (strcmp(row->module->device->kind, kind) != 0 ||
                (o->pass == ATTN_BACKWARD && !row->stage->backward))
                continue;
            const attn_status status = measure(o, row, &problem, &last[stages]);
            if (status.code != ATTN_OK) {
                fprintf(stderr, "not counted: %s, N=%lld: %s\n", row->stage->name,
                        (long long)problem.kv_len, status.text);
                if (status.code == ATTN_DEVICE) *differ = 1;
                continue;
            }
            if (last[stages].has_count)
                *differ |= !attn_traffic_equal(&last[stages].model, &last[stages].counted);
            if (o->csv)
                print_csv(o, &last[stages]);
            else
                add_row(&last[stages]);
            stages++;
        }
        if (o->csv)
            print_compulsory_csv(o, &problem);
        else
            add_compulsory(&problem, o->pass);
        if (problem.q_len == 0 || problem.kv_len == 0 || 2 * problem.kv_len > o->most_n) break;
        problem.q_len *= 2, problem.kv_len *= 2;
    }
    if (o->csv) return attn_ok();
    attn_table_print(&table, 4);
    if (!o->most_n) printf("\n    MB by tensor\n");
    for (int i = 0; i < stages && !o->most_n; i++) print_by_tensor(&last[i]);
    return attn_ok();
}

int attn_command_traffic(const attn_options *o) {
    int differ = 0;
    const attn_status status = traffic(o, &differ);
    if (status.code != ATTN_OK) return attn_complain(status);
    return differ;
}
