// recorded.c -- see recorded.h.
//
// A file begins with lines of provenance after #, then a line of column names, then rows; see
// bench_gpu.c, which writes them. Columns are found by name.
#define _GNU_SOURCE // scandir
#include "cpu/cli/recorded.h"
#include "cpu/cli/table.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH = 4096, MAX_LINE = 1024, MAX_COLUMNS = 32 };

static attn_table table; // too large for a stack

typedef struct columns {
    int count;
    char *text[MAX_COLUMNS]; // into the line that was split
} columns;

static void split(char *line, columns *c) {
    c->count = 0;
    line[strcspn(line, "\r\n")] = 0;
    for (char *field = line; field && c->count < MAX_COLUMNS;) {
        char *comma = strchr(field, ',');
        if (comma) *comma = 0;
        c->text[c->count++] = field;
        field = comma ? comma + 1 : NULL;
    }
}

static const char *value_of(const columns *heads, const columns *row, const char *name) {
    for (int i = 0; i < heads->count && i < row->count; i++)
        if (strcmp(heads->text[i], name) == 0) return row->text[i];
    return "";
}

static int is_shown(const attn_chapter *chapter, const char *stage) {
    if (!chapter->other_devices_used) return 0; // a chapter of the CPU
    for (int i = 0; i < chapter->count; i++)
        if (strcmp(chapter->row[i]->stage->name, stage) == 0) return 1;
    return 0;
}

static void add_problem_cell(const columns *heads, const columns *row) {
    const char *q_len = value_of(heads, row, "q_len"), *kv_len = value_of(heads, row, "kv_len");
    const char *kv_heads = value_of(heads, row, "kv_heads"), *bc = value_of(heads, row, "bc");
    const char *query_heads = value_of(heads, row, "heads");
    const int grouped = strcmp(kv_heads, query_heads) != 0, cross = strcmp(q_len, kv_len) != 0;
    const char *window = value_of(heads, row, "window"); // no such column in most files
    const int has_window = window[0] && strcmp(window, "0") != 0;
    attn_table_cell(&table, "B=%s H=%s%s%s%s%s N=%s d=%s%s%s%s%s%s", value_of(heads, row, "batch"),
                    query_heads, grouped ? " Hkv=" : "", grouped ? kv_heads : "",
                    cross ? " q=" : "", cross ? q_len : "", kv_len,
                    value_of(heads, row, "head_dim"), bc[0] ? " BC=" : "", bc,
                    strcmp(value_of(heads, row, "causal"), "1") == 0 ? " causal" : "",
                    has_window ? " window " : "", has_window ? window : "");
}

static void add_row(const columns *heads, const columns *row) {
    attn_table_row(&table);
    attn_table_cell(&table, "%s", value_of(heads, row, "stage"));
    attn_table_cell(&table, "%s", value_of(heads, row, "pass"));
    add_problem_cell(heads, row);
    attn_table_cell(&table, "%.0f", atof(value_of(heads, row, "model_read_bytes")) / 1e6);
    attn_table_cell(&table, "%.0f", atof(value_of(heads, row, "model_written_bytes")) / 1e6);
    attn_table_cell(&table, "%.4g", atof(value_of(heads, row, "ms")));
    attn_table_cell(&table, "%.3g", atof(value_of(heads, row, "tflops")));
}

// ---- all files ----
typedef void per_file(const char *path, void *context);

static int is_csv(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".csv") == 0;
}

static void each_file(per_file *visit, void *context) {
    char folder[MAX_PATH], path[MAX_PATH + 300];
    struct dirent **entries = NULL;
    snprintf(folder, sizeof folder, "plots/recorded");
    if (access(folder, R_OK) != 0)
        snprintf(folder, sizeof folder, "%s/../plots/recorded", attn_modules_folder());
    const int count = scandir(folder, &entries, is_csv, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        visit(path, context);
        free(entries[i]);
    }
    free(entries);
}

// ---- the nearest problem ----
// How far a recorded problem is from the one measured here, what counts most first: d, then causal or not, the
// lengths, the window, and how many heads there are in all.
enum { DISTANCES = 6 };
typedef struct distance {
    double by[DISTANCES];
} distance;

static double apart(double a, double b) {
    return fabs(log2((a > 0 ? a : 1) / (b > 0 ? b : 1)));
}

static double number_of(const columns *heads, const columns *row, const char *name) {
    return atof(value_of(heads, row, name));
}

static distance distance_of(const columns *heads, const columns *row, const attn_problem *p) {
    const double all_heads = number_of(heads, row, "batch") * number_of(heads, row, "heads");
    return (distance){{
        apart(number_of(heads, row, "head_dim"), (double)p->head_dim),
        number_of(heads, row, "causal") != (p->causal != ATTN_CAUSAL_OFF),
        apart(number_of(heads, row, "kv_len"), (double)p->kv_len),
        apart(number_of(heads, row, "q_len"), (double)p->q_len),
        apart(number_of(heads, row, "window"), (double)p->window_left),
        apart(all_heads, (double)(p->batch * p->heads)),
    }};
}

static int compare(const distance *a, const distance *b) {
    for (int i = 0; i < DISTANCES; i++)
        if (a->by[i] != b->by[i]) return a->by[i] < b->by[i] ? -1 : 1;
    return 0;
}

