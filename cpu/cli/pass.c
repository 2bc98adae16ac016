// pass.c -- attention pass: one pass of one stage on a random problem, once, from an empty L2 cache.
//
// Nothing else runs on the GPU after the L2 is emptied, so what a profiler sees from there on is that
// pass. Results are not compared with anything here: `attention chapter` proves them.
#include "cpu/case.h"
#include "cpu/cli/commands.h"
#include "cpu/runner.h"

#include <stdio.h>
#include <string.h>

static attn_status find_stage(const attn_options *o, const attn_loaded_stage **row) {
    static attn_modules modules;
    ATTN_TRY(attn_load_devices(o->device, &modules));
    *row = NULL;
    if (o->device) {
        *row = attn_find_stage(&modules, o->operand, o->device);
    } else {
        *row = attn_find_stage(&modules, o->operand, "gpu");
        if (!*row) *row = attn_find_stage(&modules, o->operand, "emulator");
    }
    if (!*row)
        return attn_error(ATTN_BAD_INPUT, "there is no stage '%s' on %s; attention list has them",
                          o->operand, o->device ? o->device : "gpu or emulator");
    return attn_ok();
}

static attn_status run_pass(const attn_options *o, const attn_case *random) {
    const attn_loaded_stage *row = NULL;
    const attn_inputs inputs = attn_case_inputs(random);
    char problem[160];
    attn_run run;
    ATTN_TRY(find_stage(o, &row));
    ATTN_TRY(attn_run_cold(row, &o->problem, &inputs, o->pass, &run));
    attn_problem_describe(&o->problem, problem, sizeof problem);
    printf("%s, %s, %s on %s", row->stage->name, o->pass == ATTN_FORWARD ? "forward" : "backward",
           problem, row->module->device->kind);
    if (run.modelled) {
        const attn_dram *dram = &run.dram[o->pass];
        printf(": DRAM read %.6g MB, written %.6g MB, left in the L2 %.6g MB",
               (double)dram->read / 1e6, (double)dram->written / 1e6, (double)dram->left / 1e6);
    }
    printf("\n");
    if (strcmp(row->module->device->kind, "check") == 0) row->module->device->report(stdout);
    attn_run_free(&run);
    return attn_ok();
}

int attn_command_pass(const attn_options *o) {
    attn_case random;
    attn_status status = attn_case_random(&o->problem, o->input, o->seed, 1, &random);
    if (status.code != ATTN_OK) return attn_complain(status);
    status = run_pass(o, &random);
    attn_case_free(&random);
    return attn_complain(status);
}
