// watched_device.h -- devices that see what a stage may not do, put in place of its own.
#ifndef TESTS_WATCHED_DEVICE_H
#define TESTS_WATCHED_DEVICE_H

#include "cpu/modules.h"

// Where a tensor lies between its two inaccessible pages: against the one after it or the one before.
typedef enum guard_side { GUARD_AFTER, GUARD_BEFORE } guard_side;

// The host, with memory of its own for each tensor: reading or writing outside it, and writing q, k, v
// or do, ends the process. `watched` is what to run instead of `row`, and stays valid until the next
// call of the same function.
const attn_loaded_stage *watch_host_memory(const attn_loaded_stage *row, guard_side side);

// Any device: what was uploaded is compared with what is there when it is released.
const attn_loaded_stage *watch_inputs(const attn_loaded_stage *row);
int watched_inputs_changed(void); // how many so far

#endif
