// tiles.c -- attention tiles: what tile sizes do to traffic, and what they cost in shared memory.
//
// Nothing runs: bytes and shared memory are the stages' closed forms. A stage whose tiles are fixed has
// one row, to compare with.
#include "cpu/cli/commands.h"
#include "cpu/cli/table.h"

#include <stdio.h>
#include <string.h>

static attn_modules modules;
static attn_table table; // too large for a stack

static const int64_t sizes[] = {16, 32, 64, 128};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

// The sizes to show: the one asked for, or those of the list.
typedef struct choice {
    int count;
    int64_t size[SIZES];
} choice;

static choice sizes_to_show(int64_t asked) {
    choice c = {SIZES, {0}};
    memcpy(c.size, sizes, sizeof sizes);
    if (asked) c.count = 1, c.size[0] = asked;
    return c;
}

// "all", "all but T4", or the names of the GPUs that give a block so much shared memory.
static void name_gpus(const attn_device *device, uint64_t shared_bytes, char *text, size_t size) {
    char with[ATTN_TABLE_TEXT] = "", without[ATTN_TABLE_TEXT] = "";
    int lacking = 0;
    uint64_t gives;
    const char *name;
    for (int i = 0; (name = device->known_gpu(i, &gives)) != NULL; i++) {
        char *list = gives >= shared_bytes ? with : without;
        lacking += gives < shared_bytes;
        snprintf(list + strlen(list), ATTN_TABLE_TEXT - strlen(list), " %s", name);
    }
    if (lacking == 0)
        snprintf(text, size, "all");
    else if (!with[0])
        snprintf(text, size, "none");
    else if (lacking <= 2)
        snprintf(text, size, "all but%.*s", (int)(size - sizeof "all but"), without);
    else
        snprintf(text, size, "%s", with + 1);
}

static void add_size(int64_t tile) {
    if (tile)
        attn_table_cell(&table, "%lld", (long long)tile);
    else
        attn_table_cell(&table, "fixed");
}

static void add_row(const attn_options *o, const attn_loaded_stage *row, const attn_problem *p) {
    const attn_device *device = row->module->device;
    const attn_tensor_bytes least = attn_compulsory_bytes(p, o->pass);
    const uint64_t compulsory = least.read + least.written;
    char gpus[ATTN_TABLE_TEXT] = "", shared_text[32] = "", times[32] = "";
    const attn_traffic model = attn_model_bytes(row->stage, p, o->pass);
    const attn_tensor_bytes total = attn_traffic_total(&model);
    if (row->stage->shared_bytes) {
        const uint64_t shared = row->stage->shared_bytes(p, o->pass);
        if (device->known_gpu) name_gpus(device, shared, gpus, sizeof gpus);
        if (o->csv)
            snprintf(shared_text, sizeof shared_text, "%llu", (unsigned long long)shared);
        else
            snprintf(shared_text, sizeof shared_text, "%.1f", (double)shared / 1024);
    }
    if (compulsory)
        snprintf(times, sizeof times, "%.1f",
                 (double)(total.read + total.written) / (double)compulsory);

    attn_table_row(&table);
    if (o->csv) {
        attn_table_cell(&table, "%s", row->stage->name);
        attn_table_cell(&table, "%s", o->pass == ATTN_FORWARD ? "forward" : "backward");
        const int64_t shape[] = {p->batch, p->heads, p->kv_heads, p->q_len, p->kv_len, p->head_dim};
        for (int i = 0; i < 6; i++) attn_table_cell(&table, "%lld", (long long)shape[i]);
    } else {
        attn_table_cell(&table, "%d %s", row->module->chapter, row->stage->name);
    }
    add_size(p->br), add_size(p->bc);
    attn_table_cell(&table, "%s", shared_text);
    if (o->csv) {
        attn_table_cell(&table, "%llu", (unsigned long long)total.read);
        attn_table_cell(&table, "%llu", (unsigned long long)total.written);
        attn_table_cell(&table, "%llu", (unsigned long long)compulsory);
    } else {
        attn_table_cell(&table, "%.6g", (double)total.read / 1e6);
        attn_table_cell(&table, "%.6g", (double)total.written / 1e6);
        attn_table_cell(&table, "%s", times);
    }
    attn_table_cell(&table, "%s", gpus);
}

// All combinations that the stage does; what it refuses is said once, with its reason.
static void add_stage(const attn_options *o, const attn_loaded_stage *row) {
    const int chosen = (row->stage->features & ATTN_HAS_TILE_SIZES) != 0;
    choice br = sizes_to_show(o->problem.br), bc = sizes_to_show(o->problem.bc);
    if (!chosen) br = bc = (choice){1, {0}};
    attn_status refusal = attn_ok();
    int refused = 0;
    for (int i = 0; i < br.count; i++)
        for (int j = 0; j < bc.count; j++) {
            attn_problem p = o->problem;
            p.br = br.size[i], p.bc = bc.size[j];
            const attn_status status = attn_stage_supports(row->stage, &p, o->pass);
            if (status.code == ATTN_OK)
                add_row(o, row, &p);
            else if (refused++ == 0)
                refusal = status;
        }
    if (refused)
        fprintf(stderr, "left out, %d of %d: %s\n", refused, br.count * bc.count, refusal.text);
}

static attn_status tiles(const attn_options *o) {
    static const char *const people[] = {"stage",        "Br",      "Bc",
                                         "shared KB",    "read MB", "written MB",
                                         "x compulsory", "fits",    NULL};
    static const char *const programs[] = {"stage",
                                           "pass",
                                           "batch",
                                           "heads",
                                           "kv_heads",
                                           "q_len",
                                           "kv_len",
                                           "head_dim",
                                           "br",
                                           "bc",
                                           "shared_bytes",
                                           "model_read_bytes",
                                           "model_written_bytes",
                                           "compulsory_bytes",
                                           "gpus",
                                           NULL};
    const char *kind = o->device ? o->device : "emulator";
    ATTN_TRY(attn_load_devices(kind, &modules));
    attn_table_begin(&table, o->csv ? programs : people);
    for (int i = 0; i < modules.stage_count; i++) {
        const attn_loaded_stage *row = &modules.stage[i];
        const int takes_tiles = (row->stage->features & ATTN_HAS_TILE_SIZES) != 0;
        if (strcmp(row->module->device->kind, kind) != 0 ||
            (o->pass == ATTN_BACKWARD && !row->stage->backward))
            continue;
        if (takes_tiles || (row->stage->shared_bytes && !o->problem.br && !o->problem.bc))
            add_stage(o, row);
    }
    if (table.rows == 0)
        return attn_error(ATTN_UNSUPPORTED,
                          "no stage on %s takes tile sizes for this problem and pass", kind);
    if (o->csv) return attn_table_print_csv(&table), attn_ok();
    char problem[200];
    attn_problem_describe(&o->problem, problem, sizeof problem);
    printf("%s, %s: bytes by tile sizes, by the closed forms\n",
           o->pass == ATTN_FORWARD ? "Forward" : "Backward", problem);
    attn_table_print(&table, 4);
    printf("    x compulsory: bytes read and written, over those of each input and output once\n"
           "    shared KB: of 1024 bytes, a block; fits: the GPUs that give a block so much\n");
    return attn_ok();
}

int attn_command_tiles(const attn_options *o) {
    return attn_complain(tiles(o));
}
