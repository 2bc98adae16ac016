// features.h -- what each feature of problem.h costs a stage that does them all: the same problem with one
// of them on, beside the problem without.
#ifndef ATTN_FEATURES_H
#define ATTN_FEATURES_H

#include "cpu/cli/options.h"
#include "cpu/modules.h"

// ---- the rows (feature_rows.c) ----
enum { ATTN_FEATURE_ROWS = 13 };

typedef struct attn_feature_row {
    const char *key, *name; // "lengths", "variable lengths"; the first row is "off"
    char knobs[80];         // what a reader types to have it: "CAUSAL=1"
    attn_problem problem;
    int32_t *q_cumulative, *kv_cumulative; // the problem's, where it has them
} attn_feature_row;

// What a stage has to do to be shown so.
unsigned attn_shown_features(void);

// The sizes, scale and input of `asked` with everything off, then each feature by itself; what the stage
// does not do is left away. Returns how many; free with attn_feature_rows_free. ATTN_NO_MEMORY.
attn_status attn_feature_rows(const attn_problem *asked, const attn_stage *stage,
                              attn_feature_row rows[ATTN_FEATURE_ROWS], int *count);
void attn_feature_rows_free(attn_feature_row rows[ATTN_FEATURE_ROWS], int count);

// ---- the table (features.c) ----
// The last stage on the device that does them all, of one chapter or, with 0, of any; NULL: none.
const attn_loaded_stage *attn_find_featured(const attn_modules *modules, int chapter,
                                            const char *device);

// Proves the stage on each row, measures it there and prints a table of each pass. Where nothing is timed,
// and on the host, a longer problem is cut to a length that takes seconds. *failed: rows that are wrong.
attn_status attn_print_features(const attn_modules *modules, const attn_loaded_stage *stage,
                                const attn_options *options, int rounds, int *failed);

#endif
