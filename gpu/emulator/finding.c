// finding.c -- a kernel's mistake becomes one sentence and ends the launch, not the process.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // dladdr
#endif
#include "gpu/emulator/runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// "file:line" of an instruction, by the system's own tool; 0 when it is missing or knows nothing.
static int look_up(const void *code, char *text, size_t size) {
    Dl_info module;
    char command[1200];
    if (!dladdr((void *)code, &module) || !module.dli_fname) return 0;
    const uintptr_t before = (uintptr_t)code - 1; // the call, not what it returns to
#if defined(__APPLE__)
    snprintf(command, sizeof command, "atos -o '%s' -l %p %#lx 2>/dev/null", module.dli_fname,
             module.dli_fbase, (unsigned long)before);
#else
    snprintf(command, sizeof command, "addr2line -e '%s' %#lx 2>/dev/null", module.dli_fname,
             (unsigned long)(before - (uintptr_t)module.dli_fbase));
#endif
    FILE *tool = popen(command, "r");
    if (!tool) return 0;
    char line[1000] = "";
    if (!fgets(line, sizeof line, tool)) line[0] = 0;
    pclose(tool);
#if defined(__APPLE__) // "kernel(float*) (in 01.so) (naive.cu:12)"
    char *start = strrchr(line, '(');
    start = start ? start + 1 : line;
    start[strcspn(start, ")\n")] = 0;
#else // "/home/me/attention/chapters/01-naive/naive.cu:12 (discriminator 3)"
    char *start = line;
    start[strcspn(start, " \n")] = 0;
#endif
    if (strncmp(start, "??", 2) == 0 || !strchr(start, ':') || strstr(start, ":?")) return 0;
    // A path in the working directory reads better from there.
    char here[1000];
    const size_t length = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (length && strncmp(start, here, length) == 0 && start[length] == '/') start += length + 1;
    if (strncmp(start, "./", 2) == 0) start += 2;
    snprintf(text, size, "%s", start);
    return 1;
}

void emu_site_describe(emu_site site, const char *otherwise, char *text, size_t size) {
    if (site.code && look_up(site.code, text, size)) return;
    if (site.text)
        snprintf(text, size, "%s", site.text);
    else if (otherwise)
        snprintf(text, size, "a place soon after %s", otherwise);
    else
        snprintf(text, size, "an unknown place before the first mark");
}

void emu_finding(emu_site site, const char *format, ...) {
    emu_thread *thread = emu_current();
    emu_block *block = thread->block;
    emu_launch_state *launch = block->launch;
    char what[300], where[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lock);
    // Of several blocks' findings the lowest block's is kept: the sentence hardly depends on timing.
    if (!launch->failed || block->index < launch->finding_at) {
        emu_site_describe(site, thread->site, where, sizeof where);
        const emu_place *p = &thread->place;
        launch->status =
            attn_error(ATTN_DEVICE, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u): %s, at %s",
                       launch->kernel, p->block.x, p->block.y, p->block.z, p->thread.x, p->thread.y,
                       p->thread.z, what, where);
        launch->finding_at = block->index;
        __atomic_store_n(&launch->failed, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    emu_here = NULL;
    emu_fiber_leave(&thread->fiber, &block->home);
}

enum { MAX_WARNINGS = 32 };
static struct { char kernel[64], site[160], text[160]; } warnings[MAX_WARNINGS];
static int warning_count;

void emu_warning(const char *site, const char *text) {
    const char *kernel = emu_current()->block->launch->kernel;
    pthread_mutex_lock(&lock);
    int known = 0;
    for (int i = 0; i < warning_count; i++)
        known |= strcmp(warnings[i].site, site) == 0 && strcmp(warnings[i].text, text) == 0 &&
                 strncmp(warnings[i].kernel, kernel, sizeof warnings[i].kernel - 1) == 0;
    if (!known && warning_count < MAX_WARNINGS) {
        snprintf(warnings[warning_count].kernel, sizeof warnings[0].kernel, "%s", kernel);
        snprintf(warnings[warning_count].site, sizeof warnings[0].site, "%s", site);
        snprintf(warnings[warning_count].text, sizeof warnings[0].text, "%s", text);
        warning_count++;
    }
    pthread_mutex_unlock(&lock);
}

void emu_warnings_print(FILE *file) {
    for (int i = 0; i < warning_count; i++)
        fprintf(file, "warning: kernel %s: %s, at %s\n", warnings[i].kernel, warnings[i].text,
                warnings[i].site);
}
