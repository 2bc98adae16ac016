// stage_rows.h -- which stages there are on which devices, found without opening a device here.
#ifndef TESTS_STAGE_ROWS_H
#define TESTS_STAGE_ROWS_H

#include "cpu/modules.h"

enum { MAX_STAGE_ROWS = 256 };

typedef struct stage_row {
    int chapter;
    unsigned features; // attn_stage.features
    char stage[48], device[16];
} stage_row;

typedef struct stage_rows {
    int count;
    stage_row row[MAX_STAGE_ROWS];
    char unusable[ATTN_DEVICE_KINDS]
                 [240]; // why a device of attn_device_kinds cannot be used; "" when it can
    char error[480];    // a module that cannot be loaded; "" when all can
} stage_rows;

// Asks a child process, since loading a module opens its device, which may start threads.
const stage_rows *stage_rows_find(void);

// For the process of a test: loads the host's modules and the device's, once, and returns the row.
// Fails the test when that cannot be done.
const attn_loaded_stage *stage_row_load(const stage_row *row);
const attn_modules *stage_modules(void); // what stage_row_load has loaded

#endif
