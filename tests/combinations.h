// combinations.h -- which cases to run, when all combinations of all sizes are far too many: a list in
// which every two values of every two factors occur together at least once.
#ifndef TESTS_COMBINATIONS_H
#define TESTS_COMBINATIONS_H

#include "tests/trial.h"

enum { MAX_COMBINATIONS = 1024 };

// Lengths, head dimensions, heads, masks, scales and kinds of input; the same list in every run. Its
// head covers the most new pairs a case, so that a part of it is the best short list, too. Returns how
// many, fewer than MAX_COMBINATIONS.
int combinations_make(test_case cases[MAX_COMBINATIONS]);

#endif
