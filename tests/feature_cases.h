// feature_cases.h -- problems with chapter 6's features on, generated so that every two values of every
// two of them meet, with masks, grouped heads and lengths around tile sizes among them.
#ifndef TESTS_FEATURE_CASES_H
#define TESTS_FEATURE_CASES_H

#include "tests/trial.h"

enum { MAX_FEATURE_CASES = 200 };

// Returns how many. What is not in `does` (ATTN_HAS_...) is left away, so that any stage gets problems
// that it can do; bias and masks are, too, where they meet variable lengths.
int feature_cases_make(unsigned does, test_case cases[MAX_FEATURE_CASES]);

// What these cases are about: a stage that has none of it need not run them.
enum {
    FEATURES_BEYOND_SIZES = ATTN_HAS_STRIDES | ATTN_HAS_VARIABLE_LENGTHS | ATTN_HAS_DROPOUT |
                            ATTN_HAS_SOFTCAP | ATTN_HAS_ALIBI | ATTN_HAS_BIAS | ATTN_HAS_MASK
};

#endif
