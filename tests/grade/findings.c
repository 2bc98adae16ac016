// findings.c -- what the emulator's findings usually come from. A finding has its own hint: that a barrier is
// missing does not help the one who read device memory past the counter.
#include "tests/grade/grader.h"

#include <string.h>

const char *hint_of_finding(const exercise *e, const char *text) {
    if (strstr(text, "without hbm_load"))
        return "Device memory is read by hbm_load(&k[i]) and written by hbm_store(&o[i], x), which "
               "count the bytes: not by k[i] alone. Barriers have nothing to do with it.";
    if (strstr(text, "uninitialised shared memory")) return e->unwritten_hint;
    if (strstr(text, "device-memory race")) return e->block_race_hint;
    if (strstr(text, "shared-memory race")) return e->race_hint;
    if (strstr(text, "barrier divergence"))
        return "All threads of a block come to the same __syncthreads(), equally often: none "
               "stands "
               "in a branch that only some of them take.";
    if (strstr(text, "out-of-bounds"))
        return "An index lies beyond its array: that of a query, a key or a column that does not "
               "exist, perhaps.";
    return NULL;
}
