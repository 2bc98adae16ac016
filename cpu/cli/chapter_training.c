// chapter_training.c -- see chapter.h: forward and backward together, as in a step of training. What the
// backward pass costs depends on what the forward pass keeps for it.
#include "cpu/cli/chapter.h"
#include "cpu/cli/table.h"
#include "cpu/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static attn_table table; // too large for a stack

static double flops_of(const attn_loaded_stage *row, const attn_problem *problem, int passes) {
    double flops = 0;
    for (int pass = passes == 2 ? ATTN_FORWARD : ATTN_BACKWARD; pass <= ATTN_BACKWARD; pass++)
        flops += row->stage->flops(problem, (attn_pass)pass);
    return flops;
}

// ---- the table -------------------------------------------------------------------------------------------
static void add_row(const attn_measured *m, const attn_problem *p) {
    const attn_stage *stage = m->row->stage;
    const double unit = (double)attn_score_elements(p) * (double)p->head_dim;
    char names[64];
    uint64_t read = 0, written = 0;
    for (int pass = 0; pass < 2; pass++) {
        const attn_traffic model = attn_model_bytes(stage, p, (attn_pass)pass);
        const attn_tensor_bytes total = attn_traffic_total(&model);
        read += total.read, written += total.written;
    }
    const uint64_t kept = attn_kept_bytes(stage, p, names, sizeof names);
    attn_table_row(&table);
    attn_table_cell(&table, "%d %s", m->row->module->chapter, stage->name);
    attn_table_cell(&table, "%.3g + %.3g", unit > 0 ? stage->flops(p, ATTN_FORWARD) / unit : 0,
                    unit > 0 ? stage->flops(p, ATTN_BACKWARD) / unit : 0);
    attn_table_cell(&table, "%.4g", flops_of(m->row, p, 2) / 1e9);
    attn_table_cell(&table, "%.6g", (double)read / 1e6);
    attn_table_cell(&table, "%.6g", (double)written / 1e6);
    attn_table_cell(&table, "%.6g", (double)kept / 1e6);
    attn_table_cell(&table, "%s", names);
    if (attn_has_time(m)) {
        const double *seconds = m->proof.run.seconds;
        attn_table_cell(&table, "%.4g", (seconds[0] + seconds[1]) * 1e3);
    }
}

// ---- what recomputation costs and saves ------------------------------------------------------------------
static const char *more_or_fewer(double ratio) {
    return ratio < 1 ? "fewer" : "more";
}

// Only where both do all pairs: else what is saved is the tiles skipped, and has nothing to do with P.
static int does_all_pairs(const attn_problem *p) {
    const unsigned other_shapes = ATTN_HAS_GROUPED_HEADS | ATTN_HAS_STRIDES | ATTN_HAS_TILE_SIZES;
    return (attn_problem_features(p) & ~other_shapes) == 0;
}

static void print_price(const attn_loaded_stage *row, const attn_loaded_stage *naive,
                        const attn_problem *p) {
    char kept_text[32], naive_text[32], names[64], naive_names[64];
    const double backward = flops_of(row, p, 1) / flops_of(naive, p, 1);
    const double both = flops_of(row, p, 2) / flops_of(naive, p, 2);
    const double kept = (double)attn_kept_bytes(row->stage, p, names, sizeof names);
    const double naive_kept =
        (double)attn_kept_bytes(naive->stage, p, naive_names, sizeof naive_names);
    if (!(kept > 0 && kept < naive_kept && isfinite(backward) && isfinite(both))) return;
    attn_bytes_text(kept, kept_text, sizeof kept_text);
    attn_bytes_text(naive_kept, naive_text, sizeof naive_text);
    printf(
        "    Recomputation, as %d %s does it, takes %.3g %% %s FLOPs backward than keeping what\n",
        row->module->chapter, row->stage->name, 100 * fabs(backward - 1), more_or_fewer(backward));
    printf("    %d %s keeps (%.3g %% %s in both passes), and keeps %.4g times less: ",
           naive->module->chapter, naive->stage->name, 100 * fabs(both - 1), more_or_fewer(both),
           naive_kept / kept);
    printf("%s (%s) instead of %s (%s).\n", kept_text, names, naive_text, naive_names);
}

// ---- how long a sequence may be --------------------------------------------------------------------------
static void add_longest(const attn_stage *stage, const attn_problem *p, double bytes, int copies) {
    const int64_t n = attn_longest_that_fits(stage, p, 1, bytes, copies);
    if (bytes > 0)
        attn_table_cell(&table, "%lld%s", (long long)n, n == ATTN_LONGEST ? " and more" : "");
    else
        attn_table_cell(&table, "unknown");
}

// Of this device's free memory, and of a GPU that many have.
static void print_longest(const attn_measured *const *shown, int count, const attn_problem *p) {
    const attn_device *device = shown[0]->row->module->device;
    const double here = (double)device->free_bytes(), gpu = 80e9;
    char free_text[32], head[80];
    attn_bytes_text(here, free_text, sizeof free_text);
    snprintf(head, sizeof head, "%s free on this %s", free_text,
             attn_tensor_copies(device) == 1 ? "GPU" : "machine");
    const char *heads[] = {"longest N whose two passes fit in", head, "an 80 GB GPU", NULL};
    if (attn_is_on_host(shown[0])) heads[2] = NULL;
    attn_table_begin(&table, heads);
    for (int i = 0; i < count; i++) {
        const attn_stage *stage = shown[i]->row->stage;
        attn_table_row(&table);
        attn_table_cell(&table, "%d %s", shown[i]->row->module->chapter, stage->name);
        add_longest(stage, p, here, attn_tensor_copies(device));
        add_longest(stage, p, gpu, 1);
    }
    printf("\n");
    attn_table_print(&table, 4);
}

void attn_print_training(const attn_chapter *chapter, const attn_measurement *m, int on_host) {
    static const char *const timed[] = {"stage",   "FLOP / N^2 d", "GFLOP done",
                                        "read MB", "written MB",   "kept MB",
                                        "what",    "ms",           NULL};
    static const char *const untimed[] = {"stage",      "FLOP / N^2 d", "GFLOP done", "read MB",
                                          "written MB", "kept MB",      "what",       NULL};
    const attn_measured *shown[ATTN_MAX_STAGES];
    const attn_loaded_stage *naive = NULL;
    int count = 0;
    for (int i = 0; i < m->count; i++) {
        const attn_measured *stage = &m->stage[i];
        if (attn_is_on_host(stage) != on_host) continue;
        if (stage->row->stage->yardstick) naive = stage->row; // its closed forms, if it ran or not
        if (attn_pass_ran(stage, ATTN_BACKWARD)) shown[count++] = stage;
    }
    if (count == 0) return;
    attn_table_begin(&table, attn_has_time(shown[0]) ? timed : untimed);
    for (int i = 0; i < count; i++) add_row(shown[i], &m->problem);
    printf("\nForward and backward together\n");
    printf("    FLOPs are those of the products, N^2 is q_len * kv_len in every head. Kept is what "
           "the\n"
           "    forward pass leaves to the backward pass besides Q, K, V and O.\n");
    attn_table_print(&table, 4);
    for (int i = 0; i < count && naive && does_all_pairs(&m->problem); i++)
        if (attn_chapter_owns(chapter, shown[i]->row))
            print_price(shown[i]->row, naive, &m->problem);
    if (m->problem.sequences == 0) print_longest(shown, count, &m->problem);
}
