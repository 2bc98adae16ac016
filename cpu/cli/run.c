// run.c -- attention run: one stage on a case folder, its results as .npy files.
#include "cpu/cli/commands.h"
#include "cpu/case.h"
#include "cpu/runner.h"

#include <stdio.h>
#include <string.h>

// The devices to prefer, best first.
static const char *const preference[] = {"gpu", "host", "emulator", "check"};
enum { PREFERENCES = sizeof preference / sizeof preference[0] };

static const attn_loaded_stage *find_preferred(const attn_modules *modules, const attn_options *o) {
    if (o->device) return attn_find_stage(modules, o->operand, o->device);
    for (int i = 0; i < PREFERENCES; i++) {
        const attn_loaded_stage *row = attn_find_stage(modules, o->operand, preference[i]);
        if (row) return row;
    }
    return NULL;
}

static attn_status choose_stage(const attn_modules *modules, const attn_options *o,
                                const attn_problem *problem, attn_pass pass,
                                const attn_loaded_stage **chosen) {
    const attn_loaded_stage *wanted = find_preferred(modules, o);
    if (!wanted)
        return attn_error(ATTN_BAD_INPUT, "there is no stage '%s'%s%s; attention list has them all",
                          o->operand, o->device ? " on " : "", o->device ? o->device : "");
    *chosen = wanted;
    const attn_status supported = attn_stage_supports(wanted->stage, problem, pass);
    if (supported.code != ATTN_UNSUPPORTED || o->no_fallback) return supported;
    *chosen = attn_find_fallback(modules, wanted, problem, pass);
    if (!*chosen) return supported;
    printf("%s; falling back to %s on %s\n", supported.text, (*chosen)->stage->name,
           (*chosen)->module->device->kind);
    return attn_ok();
}

static attn_status run_case(const attn_options *o, const attn_case *loaded) {
    static attn_modules modules;
    const attn_loaded_stage *row = NULL;
    const attn_inputs inputs = attn_case_inputs(loaded);
    attn_run run;
    ATTN_TRY(attn_load_devices(o->device, &modules));
    ATTN_TRY(choose_stage(&modules, o, &loaded->problem, loaded->d_o ? ATTN_BACKWARD : ATTN_FORWARD,
                          &row));
    ATTN_TRY(attn_run_stage(row, &loaded->problem, &inputs, 1, &run));
    const attn_status status =
        attn_case_save_output(o->out_folder, &loaded->problem, run.out.o, run.out.lse, run.out.dq,
                              run.out.dk, run.out.dv, run.out.dbias);
    attn_run_free(&run);
    if (status.code == ATTN_OK)
        printf("%s on %s: wrote o.npy, lse.npy%s%s to %s\n", row->stage->name,
               row->module->device->kind, loaded->d_o ? ", dq.npy, dk.npy, dv.npy" : "",
               loaded->d_o && loaded->problem.bias_gradient ? ", dbias.npy" : "", o->out_folder);
    return status;
}

int attn_command_run(const attn_options *options) {
    attn_case loaded;
    attn_status status = attn_case_load(options->case_folder, &loaded);
    if (status.code != ATTN_OK) return attn_complain(status);
    status = run_case(options, &loaded);
    attn_case_free(&loaded);
    return attn_complain(status);
}
