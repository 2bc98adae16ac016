// list.c -- attention list: every stage there is, and where it runs.
#include "cpu/cli/commands.h"
#include "cpu/cli/generated.h"
#include "cpu/cli/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static attn_modules modules;
static attn_table table;

static void print_stages(int csv) {
    static const char *const heads[] = {"stage", "chapter", "device", "passes", "idea", NULL};
    attn_table_begin(&table, heads);
    for (int i = 0; i < modules.stage_count; i++) {
        const attn_loaded_stage *row = &modules.stage[i];
        attn_table_row(&table);
        attn_table_cell(&table, "%s", row->stage->name);
        attn_table_cell(&table, "%d", row->module->chapter);
        attn_table_cell(&table, "%s", row->module->device->kind);
        attn_table_cell(&table, "%s", row->stage->backward ? "forward+backward" : "forward");
        attn_table_cell(&table, "%s", row->stage->idea);
    }
    if (csv)
        attn_table_print_csv(&table);
    else
        attn_table_print(&table, 0);
}

// ---- the table of chapters in README.md ----
typedef struct text {
    char all[8192];
    size_t used;
} text;

__attribute__((format(printf, 2, 3))) static void append(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (t->used < sizeof t->all)
        t->used += (size_t)vsnprintf(t->all + t->used, sizeof t->all - t->used, format, arguments);
    va_end(arguments);
}

static int first_of_its_chapter(int i) {
    for (int j = 0; j < i; j++)
        if (modules.stage[j].module->chapter == modules.stage[i].module->chapter) return 0;
    return 1;
}

static int named_before(int i) { // the same stage of the same chapter, on another device
    for (int j = 0; j < i; j++)
        if (modules.stage[j].module->chapter == modules.stage[i].module->chapter &&
            strcmp(modules.stage[j].stage->name, modules.stage[i].stage->name) == 0)
            return 1;
    return 0;
}

static const char *devices_of(int chapter) {
    int host = 0, cuda = 0;
    for (int i = 0; i < modules.stage_count; i++)
        if (modules.stage[i].module->chapter == chapter)
            *(strcmp(modules.stage[i].module->device->kind, "host") == 0 ? &host : &cuda) = 1;
    return host && cuda ? "C, CUDA" : host ? "C" : "CUDA";
}

static attn_status write_chapters(const char *path) {
    static text t;
    append(&t, "| run | chapter | stages | in |\n|---|---|---|---|\n");
    for (int i = 0; i < modules.stage_count; i++) {
        const int chapter = modules.stage[i].module->chapter;
        if (!first_of_its_chapter(i)) continue;
        append(&t, "| `make chapter%d` | %s |", chapter, modules.stage[i].module->title);
        for (int j = i; j < modules.stage_count; j++)
            if (modules.stage[j].module->chapter == chapter && !named_before(j))
                append(&t, "%s `%s`", j == i ? "" : ",", modules.stage[j].stage->name);
        append(&t, " | %s |\n", devices_of(chapter));
    }
    return attn_generated_replace(path, "chapters", t.all);
}

int attn_command_list_stages(const attn_options *options) {
    attn_status status = attn_load_devices(options->device, &modules);
    if (status.code != ATTN_OK) return attn_complain(status);
    if (options->write_tables == 0) print_stages(options->csv);
    for (int i = 0; i < options->write_tables && status.code == ATTN_OK; i++)
        status = write_chapters(options->write_table[i]);
    return attn_complain(status);
}
