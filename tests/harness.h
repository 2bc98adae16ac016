// harness.h -- what the suites share with main.c: the options of this run, and how a test says that it
// was skipped.
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <check.h>

typedef struct test_options {
    int quick;          // 1: an answer within a minute, on fewer and smaller cases
    const char *device; // NULL: all that are built
    const char *suite;  // NULL: all
} test_options;
extern test_options test_run;

// Counts the running test as skipped, not as passed, and has the reason printed at the end. May be
// called before the tests run, too, for tests that will not be there. Return after it.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void test_skip(const char *what, const char *why_format, ...);

// Whether tests on the device are wanted in this run.
int test_wants_device(const char *device);

// Sanitizers make everything several times slower.
#if defined(__SANITIZE_ADDRESS__)
enum { TEST_SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { TEST_SANITIZED = 1 };
#else
enum { TEST_SANITIZED = 0 };
#endif
#else
enum { TEST_SANITIZED = 0 };
#endif

#endif
