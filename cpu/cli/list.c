// list.c -- attention list: every stage there is, and where it runs.
#include "cpu/cli/commands.h"
#include "cpu/cli/table.h"

#include <stdio.h>

int attn_command_list_stages(const attn_options *options) {
    static attn_modules modules;
    static attn_table table;
    static const char *const heads[] = {"stage", "chapter", "device", "passes", "idea", NULL};
    const attn_status status = attn_load_devices(options->device, &modules);
    if (status.code != ATTN_OK) return attn_complain(status);
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
    if (options->csv)
        attn_table_print_csv(&table);
    else
        attn_table_print(&table, 0);
    return 0;
}
