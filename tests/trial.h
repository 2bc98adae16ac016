// trial.h -- a test case: a problem with a seeded input; running a stage on it, and saying what failed
// so that a person can run it again.
#ifndef TESTS_TRIAL_H
#define TESTS_TRIAL_H

#include "cpu/input.h"
#include "cpu/proof.h"

typedef struct test_case {
    attn_problem problem;
    attn_input_kind kind;
    uint64_t seed;
    const char *note; // what was done to the input besides; NULL: nothing
} test_case;

typedef struct test_input {
    float *q, *k, *v, *d_o, *bias; // shapes: problem.h; malloc'ed; NULL: the problem has none
    unsigned char *mask;
} test_input;

test_input test_input_make(const test_case *c);
test_input test_input_copy(const test_input *input, const attn_problem *problem);
void test_input_free(test_input *input);
attn_inputs test_inputs(const test_input *input);

// The case as one line, and the command that runs it again.
void test_case_describe(const test_case *c, const attn_loaded_stage *row, char *text, size_t size);

// Failures of one test, gathered over its cases.
typedef struct test_failures {
    int cases, refused, failed;
    size_t used;
    char text[2000];       // the first few
    char why_refused[480]; // the first one's
} test_failures;

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void test_failed(test_failures *failures, const attn_loaded_stage *row, const test_case *c,
                 const char *format, ...);

// Proves the stage on the case, whose input may have been changed. Notes a failure, or a refusal of
// what the stage does not do.
void test_prove(const attn_loaded_stage *row, const test_case *c, const test_input *input,
                const attn_case *expected, test_failures *failures);

// Runs the stage, forward and backward if it has one. 0 when it refuses or fails, which is noted.
int test_run_stage(const attn_loaded_stage *row, const test_case *c, const test_input *input,
                   attn_run *run, test_failures *failures);

// The result's array, NULL when it was not computed; and how many floats it has.
const float *test_output(const attn_run *run, attn_result result);
size_t test_output_elements(const attn_problem *problem, attn_result result);

// Ends the test: fails when a case failed; skips when the stage refused every one.
void test_verdict(const attn_loaded_stage *row, const char *family, const test_failures *failures);

#endif
