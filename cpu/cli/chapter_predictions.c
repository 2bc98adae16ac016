// chapter_predictions.c -- see chapter.h: what would change with N and with the tiles, from the closed forms.
#include "cpu/cli/chapter.h"
#include "cpu/growth.h"

#include <stdio.h>

// " (grows with N^2)", or nothing where there is no one law.
static const char *law(const attn_loaded_stage *row, const attn_problem *p, attn_pass pass,
                       attn_amount what) {
    switch (attn_growth_of(row->stage, p, pass, what)) {
    case ATTN_GROWTH_SQUARE:
        return " (grows with N^2)";
    case ATTN_GROWTH_LINEAR:
        return " (grows with N)";
    case ATTN_GROWTH_NONE:
        return " (does not grow with N)";
    default:
        return "";
    }
}

// A heading with nothing below it, as with variable lengths, says nothing.
static void print_heading(int *printed) {
    if (!*printed) printf("\nFrom the closed forms\n");
    *printed = 1;
}

// From N to 2 N, and the law far beyond; problems shorter than a few tiles say little about growth, so
// from 1024 at least.
static void print_growth(const attn_measurement *m, const attn_loaded_stage *row, attn_pass pass,
                         int *printed) {
    enum { LEAST = 1024 };
    attn_problem once = m->problem;
    if (once.q_len < LEAST || once.kv_len < LEAST) once.q_len = once.kv_len = LEAST;
    attn_problem twice = once;
    twice.q_len *= 2, twice.kv_len *= 2;
    if (once.batch == 0 || attn_problem_check(&twice).code != ATTN_OK) return;
    const double read = attn_amount_of(row->stage, &once, pass, ATTN_READ_BYTES);
    const double extra = attn_amount_of(row->stage, &once, pass, ATTN_EXTRA_BYTES);
    print_heading(printed);
    printf("    %d %s%s, N %lld -> %lld: read x %.2f%s", row->module->chapter, row->stage->name,
           pass == ATTN_FORWARD ? "" : " backward", (long long)once.kv_len, (long long)twice.kv_len,
           attn_amount_of(row->stage, &twice, pass, ATTN_READ_BYTES) / read,
           law(row, &once, pass, ATTN_READ_BYTES));
    if (extra > 0)
        printf(", extra memory x %.2f%s\n",
               attn_amount_of(row->stage, &twice, pass, ATTN_EXTRA_BYTES) / extra,
               law(row, &once, pass, ATTN_EXTRA_BYTES));
    else
        printf(", no extra memory\n");
}

// From 64 queries a tile to those asked for, or to 32.
static void print_tile_effect(const attn_measurement *m, const attn_loaded_stage *row,
                              int *printed) {
    attn_problem before = m->problem, after = m->problem;
    if (!(row->stage->features & ATTN_HAS_TILE_SIZES)) return;
    before.br = 64;
    if (after.br == 0 || after.br == 64) after.br = 32;
    if (attn_stage_supports(row->stage, &before, ATTN_FORWARD).code != ATTN_OK ||
        attn_stage_supports(row->stage, &after, ATTN_FORWARD).code != ATTN_OK)
        return;
    const attn_traffic of_64 = attn_model_bytes(row->stage, &before, ATTN_FORWARD);
    const attn_traffic asked = attn_model_bytes(row->stage, &after, ATTN_FORWARD);
    print_heading(printed);
    printf("    %d %s, Br 64 -> %lld: read %.6g -> %.6g MB\n", row->module->chapter,
           row->stage->name, (long long)after.br, (double)attn_traffic_total(&of_64).read / 1e6,
           (double)attn_traffic_total(&asked).read / 1e6);
}

void attn_print_predictions(const attn_chapter *chapter, const attn_measurement *m) {
    int printed = 0;
    for (int i = 0; i < m->count; i++) {
        const attn_loaded_stage *row = m->stage[i].row;
        const int wanted = attn_chapter_owns(chapter, row) || row->stage->yardstick;
        // The same stage on two devices is said once, for the one that moves the bytes.
        if (!wanted || m->stage[i].status.code != ATTN_OK ||
            (chapter->other_devices_used && attn_is_on_host(&m->stage[i])))
            continue;
        for (int pass = 0; pass < 2; pass++)
            if (attn_pass_ran(&m->stage[i], (attn_pass)pass))
                print_growth(m, row, (attn_pass)pass, &printed);
        print_tile_effect(m, row, &printed);
    }
}
