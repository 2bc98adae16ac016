// chapter_proof.c -- see chapter.h: a chapter's stages on the golden cases, on real input, and checked.
#include "cpu/cli/chapter.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH = 4096, MAX_CASES = 64 };

// A folder of the project, seen from the current folder or from the program's; "" when it is not here.
static void find_folder(const char *name, char *path, size_t size) {
    snprintf(path, size, "%s", name);
    if (access(path, R_OK) == 0) return;
    snprintf(path, size, "%s/../%s", attn_modules_folder(), name);
    if (access(path, R_OK) != 0) path[0] = 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// The folders in `folder`, sorted; returns how many. Each name is malloc'ed.
static int list_cases(const char *folder, char *names[MAX_CASES]) {
    DIR *directory = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while (directory && (entry = readdir(directory)) && count < MAX_CASES) {
        char path[MAX_PATH + 300];
        snprintf(path, sizeof path, "%s/%s/case.txt", folder, entry->d_name);
        if (entry->d_name[0] != '.' && access(path, R_OK) == 0)
            names[count++] = strdup(entry->d_name);
    }
    if (directory) closedir(directory);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    return count;
}

typedef struct tally {
    int passed, failed, skipped;
} tally;

static void describe_failure(const attn_loaded_stage *row, const char *folder,
                             const attn_proof *proof) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        char text[256];
        if (!proof->compared[r] || proof->comparison[r].pass) continue;
        attn_comparison_describe(&proof->comparison[r], text, sizeof text);
        fprintf(stderr, "FAIL  %s on %s, %s: %s\n", row->stage->name, row->module->device->kind,
                folder, text);
    }
    if (proof->bytes_compared && !proof->bytes_equal)
        fprintf(stderr, "FAIL  %s on %s, %s: counted bytes differ from the closed form\n",
                row->stage->name, row->module->device->kind, folder);
}

static void try_stage(const attn_loaded_stage *row, const char *folder, const attn_trial *trial,
                      tally *count) {
    attn_proof proof;
    const attn_status status = attn_prove(row, trial, 1, &proof);
    if (status.code == ATTN_UNSUPPORTED) {
        count->skipped++;
    } else if (status.code != ATTN_OK) {
        fprintf(stderr, "FAIL  %s on %s, %s: %s\n", row->stage->name, row->module->device->kind,
                folder, status.text);
        count->failed++;
    } else {
        if (!proof.pass) describe_failure(row, folder, &proof);
        proof.pass ? count->passed++ : count->failed++;
        attn_proof_free(&proof);
    }
}

// Runs rows[] on the case in `folder` and counts verdicts.
static attn_status try_case(const attn_modules *modules, const attn_loaded_stage *const *rows,
                            int row_count, const char *folder, tally *count) {
    attn_case loaded;
    attn_trial trial;
    ATTN_TRY(attn_case_load(folder, &loaded));
    const attn_inputs inputs = attn_case_inputs(&loaded);
    const attn_status status = attn_trial_begin(modules, &loaded.problem, &inputs, &loaded, &trial);
    if (status.code == ATTN_OK) {
        for (int i = 0; i < row_count; i++) try_stage(rows[i], folder, &trial, count);
        attn_trial_free(&trial);
    }
    attn_case_free(&loaded);
    return status;
}

static attn_status try_golden(const attn_modules *modules, const attn_loaded_stage *const *rows,
                              int row_count, attn_chapter_proof *proof) {
    char folder[MAX_PATH], *names[MAX_CASES];
    find_folder("tests/golden", folder, sizeof folder);
    const int cases = folder[0] ? list_cases(folder, names) : 0;
    attn_status status = attn_ok();
    for (int i = 0; i < cases; i++) {
        char path[MAX_PATH + 300];
        tally count = {0, 0, 0};
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (status.code == ATTN_OK) status = try_case(modules, rows, row_count, path, &count);
        if (count.failed > 0)
            proof->golden_failed++;
        else if (count.passed > 0)
            proof->golden_passed++;
        else
            proof->golden_skipped++;
        free(names[i]);
    }
    proof->golden_found = cases > 0;
    return status;
}

