// main.cu -- runs seeded cases.
//
//   seeded list         name, then what must be found (plain, check, report), one a line, tab-separated
//   seeded run NAME     runs it; prints "found: <sentence>" or "passed", the bytes counted, the report
//   seeded dram NAME    the same from an empty L2 cache; prints what reached DRAM as well
#include "tests/seeded-bugs/seeded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static seeded_table table_at(int i) {
    switch (i) {
    case 0:
        return seeded_memory_cases();
    case 1:
        return seeded_shared_cases();
    case 2:
        return seeded_threads_cases();
    case 3:
        return seeded_copies_cases();
    case 4:
        return seeded_clean_cases();
    default:
        return seeded_l2_cases();
    }
}
enum { TABLES = 6, FLOATS = 2048 };

static const char *or_dash(const char *text) {
    return text ? text : "-";
}

static void list(void) {
    for (int t = 0; t < TABLES; t++)
        for (int i = 0; i < table_at(t).count; i++) {
            const seeded_case *c = &table_at(t).cases[i];
            printf("%s\t%s\t%s\t%s\t%d\n", c->name, or_dash(c->plain), or_dash(c->check),
                   or_dash(c->report), c->no_line);
        }
}

static attn_status run(const seeded_case *c, int with_dram) {
    const attn_device *device = gpu_device();
    static float zeros[FLOATS], numbers[FLOATS];
    for (int i = 0; i < FLOATS; i++) numbers[i] = (float)i;
    seeded_memory memory;
    ATTN_TRY(device->open());
    ATTN_TRY(device->allocate("a", sizeof numbers, (void **)&memory.a));
    ATTN_TRY(device->allocate("b", sizeof zeros, (void **)&memory.b));
    ATTN_TRY(device->allocate("c", sizeof zeros, (void **)&memory.c));
    ATTN_TRY(device->upload(memory.a, numbers, sizeof numbers));
    ATTN_TRY(device->upload(memory.b, zeros, sizeof zeros));
    if (device->reset_traffic) device->reset_traffic();
    if (with_dram) ATTN_TRY(device->empty_l2());
    ATTN_TRY(c->run(memory));
    return device->synchronize();
}

static int run_named(const char *name, int with_dram) {
    for (int t = 0; t < TABLES; t++)
        for (int i = 0; i < table_at(t).count; i++) {
            const seeded_case *c = &table_at(t).cases[i];
            if (strcmp(c->name, name) != 0) continue;
            const attn_device *device = gpu_device();
            attn_status status = run(c, with_dram);
            if (status.code == ATTN_OK)
                printf("passed\n");
            else
                printf("found: %s\n", status.text);
            attn_traffic traffic;
            memset(&traffic, 0, sizeof traffic);
            if (device->traffic) device->traffic(&traffic);
            for (int k = 0; k < traffic.count; k++)
                printf("bytes: %s %llu %llu\n", traffic.tensor[k].name,
                       (unsigned long long)traffic.tensor[k].read,
                       (unsigned long long)traffic.tensor[k].written);
            if (with_dram && device->dram) {
                attn_dram dram;
                device->dram(&dram);
                printf("dram: %llu read %llu written %llu left\n", (unsigned long long)dram.read,
                       (unsigned long long)dram.written, (unsigned long long)dram.left);
            }
            if (device->report) device->report(stdout);
            return attn_exit_status(status);
        }
    fprintf(stderr, "no case %s\n", name);
    return 3;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        list();
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "run") == 0) return run_named(argv[2], 0);
    if (argc == 3 && strcmp(argv[1], "dram") == 0) return run_named(argv[2], 1);
    fprintf(stderr, "usage: %s list | run NAME | dram NAME\n", argv[0]);
    return 3;
}
