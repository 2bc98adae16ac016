// program.h -- programs as a person uses them: run as processes, judged by what they print, by their exit
// status and by what they leave behind.
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <stddef.h>

typedef struct outcome {
    int status; // exit status, or -1 when a signal ended it
    char out[262144], err[16384];
} outcome;
extern outcome got; // of the last run

// Run a program with the arguments up to NULL, no shell between; `got` is what came of it.
void run(const char *first, ...); // build/attention
void run_command(const char *name, const char *first,
                 ...); // any on the PATH; status 127: not there

// ATTENTION_PROGRAM in the environment, or `attention` beside the tests.
const char *program(void);
// From here on the chapters are those of tests/fake, beside the first one: 9 gives dq not twice the same and
// does band masks and grouped heads, 10 does every feature, as plain.c.
void with_the_fake_chapters(void);
int is_built(const char *device); // whether there is a module for it

int says(const char *text, const char *words); // each of "a|b|c"
void expect(int status, const char *out_words, const char *err_words);
// Exit status 2, nothing on standard output, one line that says all the words.
void expect_refused(const char *words);
// More than `least_rows` lines of CSV were printed, all with as many fields as the first.
void expect_csv(int least_rows);

// The file's text, "" where it cannot be read.
void read_file(const char *path, char *text, size_t size);

#endif