typedef struct shown {
    const attn_chapter *chapter;
    const attn_problem *problem;
    int rows, printed; // of the chapter's stages, in all files; and how many of them were printed
    distance nearest;  // once rows > 0
} shown;

typedef void per_row(const columns *heads, const columns *row, shown *s);

static void find_nearest(const columns *heads, const columns *row, shown *s) {
    const distance here = distance_of(heads, row, s->problem);
    if (s->rows++ == 0 || compare(&here, &s->nearest) < 0) s->nearest = here;
}

static void add_if_nearest(const columns *heads, const columns *row, shown *s) {
    const distance here = distance_of(heads, row, s->problem);
    if (compare(&here, &s->nearest) == 0) add_row(heads, row);
}

// `visit` for each of the chapter's rows; `machine` becomes the file's first line.
static void each_row(const char *path, per_row *visit, shown *s, char machine[MAX_LINE]) {
    char line[MAX_LINE], head_line[MAX_LINE] = "";
    columns heads = {0, {NULL}}, row;
    FILE *file = fopen(path, "r");
    machine[0] = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (line[0] == '#') {
            if (!machine[0]) snprintf(machine, MAX_LINE, "%s", line + 2);
        } else if (heads.count == 0) {
            memcpy(head_line, line, sizeof line);
            split(head_line, &heads);
        } else {
            split(line, &row);
            // Files without times (make ncu), or without rates, are for plots and tables.
            if (is_shown(s->chapter, value_of(&heads, &row, "stage")) &&
                value_of(&heads, &row, "tflops")[0])
                visit(&heads, &row, s);
        }
    }
    if (file) fclose(file);
    machine[strcspn(machine, "\n")] = 0;
}

static void look_in(const char *path, void *s) {
    char machine[MAX_LINE];
    each_row(path, find_nearest, s, machine);
}

static void print_file(const char *path, void *context) {
    static const char *const titles[] = {"stage",      "pass", "problem", "read MB",
                                         "written MB", "ms",   "TFLOP/s", NULL};
    char machine[MAX_LINE];
    shown *s = context;
    attn_table_begin(&table, titles);
    each_row(path, add_if_nearest, s, machine);
    if (table.rows == 0) return;
    printf("\nRecorded on %s (%s)\n    bytes are the closed form's; TFLOP/s of 4d FLOPs a pair "
           "forward, 10d backward\n",
           machine, path);
    attn_table_print(&table, 4);
    s->printed += table.rows;
}

void attn_print_recorded(const attn_chapter *chapter, const attn_problem *problem) {
    shown s = {.chapter = chapter, .problem = problem};
    each_file(look_in, &s);
    each_file(print_file, &s);
    if (s.rows > s.printed)
        printf("    That is the recorded problem nearest to this one; %d rows of others are in "
               "plots/recorded.\n",
               s.rows - s.printed);
}

// ---- one time ----
typedef struct wanted {
    const char *stage;
    attn_pass pass;
    const attn_problem *problem;
    double ms;
    char *machine;
    size_t size;
} wanted;

static int is_number(const columns *heads, const columns *row, const char *name, int64_t number) {
    const char *text = value_of(heads, row, name);
    return text[0] && atoll(text) == number;
}

static int is_wanted(const columns *heads, const columns *row, const wanted *w) {
    const attn_problem *p = w->problem;
    const char *pass = w->pass == ATTN_FORWARD ? "forward" : "backward";
    const char *bc = value_of(heads, row, "bc"); // slices that were asked for
    return strcmp(value_of(heads, row, "stage"), w->stage) == 0 && !bc[0] &&
           strcmp(value_of(heads, row, "pass"), pass) == 0 &&
           is_number(heads, row, "batch", p->batch) && is_number(heads, row, "heads", p->heads) &&
           is_number(heads, row, "kv_heads", p->kv_heads) &&
           is_number(heads, row, "q_len", p->q_len) && is_number(heads, row, "kv_len", p->kv_len) &&
           is_number(heads, row, "head_dim", p->head_dim) &&
           is_number(heads, row, "causal", p->causal != ATTN_CAUSAL_OFF) &&
           atoll(value_of(heads, row, "window")) == p->window_left;
}

static void find_in(const char *path, void *context) {
    wanted *w = context;
    char line[MAX_LINE], head_line[MAX_LINE] = "", machine[MAX_LINE] = "";
    columns heads = {0, {NULL}}, row;
    FILE *file = w->ms > 0 ? NULL : fopen(path, "r");
    while (file && w->ms == 0 && fgets(line, sizeof line, file)) {
        if (line[0] == '#') {
            if (!machine[0]) snprintf(machine, sizeof machine, "%s", line + 2);
        } else if (heads.count == 0) {
            memcpy(head_line, line, sizeof line);
            split(head_line, &heads);
        } else {
            split(line, &row);
            if (is_wanted(&heads, &row, w)) w->ms = atof(value_of(&heads, &row, "ms"));
        }
    }
    if (file) fclose(file);
    machine[strcspn(machine, "\n")] = 0;
    if (w->ms > 0 && file) snprintf(w->machine, w->size, "%s", machine);
}

double attn_recorded_ms(const char *stage, attn_pass pass, const attn_problem *problem,
                        char *machine, size_t size) {
    wanted w = {stage, pass, problem, 0, machine, size};
    each_file(find_in, &w);
    return w.ms;
}
