// test_command_line.h -- build/attention, by what a person does with it; test_command_line.c has the suite.
#ifndef TESTS_TEST_COMMAND_LINE_H
#define TESTS_TEST_COMMAND_LINE_H

#include <check.h>

// Each file's tests.
TCase *typing_tests(void); // test_command_line.c: help, mistakes, lists
TCase *bytes_tests(void);  // test_command_line_bytes.c: traffic, pass, tiles
TCase *cases_tests(void);  // test_command_line_cases.c: run and check, on folders good and bad
TCase *
chapter_tests(void); // test_command_line_chapter.c: what a chapter prints, and when it is broken
TCase *scenarios_tests(void); // test_command_line_scenarios.c
TCase *training_tests(void);  // test_command_line_training.c: forward and backward together, REPEAT

#endif