static attn_status try_real(const attn_modules *modules, const attn_loaded_stage *const *rows,
                            int row_count, attn_chapter_proof *proof) {
    char folder[MAX_PATH];
    tally count = {0, 0, 0};
    find_folder("tests/real-input", folder, sizeof folder);
    if (!folder[0]) return attn_ok();
    proof->real_found = 1;
    ATTN_TRY(try_case(modules, rows, row_count, folder, &count));
    proof->real_passed = count.passed, proof->real_failed = count.failed;
    return attn_ok();
}

// Every kind of input, with a usual and with a large negative scale: among them scores that all lie far
// below 0, where a maximum that starts at 0 shows, and maxima that rise from tile to tile.
static attn_status try_hard(const attn_modules *modules, const attn_loaded_stage *const *rows,
                            int row_count, attn_chapter_proof *proof) {
    enum { QUERIES = 70, KEYS = 130, DIM = 40 };
    static float q[QUERIES * DIM], k[KEYS * DIM], v[KEYS * DIM], d_o[QUERIES * DIM];
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++)
        for (int negative = 0; negative < 2; negative++) {
            attn_problem problem = attn_problem_of(QUERIES, KEYS, DIM);
            const attn_inputs inputs = {.q = q, .k = k, .v = v, .d_o = d_o};
            attn_trial trial;
            char name[64];
            tally count = {0, 0, 0};
            if (negative) problem.scale = -5;
            attn_input_fill((attn_input_kind)kind, 1, &problem, q, k, v, d_o);
            ATTN_TRY(attn_trial_begin(modules, &problem, &inputs, NULL, &trial));
            snprintf(name, sizeof name, "QLEN=%d KVLEN=%d DIM=%d KIND=%s SCALE=%g", QUERIES, KEYS,
                     DIM, attn_input_name((attn_input_kind)kind), problem.scale);
            for (int i = 0; i < row_count; i++) try_stage(rows[i], name, &trial, &count);
            attn_trial_free(&trial);
            if (count.failed)
                proof->hard_failed++;
            else if (count.passed)
                proof->hard_passed++;
        }
    return attn_ok();
}

// The chapter's device stages in the check build, on two small cases with ragged tiles: races, reads of
// what nobody wrote, accesses out of bounds. Only where the emulator is in use.
static attn_status try_checked(const attn_chapter *chapter, attn_chapter_proof *proof) {
    static attn_modules checked; // the check build's stages, and the host's for the yardstick
    static const char *const cases[] = {"tests/golden/causal-long-q",
                                        "tests/golden/causal-short-q"};
    const attn_loaded_stage *rows[ATTN_MAX_STAGES];
    int row_count = 0;
    memset(&checked, 0, sizeof checked);
    ATTN_TRY(attn_modules_load("host", &checked));
    ATTN_TRY(attn_modules_load("check", &checked));
    for (int i = 0; i < checked.stage_count; i++)
        if (checked.stage[i].module->chapter == chapter->number &&
            strcmp(checked.stage[i].module->device->kind, "check") == 0)
            rows[row_count++] = &checked.stage[i];
    tally count = {0, 0, 0};
    for (int i = 0; i < 2 && row_count > 0; i++) {
        char folder[MAX_PATH];
        find_folder(cases[i], folder, sizeof folder);
        if (!folder[0]) return attn_ok();
        proof->checked_found = 1;
        ATTN_TRY(try_case(&checked, rows, row_count, folder, &count));
    }
    proof->checked_passed = count.passed, proof->checked_failed = count.failed;
    return attn_ok();
}

attn_status attn_chapter_prove(const attn_modules *modules, const attn_chapter *chapter,
                               attn_chapter_proof *proof) {
    const attn_loaded_stage *rows[ATTN_MAX_STAGES];
    int row_count = 0, emulated = 0;
    memset(proof, 0, sizeof *proof);
    for (int i = 0; i < chapter->count; i++) {
        if (!attn_chapter_owns(chapter, chapter->row[i])) continue;
        rows[row_count++] = chapter->row[i];
        emulated |= strcmp(chapter->row[i]->module->device->kind, "emulator") == 0;
    }
    ATTN_TRY(try_real(modules, rows, row_count, proof));
    ATTN_TRY(try_golden(modules, rows, row_count, proof));
    ATTN_TRY(try_hard(modules, rows, row_count, proof));
    return emulated ? try_checked(chapter, proof) : attn_ok();
}
