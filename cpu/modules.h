// modules.h -- finds the chapters that are built, and loads them.
//
// A chapter is one shared object a device, <folder>/<device>/<NN>.so, where <folder> is the one that
// the running program lies in (ATTENTION_MODULES in the environment names another). The program links
// no chapter and no CUDA runtime: what is there is loaded, what is not is not missed.
#ifndef ATTN_MODULES_H
#define ATTN_MODULES_H

#include "cpu/stage.h"

enum { ATTN_MAX_MODULES = 128, ATTN_MAX_STAGES = 256 };

typedef struct attn_loaded_stage {
    const attn_module *module; // chapter, title, device
    const attn_stage *stage;
} attn_loaded_stage;

typedef struct attn_modules {
    int module_count;
    const attn_module *module[ATTN_MAX_MODULES];
    int stage_count; // by chapter, then device, then the chapter's own order
    attn_loaded_stage stage[ATTN_MAX_STAGES];
} attn_modules;

// Loads the modules of one device ("host", "emulator", "check", "gpu", "count"). Not an error: a device whose
// folder is absent or that open() refuses, it has no stages. ATTN_IO: a module that is there but
// cannot be loaded, or was built for another version of stage.h.
attn_status attn_modules_load(const char *device, attn_modules *modules);

// The names of all devices, NULL at the end; in the order in which tables show them.
enum { ATTN_DEVICE_KINDS = 5 };
extern const char *const attn_device_kinds[ATTN_DEVICE_KINDS + 1];

// Whether a module for the device is built at all, and if its device cannot be used, why not.
attn_status attn_device_usable(const char *device);

// "build": where modules are looked for.
const char *attn_modules_folder(void);

// NULL when there is no stage of that name on the loaded devices; device NULL: any.
const attn_loaded_stage *attn_find_stage(const attn_modules *modules, const char *name,
                                         const char *device);
// The naive stage on the device, by whose error the others' allowance is measured; NULL when absent.
const attn_loaded_stage *attn_find_yardstick(const attn_modules *modules, const char *device);
// The latest stage that does what `wanted` cannot: on its device if there is one, else on any; NULL.
const attn_loaded_stage *attn_find_fallback(const attn_modules *modules,
                                            const attn_loaded_stage *wanted,
                                            const attn_problem *problem, attn_pass pass);

#endif
