// chapter.h -- what `attention chapter N` is made of: prove, measure, print.
#ifndef ATTN_CHAPTER_H
#define ATTN_CHAPTER_H

#include "cpu/cli/options.h"
#include "cpu/proof.h"

#include <stdio.h>

// The stages of one chapter on the devices in use, after the naive stage of each of these devices.
typedef struct attn_chapter {
    int number;
    const char *title, *predict;
    int host_device_used, other_devices_used;
    int count;
    const attn_loaded_stage *row[ATTN_MAX_STAGES];
} attn_chapter;

// A chapter's number as typed, or ATTN_BAD_INPUT with the sentence.
attn_status attn_chapter_number(const char *text, int *number);

int attn_chapter_owns(const attn_chapter *chapter, const attn_loaded_stage *row);

// ---- the proof (chapter_proof.c) ----
typedef struct attn_chapter_proof {
    int golden_passed, golden_failed, golden_skipped; // cases; skipped: no stage does it
    int golden_found;                                 // 0: tests/golden is not here
    int real_passed, real_failed, real_found;         // stages on the real input
    int hard_passed, hard_failed; // generated cases whose scores lie where mistakes show
    int checked_passed, checked_failed, checked_found; // stages in the check build
} attn_chapter_proof;

// Runs the chapter's stages on the golden cases, on the real input, and in the check build. What fails is
// described on standard error. A status other than ATTN_OK: it could not be tried at all.
attn_status attn_chapter_prove(const attn_modules *modules, const attn_chapter *chapter,
                               attn_chapter_proof *proof);

// ---- the measurement ----
typedef struct attn_measured {
    const attn_loaded_stage *row;
    attn_status status; // ATTN_OK, or why there is nothing to show
    int checked;        // 0: too large for the reference; run but not compared
    attn_proof proof;
    double peak_before, peak_after; // as attn_measurement.fma_peak, beside a stage on the host
} attn_measured;

typedef struct attn_measurement {
    attn_problem problem;
    double fma_peak; // GFLOP/s of this machine's FMA units, all threads; 0 when no host stage ran
    int count;
    attn_measured *stage; // [count]
    int failed;
    int own_tiles; // 1: BR or BC was asked for, and some stage has tiles of its own
    // On the host, and elsewhere: what takes the place of the chapter's stages where none of them can do
    // the problem, and why none can. NULL: some can, or nothing does it for them.
    const attn_loaded_stage *fallback[2];
    attn_status refused[2];
} attn_measurement;

// Its tables. A stage is on the host or on a device; the two are never in one table, and time stands only
// where a clock means something, never for the emulator.
int attn_is_on_host(const attn_measured *measured);
int attn_has_time(const attn_measured *measured);
int attn_pass_ran(const attn_measured *measured, attn_pass pass);
// "yes", "NO" or "not counted here": whether the bytes counted are the closed form's.
const char *attn_counted_text(const attn_measured *measured);

// Whose figures follow where none of the chapter's stages could do the problem.
void attn_print_fallbacks(FILE *file, const attn_chapter *chapter, const attn_measurement *m);
void attn_print_tables(const attn_chapter *chapter, const attn_measurement *measurement);
// The parts of it in files of their own: chapter_training.c, chapter_repeats.c, chapter_predictions.c.
void attn_print_training(const attn_chapter *chapter, const attn_measurement *m, int on_host);
void attn_print_repeats(const attn_measurement *measurement);
void attn_print_predictions(const attn_chapter *chapter, const attn_measurement *measurement);

void attn_print_chapter_csv(const attn_measurement *measurement); // chapter_csv.c

#endif
