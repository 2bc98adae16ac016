// stage_rows.c -- see stage_rows.h.
#define _GNU_SOURCE
#include "tests/stage_rows.h"
#include "tests/harness.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void look(stage_rows *rows) {
    static attn_modules modules;
    for (int k = 0; attn_device_kinds[k]; k++) {
        const attn_status usable = attn_device_usable(attn_device_kinds[k]);
        attn_status loaded = attn_ok();
        if (usable.code == ATTN_OK)
            loaded = attn_modules_load(attn_device_kinds[k], &modules);
        else
            snprintf(rows->unusable[k], sizeof rows->unusable[k], "%.239s", usable.text);
        if (usable.code == ATTN_IO || loaded.code != ATTN_OK)
            snprintf(rows->error, sizeof rows->error, "%s",
                     loaded.code == ATTN_OK ? usable.text : loaded.text);
    }
    for (int i = 0; i < modules.stage_count && i < MAX_STAGE_ROWS; i++) {
        stage_row *row = &rows->row[rows->count++];
        row->chapter = modules.stage[i].module->chapter;
        row->features = modules.stage[i].stage->features;
        snprintf(row->stage, sizeof row->stage, "%s", modules.stage[i].stage->name);
        snprintf(row->device, sizeof row->device, "%s", modules.stage[i].module->device->kind);
    }
}

const stage_rows *stage_rows_find(void) {
    static stage_rows *rows;
    if (rows) return rows;
    rows = mmap(NULL, sizeof *rows, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rows == MAP_FAILED) return perror("tests: mmap"), _exit(2), NULL;
    const pid_t child = fork();
    if (child == 0) {
        look(rows);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        snprintf(rows->error, sizeof rows->error,
                 "loading the modules in %s ended a process with status %d", attn_modules_folder(),
                 status);
    return rows;
}

static attn_modules loaded;

const attn_modules *stage_modules(void) {
    return &loaded;
}

const attn_loaded_stage *stage_row_load(const stage_row *wanted) {
    attn_status status = attn_ok();
    if (loaded.module_count == 0) status = attn_modules_load("host", &loaded);
    if (status.code == ATTN_OK && !attn_find_stage(&loaded, wanted->stage, wanted->device))
        status = attn_modules_load(wanted->device, &loaded);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    const attn_loaded_stage *row = attn_find_stage(&loaded, wanted->stage, wanted->device);
    ck_assert_msg(row != NULL, "%s on %s is gone", wanted->stage, wanted->device);
    return row;
}
