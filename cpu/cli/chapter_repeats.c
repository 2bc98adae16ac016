// chapter_repeats.c -- see chapter.h: which outputs differ from run to run, and by how many bits.
#include "cpu/cli/chapter.h"

#include <stdio.h>

static void print_differing(attn_result result, const attn_variation *v) {
    printf(
        "\n        %s differs in %.3g %% of its elements, by at most %llu units in the last place",
        attn_result_name(result), 100 * (double)v->differing / (double)v->elements,
        (unsigned long long)v->most);
    printf(" (%d bits),\n        half of them by at most %d bit%s;", attn_distance_bits(v->most),
           v->half_bits, v->half_bits == 1 ? "" : "s");
    printf(" its largest difference is %.2g, its largest element %.2g", v->apart, v->largest);
}

static void print_stage(const attn_measured *m) {
    const attn_variation *variation = m->proof.run.variation;
    int same = 0;
    printf("    %d %s on %s:", m->row->module->chapter, m->row->stage->name,
           m->row->module->device->kind);
    for (int r = 0; r < ATTN_RESULTS; r++)
        if (variation[r].runs > 0 && variation[r].differing == 0)
            printf(" %s", attn_result_name((attn_result)r)), same++;
    printf(same ? " bit-identical" : " nothing bit-identical");
    for (int r = 0; r < ATTN_RESULTS; r++)
        if (variation[r].differing > 0) print_differing((attn_result)r, &variation[r]);
    printf("\n");
}

void attn_print_repeats(const attn_measurement *m) {
    int runs = 0, emulated = 0;
    for (int i = 0; i < m->count; i++) {
        if (!attn_pass_ran(&m->stage[i], ATTN_FORWARD)) continue;
        runs = m->stage[i].proof.run.variation[ATTN_RESULT_O].runs;
        emulated |= !attn_has_time(&m->stage[i]);
    }
    if (runs == 0) return;
    printf("\n%d runs of each pass, compared with the first one bit by bit\n", runs);
    if (emulated)
        printf(
            "    The emulator runs blocks on the CPU's threads: atomic additions come in an order "
            "that varies with them.\n");
    for (int i = 0; i < m->count; i++)
        if (attn_pass_ran(&m->stage[i], ATTN_FORWARD)) print_stage(&m->stage[i]);
}
