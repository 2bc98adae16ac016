// chapter_csv.c -- attention chapter N --csv: a row a stage, device and pass.
#include "cpu/cli/chapter.h"
#include "cpu/cli/table.h"
#include "cpu/memory.h"

#include <stdio.h>

static attn_table table; // too large for a stack

// Elements of the pass' outputs that were not the same in every run, where runs were compared.
static void add_differing(const attn_measured *m, attn_pass pass) {
    const int end = pass == ATTN_FORWARD ? ATTN_RESULT_DQ : ATTN_RESULTS;
    uint64_t differing = 0;
    int runs = 0;
    for (int r = pass == ATTN_FORWARD ? ATTN_RESULT_O : ATTN_RESULT_DQ; r < end; r++) {
        differing += m->proof.run.variation[r].differing;
        if (m->proof.run.variation[r].runs > 0) runs = m->proof.run.variation[r].runs;
    }
    if (runs > 0)
        attn_table_cell(&table, "%llu", (unsigned long long)differing);
    else
        attn_table_cell(&table, "%s", "");
}

void attn_print_chapter_csv(const attn_measurement *m) {
    static const char *const heads[] = {"chapter",     "stage",         "device",
                                        "pass",        "batch",         "heads",
                                        "kv_heads",    "q_len",         "kv_len",
                                        "head_dim",    "causal",        "window",
                                        "error",       "allowed",       "flops",
                                        "read_bytes",  "written_bytes", "model_is_counted",
                                        "extra_bytes", "kept_bytes",    "differing_elements",
                                        "seconds",     "verdict",       NULL};
    const attn_problem *p = &m->problem;
    attn_table_begin(&table, heads);
    for (int i = 0; i < m->count; i++)
        for (int pass = 0; pass < 2; pass++) {
            const attn_measured *stage = &m->stage[i];
            if (!attn_pass_ran(stage, (attn_pass)pass)) continue;
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
            attn_table_cell(&table, "%.0f", stage->row->stage->flops(p, (attn_pass)pass));
            attn_table_cell(&table, "%llu", (unsigned long long)total.read);
            attn_table_cell(&table, "%llu", (unsigned long long)total.written);
            attn_table_cell(&table, "%s",
                            stage->proof.bytes_compared ? attn_counted_text(stage) : "");
            attn_table_cell(&table, "%llu", (unsigned long long)stage->proof.run.extra_bytes[pass]);
            attn_table_cell(&table, "%llu",
                            (unsigned long long)attn_kept_bytes(stage->row->stage, p, NULL, 0));
            add_differing(stage, (attn_pass)pass);
            if (attn_has_time(stage))
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
