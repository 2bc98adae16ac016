// modules.c -- see modules.h. Modules stay loaded until the process ends.
#define _GNU_SOURCE
#include "cpu/modules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

const char *const attn_device_kinds[ATTN_DEVICE_KINDS + 1] = {"host", "emulator", "check",
                                                              "gpu",  "count",    NULL};

enum { MAX_CHAPTER = 99, MAX_PATH = 4096 };

// The folder of the running program.
static void find_program_folder(char *folder, size_t size) {
    folder[0] = 0;
#ifdef __APPLE__
    uint32_t length = (uint32_t)size;
    if (_NSGetExecutablePath(folder, &length) != 0) folder[0] = 0;
#else
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    folder[length > 0 ? length : 0] = 0;
#endif
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    else
        snprintf(folder, size, "build");
}

const char *attn_modules_folder(void) {
    static char folder[MAX_PATH];
    const char *named = getenv("ATTENTION_MODULES");
    if (named && named[0]) return named;
    if (!folder[0]) find_program_folder(folder, sizeof folder);
    return folder;
}

static void module_path(char *path, size_t size, const char *device, int chapter) {
    snprintf(path, size, "%s/%s/%02d.so", attn_modules_folder(), device, chapter);
}

static attn_status load_module(const char *path, const attn_module **module) {
    // Local: the emulated and the real build of one kernel have the same symbols and must not meet.
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) return attn_error(ATTN_IO, "%s cannot be loaded: %s", path, dlerror());
    // POSIX has dlsym return an object pointer for a function; this is its own way to convert one.
    attn_module_function *get;
    *(void **)&get = dlsym(object, "attn_module_get");
    if (!get) return attn_error(ATTN_IO, "%s exports no attn_module_get: it is no chapter", path);
    *module = get();
    if ((*module)->abi != ATTN_MODULE_ABI)
        return attn_error(ATTN_IO,
                          "%s was built for another version of this program: run make again", path);
    return attn_ok();
}

static int is_gpu(const char *device) {
    return strcmp(device, "gpu") == 0 || strcmp(device, "count") == 0;
}

static attn_status add_module(attn_modules *modules, const attn_module *module) {
    if (modules->module_count == ATTN_MAX_MODULES ||
        modules->stage_count + module->stage_count > ATTN_MAX_STAGES)
        return attn_error(ATTN_IO, "more than %d modules or %d stages", ATTN_MAX_MODULES,
                          ATTN_MAX_STAGES);
    modules->module[modules->module_count++] = module;
    for (int i = 0; i < module->stage_count; i++) {
        attn_loaded_stage row = {module, &module->stages[i]};
        // Kept in order of chapters, whichever device was loaded first.
        int at = modules->stage_count++;
        while (at > 0 && modules->stage[at - 1].module->chapter > module->chapter) {
            modules->stage[at] = modules->stage[at - 1];
            at--;
        }
        modules->stage[at] = row;
    }
    return attn_ok();
}

attn_status attn_modules_load(const char *device, attn_modules *modules) {
    for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++) {
        char path[MAX_PATH + 32];
        const attn_module *module = NULL;
        module_path(path, sizeof path, device, chapter);
        if (access(path, F_OK) != 0) continue;
        ATTN_TRY(load_module(path, &module));
        // A GPU may well be absent. The emulator refuses only what it was asked for, and says why.
        const attn_status opened = module->device->open();
        if (opened.code != ATTN_OK && is_gpu(device)) continue;
        ATTN_TRY(opened);
        ATTN_TRY(add_module(modules, module));
    }
    return attn_ok();
}

attn_status attn_device_usable(const char *device) {
    for (int chapter = 1; chapter <= MAX_CHAPTER; chapter++) {
        char path[MAX_PATH + 32];
        const attn_module *module = NULL;
        module_path(path, sizeof path, device, chapter);
        if (access(path, F_OK) != 0) continue;
        ATTN_TRY(load_module(path, &module));
        const attn_status opened = module->device->open();
        // Refused, not failed: nothing was run.
        return opened.code == ATTN_DEVICE ? attn_error(ATTN_UNSUPPORTED, "%s", opened.text)
                                          : opened;
    }
    return attn_error(ATTN_UNSUPPORTED, "no chapter is built for the device '%s' in %s", device,
                      attn_modules_folder());
}

const attn_loaded_stage *attn_find_stage(const attn_modules *modules, const char *name,
                                         const char *device) {
    for (int i = 0; i < modules->stage_count; i++) {
        const attn_loaded_stage *row = &modules->stage[i];
        if (strcmp(row->stage->name, name) == 0 &&
            (!device || strcmp(row->module->device->kind, device) == 0))
            return row;
    }
    return NULL;
}

const attn_loaded_stage *attn_find_yardstick(const attn_modules *modules, const char *device) {
    for (int i = 0; i < modules->stage_count; i++) {
        const attn_loaded_stage *row = &modules->stage[i];
        if (row->stage->yardstick && strcmp(row->module->device->kind, device) == 0) return row;
    }
    return NULL;
}

const attn_loaded_stage *attn_find_fallback(const attn_modules *modules,
                                            const attn_loaded_stage *wanted,
                                            const attn_problem *problem, attn_pass pass) {
    const attn_loaded_stage *anywhere = NULL;
    for (int i = modules->stage_count - 1; i >= 0; i--) {
        const attn_loaded_stage *row = &modules->stage[i];
        if (attn_stage_supports(row->stage, problem, pass).code != ATTN_OK) continue;
        if (strcmp(row->module->device->kind, wanted->module->device->kind) == 0) return row;
        if (!anywhere) anywhere = row;
    }
    return anywhere;
}
