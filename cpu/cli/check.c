// check.c -- attention check: stages against what a case folder expects.
#include "cpu/cli/commands.h"
#include "cpu/cli/table.h"
#include "cpu/proof.h"

#include <stdio.h>
#include <string.h>

static attn_table table; // too large for a stack
static attn_modules modules;

static void add_verdict(const attn_loaded_stage *row, const attn_proof *proof,
                        const attn_trial *trial) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const attn_comparison *c = &proof->comparison[r];
        if (!proof->compared[r]) continue;
        attn_table_row(&table);
        attn_table_cell(&table, "%s", row->stage->name);
        attn_table_cell(&table, "%s", row->module->device->kind);
        attn_table_cell(&table, "%s", attn_result_name((attn_result)r));
        attn_table_cell(&table, "%.2g", c->worst);
        attn_table_cell(&table, "%.2g", c->allowed);
        if (c->rank == 3)
            attn_table_cell(&table, "[%lld][%lld][%lld]", (long long)c->index[0],
                            (long long)c->index[1], (long long)c->index[2]);
        else
            attn_table_cell(&table, "[%lld][%lld][%lld][%lld]", (long long)c->index[0],
                            (long long)c->index[1], (long long)c->index[2], (long long)c->index[3]);
        attn_table_cell(&table, "%llu of %llu", (unsigned long long)c->over,
                        (unsigned long long)c->elements);
        attn_table_cell(&table, "%s", trial->expected[r] ? "file" : "reference");
        attn_table_cell(&table, "%s", c->pass ? "PASS" : "FAIL");
    }
    if (!proof->bytes_compared) return;
    attn_table_row(&table);
    attn_table_cell(&table, "%s", row->stage->name);
    attn_table_cell(&table, "%s", row->module->device->kind);
    attn_table_cell(&table, "bytes");
    for (int i = 0; i < 4; i++) attn_table_cell(&table, "%s", "");
    attn_table_cell(&table, "model");
    attn_table_cell(&table, "%s", proof->bytes_equal ? "PASS" : "FAIL");
}

typedef struct tally {
    int passed, failed, skipped;
} tally;

static void check_stage(const attn_loaded_stage *row, const attn_trial *trial, tally *count) {
    const char *name = row->stage->name, *device = row->module->device->kind;
    attn_proof proof;
    const attn_status status = attn_prove(row, trial, 1, &proof);
    if (status.code == ATTN_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s on %s: %s\n", name, device, status.text);
        count->skipped++;
    } else if (status.code != ATTN_OK) {
        fprintf(stderr, "FAIL: %s on %s: %s\n", name, device, status.text);
        count->failed++;
    } else {
        add_verdict(row, &proof, trial);
        proof.pass ? count->passed++ : count->failed++;
        attn_proof_free(&proof);
    }
}

// What the devices noticed on the way: warnings, and the check build's bank conflicts and sectors.
static void print_reports(const char *device) {
    for (int i = 0; i < modules.module_count; i++) {
        const attn_module *module = modules.module[i];
        if (!module->device->report || !device || strcmp(module->device->kind, device) != 0)
            continue;
        printf("chapter %d, as noticed by the device %s:\n", module->chapter, device);
        module->device->report(stdout);
    }
}

static attn_status check_case(const attn_options *o, const attn_case *loaded, tally *count) {
    static const char *const heads[] = {"stage", "device", "result",  "worst", "allowed",
                                        "at",    "beyond", "against", "",      NULL};
    const attn_inputs inputs = attn_case_inputs(loaded);
    attn_trial trial;
    const int all = strcmp(o->operand, "all") == 0;
    if (!loaded->o && !loaded->lse && !loaded->dq && !loaded->dk && !loaded->dv && !loaded->dbias)
        return attn_error(ATTN_BAD_INPUT,
                          "%s holds nothing to compare with: no o.npy, lse.npy, dq.npy, dk.npy, "
                          "dv.npy or dbias.npy",
                          o->case_folder);
    ATTN_TRY(attn_load_devices(o->device, &modules));
    if (!all && !attn_find_stage(&modules, o->operand, o->device))
        return attn_error(ATTN_BAD_INPUT, "there is no stage '%s'%s%s; attention list has them all",
                          o->operand, o->device ? " on " : "", o->device ? o->device : "");
    ATTN_TRY(attn_trial_begin(&modules, &loaded->problem, &inputs, loaded, &trial));
    attn_table_begin(&table, heads);
    for (int i = 0; i < modules.stage_count; i++) {
        const attn_loaded_stage *row = &modules.stage[i];
        if (!all && strcmp(row->stage->name, o->operand) != 0) continue;
        if (o->device && strcmp(row->module->device->kind, o->device) != 0) continue;
        check_stage(row, &trial, count);
    }
    attn_trial_free(&trial);
    return attn_ok();
}

int attn_command_check(const attn_options *options) {
    attn_case loaded;
    tally count = {0, 0, 0};
    attn_status status = attn_case_load(options->case_folder, &loaded);
    if (status.code != ATTN_OK) return attn_complain(status);
    status = check_case(options, &loaded, &count);
    attn_case_free(&loaded);
    if (status.code != ATTN_OK) return attn_complain(status);
    if (options->csv) {
        attn_table_print_csv(&table);
    } else {
        attn_table_print(&table, 0);
        printf("%s  %d passed, %d failed, %d skipped: %s\n",
               count.failed == 0 && count.passed > 0 ? "PASS" : "FAIL", count.passed, count.failed,
               count.skipped, options->case_folder);
        print_reports(options->device);
    }
    if (count.passed + count.failed == 0) fprintf(stderr, "FAIL: no stage does this case\n");
    return count.failed == 0 && count.passed > 0 ? 0 : 1;
}
