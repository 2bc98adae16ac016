// grader.h -- build/grader: runs a learner's answer to an exercise on the shared cases, and says what is
// wrong, where, and which of the usual mistakes gives such numbers.
//
// An answer is built as a module of its own (grade.mk) and proved like any stage (cpu/proof.h): O, L and
// the gradients against the double-precision reference, bytes against the closed form, and races by the
// check build. A usual mistake is recognised by its effect: the grader computes what the mistaken formula
// gives on every case, and compares that with what the answer gave.
#ifndef GRADER_H
#define GRADER_H

#include "cpu/proof.h"

// ---- an exercise ----
// What a mistaken formula gives, in double precision; shapes as in cpu/problem.h. A result that the mistake
// says nothing about is NULL.
typedef struct imitation {
    double *result[ATTN_RESULTS];
} imitation;

typedef struct mistake {
    int id;           // for imitate
    unsigned results; // bits, 1 << ATTN_RESULT_...: those that are compared
    const char *hint;
} mistake;

typedef struct exercise exercise;
struct exercise {
    int number;                 // of its chapter
    const char *title, *device; // device NULL: no exercise, a chapter with a bug
    int br, bc;                 // queries and keys a tile, to name places; 0: not in tiles
    int counts_naive;           // 1: the answer is a formula
    int causal;                 // 1: its cases have the causal mask
    const mistake *mistakes;    // hint NULL at the end
    // Fills the results of *out that are there.
    void (*imitate)(const exercise *, const attn_trial *, int mistake, imitation *out);
    // What a finding of the emulator usually comes from; NULL: it says all, or is not made.
    const char *race_hint;       // two threads of a block, one of which writes
    const char *block_race_hint; // likewise, of two blocks
    const char *unwritten_hint;  // shared memory that nobody has written is read
    const char *byte_hint;       // what a count above the closed form usually comes from
};

// In the order of chapters; NULL when there is no such number.
const exercise *exercise_of(int number);

extern const mistake online_mistakes[], tile_mistakes[], band_mistakes[], merge_mistakes[],
    gradient_mistakes[];
void imitate_forward(const exercise *, const attn_trial *, int mistake, imitation *out);
void imitate_merge(const exercise *, const attn_trial *, int mistake, imitation *out);
void imitate_gradients(const exercise *, const attn_trial *, int mistake, imitation *out);

// ---- its cases ----
enum { GRADE_MAX_CASES = 64 };

// In the order in which mistakes are looked for.
typedef enum grade_planted {
    GRADE_NOTHING,
    GRADE_NAN_IN_K,
    GRADE_NAN_IN_V,
    GRADE_MINUS_INFINITY,
} grade_planted;

typedef struct grade_case {
    char name[160]; // knobs of `make chapterN`, or a folder
    attn_case data;
    attn_trial trial;
    attn_proof proof;
    attn_status status; // of the run
    grade_planted planted;
    int tried, pass;
    int asks_too_much;  // of device memory, and that is all that is wrong
    char failure[2000]; // sentences
} grade_case;

// Fills cases[] with what the stage does; returns how many. The seed changes the random input of all, and
// the sizes of the last ones.
int grade_cases(const exercise *e, const attn_modules *host, const attn_stage *stage, uint64_t seed,
                grade_case cases[GRADE_MAX_CASES], attn_status *status);
void grade_cases_free(grade_case *cases, int count);

// ---- the verdict ----
// What is wrong in a case that failed, and where.
void describe_failure(const exercise *e, const attn_loaded_stage *row, grade_case *c);

// The mistake that gives what the answer gave, in every case that was tried; NULL: none of the usual. Planted
// numbers count only where the cases before them pass: most answers have no guard against them while they
// are wrong elsewhere, and that would be two mistakes at once.
const mistake *recognise(const exercise *e, const grade_case *cases, int count);

// What a finding of the emulator or the check build usually comes from; NULL: its text says it.
const char *hint_of_finding(const exercise *e, const char *text);

// Exercise 1, whose answer is a formula. Counts naive's bytes in a case; says in the first case that fails
// which tensor is wrong, and returns the hint, or NULL.
attn_status count_naive(const attn_loaded_stage *naive, const attn_stage *formula, grade_case *c);
const char *recognise_bytes(const attn_stage *formula, grade_case *cases, int count);

// The stages of a chapter that has a bug planted: prints what fails, by how much, and where. *caught: whether
// anything did. now [size]: what is being tried.
attn_status meet_bug(int number, const attn_modules *project, const attn_modules *broken, char *now,
                     size_t size, int *caught);

// Writes the cases as a JUnit file. `broken` when not NULL: why there are no more of them.
attn_status write_junit(const char *path, const exercise *e, const grade_case *cases, int count,
                        const char *broken);

#endif
