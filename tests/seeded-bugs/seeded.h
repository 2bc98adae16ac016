// seeded.h -- kernels with one mistake each, and what the emulator must say of it.
//
// Each .cu file here has a table of cases. A case's mistake is on the line that ends in "// BUG name";
// the finding must name that line. tests/test_emulator.c runs every case in a process of its own.
#ifndef SEEDED_H
#define SEEDED_H

#include "gpu/gpu.h"

// Device memory that every case finds: a [2048] floats 0, 1, 2 ..., b [2048] floats 0, c [2048] floats
// that nothing has written.
typedef struct seeded_memory {
    float *a, *b, *c;
} seeded_memory;

typedef struct seeded_case {
    const char *name;
    attn_status (*run)(seeded_memory memory);
    // What the sentence must contain, in the plain emulator and under the checks. NULL: it must pass.
    const char *plain, *check;
    const char *report; // what the check device's report must contain; NULL: nothing in particular
    int no_line;        // the finding is not of a line: a launch, host code
} seeded_case;

typedef struct seeded_table {
    const seeded_case *cases;
    int count;
} seeded_table;

seeded_table seeded_memory_cases(void);  // memory.cu
seeded_table seeded_shared_cases(void);  // shared.cu
seeded_table seeded_threads_cases(void); // threads.cu
seeded_table seeded_copies_cases(void);  // copies.cu
seeded_table seeded_clean_cases(void);   // clean.cu
seeded_table seeded_l2_cases(void);      // l2.cu

#define SEEDED_TABLE(function, cases)                                          \
    seeded_table function(void) {                                              \
        seeded_table table = {cases, (int)(sizeof(cases) / sizeof(cases)[0])}; \
        return table;                                                          \
    }

#endif
