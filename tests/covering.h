// covering.h -- which combinations to run, when all are far too many: a list in which every two levels
// of every two factors occur together at least once.
#ifndef TESTS_COVERING_H
#define TESTS_COVERING_H

#include <stdint.h>

enum { MAX_FACTORS = 12, MAX_LEVELS = 24 };

typedef struct covering {
    int factors, levels[MAX_FACTORS];
    uint64_t draw;
    unsigned char covered[MAX_FACTORS][MAX_LEVELS][MAX_FACTORS][MAX_LEVELS];
} covering;

covering *covering_begin(int factors, const int *levels); // free() it
// Fills at[MAX_FACTORS] with a level for each factor; 0 when all pairs have occurred. The same list in every run;
// its head covers the most new pairs a combination, so that a part of it is the best short list, too.
int covering_next(covering *c, int *at);

#endif
