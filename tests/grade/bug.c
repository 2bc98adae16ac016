// bug.c -- make breakN: the stages of a chapter with one line broken on purpose, on the shared cases.
#include "tests/grade/grader.h"

#include <stdio.h>
#include <string.h>

static const char *const devices[] = {"host", "emulator", "check"};

static void print_comparisons(const attn_proof *proof) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const attn_comparison *c = &proof->comparison[r];
        char text[300];
        if (!proof->compared[r] || c->pass) continue;
        attn_comparison_describe(c, text, sizeof text);
        printf("      %s\n", text);
    }
}

static void print_bytes(const attn_loaded_stage *row, const grade_case *c) {
    for (int pass = 0; pass < 2; pass++) {
        const attn_traffic model = attn_model_bytes(row->stage, &c->trial.problem, (attn_pass)pass);
        const attn_tensor_bytes is = attn_traffic_total(&c->proof.run.traffic[pass]);
        const attn_tensor_bytes should = attn_traffic_total(&model);
        if (pass == 1 && !row->stage->backward) return;
        if (!attn_traffic_equal(&model, &c->proof.run.traffic[pass]))
            printf(
                "      %s, bytes: %llu read and %llu written, by the closed form %llu and %llu\n",
                pass ? "backward" : "forward", (unsigned long long)is.read,
                (unsigned long long)is.written, (unsigned long long)should.read,
                (unsigned long long)should.written);
    }
}

// The first case that fails, and by how much. Returns whether there is one.
static int try_stage(const exercise *e, const attn_modules *project, const attn_loaded_stage *row,
                     attn_status *status, char *now, size_t size) {
    static grade_case cases[GRADE_MAX_CASES];
    const char *name = row->stage->name, *device = row->module->device->kind;
    const int count = grade_cases(e, project, row->stage, 1, cases, status);
    int at = 0;
    for (; at < count && status->code == ATTN_OK; at++) {
        grade_case *c = &cases[at];
        snprintf(now, size, "%s, %.120s", name, c->name);
        c->tried = 1;
        c->status = attn_prove(row, &c->trial, 1, &c->proof);
        if (c->status.code != ATTN_OK || !c->proof.pass) break;
    }
    if (status->code == ATTN_OK && at == count)
        printf("pass  %s on %s: all %d cases\n", name, device, count);
    if (status->code == ATTN_OK && at < count) {
        const grade_case *c = &cases[at];
        printf("FAIL  %s on %s, after %d cases that pass: %s\n", name, device, at, c->name);
        if (c->status.code != ATTN_OK)
            printf("      %s\n", c->status.text);
        else
            print_comparisons(&c->proof);
        if (c->proof.bytes_compared) print_bytes(row, c);
    }
    grade_cases_free(cases, count);
    return at < count;
}

// Two cases under all checks, of those with several tiles.
static int check_stage(const exercise *e, const attn_modules *project, const attn_loaded_stage *row,
                       attn_status *status, char *now, size_t size) {
    static grade_case cases[GRADE_MAX_CASES];
    const int count = grade_cases(e, project, row->stage, 1, cases, status);
    attn_status found = attn_ok();
    for (int i = 0, done = 0; i < count && done < 2 && found.code == ATTN_OK; i++) {
        const attn_problem *p = &cases[i].data.problem;
        if (p->q_len < 60 || p->kv_len < 80 || p->q_len * p->kv_len > 10000) continue;
        attn_inputs inputs = cases[i].trial.inputs;
        attn_run run;
        if (!row->stage->backward) inputs.d_o = NULL;
        snprintf(now, size, "%s in the check build, %.120s", row->stage->name, cases[i].name);
        found = attn_run_stage(row, p, &inputs, 1, &run);
        attn_run_free(&run);
        done++;
    }
    if (status->code == ATTN_OK && found.code == ATTN_OK)
        printf("pass  %s in the check build: nothing found\n", row->stage->name);
    if (found.code != ATTN_OK)
        printf("FAIL  %s in the check build:\n      %s\n", row->stage->name, found.text);
    grade_cases_free(cases, count);
    return found.code != ATTN_OK;
}

attn_status meet_bug(int number, const attn_modules *project, const attn_modules *broken, char *now,
                     size_t size, int *caught) {
    const exercise e = {.number = number, .causal = number == 6};
    attn_status status = attn_ok();
    *caught = 0;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        for (int i = 0; i < broken->stage_count && status.code == ATTN_OK; i++) {
            const attn_loaded_stage *row = &broken->stage[i];
            if (strcmp(row->module->device->kind, devices[d]) != 0) continue;
            *caught |= strcmp(devices[d], "check") == 0
                           ? check_stage(&e, project, row, &status, now, size)
                           : try_stage(&e, project, row, &status, now, size);
        }
    return status;
}
