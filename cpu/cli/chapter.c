// chapter.c -- attention chapter N: proves the chapter's stages, measures them, says PASS or FAIL.
#include "cpu/cli/chapter.h"
#include "cpu/cli/commands.h"
#include "cpu/cli/features.h"
#include "cpu/cli/recorded.h"
#include "cpu/fma_probe.h"
#include "cpu/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

// Above this the double-precision reference takes minutes: the results are then not compared.
static const double REFERENCE_FLOPS = 3e11;

int attn_chapter_owns(const attn_chapter *chapter, const attn_loaded_stage *row) {
    return row->module->chapter == chapter->number;
}

attn_status attn_chapter_number(const char *text, int *number) {
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (end == text || *end || value < 1 || value > 99)
        return attn_error(ATTN_BAD_INPUT, "the chapter is '%s'; it must be a number from 1 to 99",
                          text);
    *number = (int)value;
    return attn_ok();
}

// A GPU makes the emulator superfluous, unless it is asked for.
static int is_in_use(const attn_modules *modules, const attn_options *o, const char *kind) {
    if (o->device) return strcmp(o->device, kind) == 0;
    if (strcmp(kind, "emulator") != 0) return 1;
    return attn_find_yardstick(modules, "gpu") == NULL;
}

// Whether the chapter has a module for any device at all.
static int is_built_elsewhere(int chapter) {
    for (int i = 0; attn_device_kinds[i]; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s/%02d.so", attn_modules_folder(), attn_device_kinds[i],
                 chapter);
        if (access(path, F_OK) == 0) return 1;
    }
    return 0;
}

static attn_status collect(const attn_modules *modules, const attn_options *o,
                           attn_chapter *chapter) {
    memset(chapter, 0, sizeof *chapter);
    ATTN_TRY(attn_chapter_number(o->operand, &chapter->number));
    for (int i = 0; i < modules->stage_count; i++) {
        const attn_loaded_stage *row = &modules->stage[i];
        if (!attn_chapter_owns(chapter, row)) continue;
        chapter->title = row->module->title, chapter->predict = row->module->predict;
        if (!is_in_use(modules, o, row->module->device->kind)) continue;
        if (strcmp(row->module->device->kind, "host") == 0)
            chapter->host_device_used = 1;
        else
            chapter->other_devices_used = 1;
    }
    for (int i = 0; i < modules->stage_count; i++) {
        const attn_loaded_stage *row = &modules->stage[i];
        const int host = strcmp(row->module->device->kind, "host") == 0;
        const int device_shown = host ? chapter->host_device_used : chapter->other_devices_used;
        if ((attn_chapter_owns(chapter, row) || (row->stage->yardstick && device_shown)) &&
            is_in_use(modules, o, row->module->device->kind))
            chapter->row[chapter->count++] = row;
    }
    if (!chapter->title && o->device && is_built_elsewhere(chapter->number))
        return attn_error(ATTN_UNSUPPORTED, "chapter %d has no stage on the device %s",
                          chapter->number, o->device);
    if (!chapter->title)
        return attn_error(
            ATTN_BAD_INPUT,
            "chapter %d is not built, or there is none; attention list has all stages, "
            "make chapter%d builds it",
            chapter->number, chapter->number);
    if (!chapter->host_device_used && !chapter->other_devices_used)
        return attn_error(ATTN_UNSUPPORTED, "chapter %d has no stage on the device %s",
                          chapter->number, o->device);
    return attn_ok();
}

// ---- the input to measure on ----
typedef struct input {
    attn_case loaded; // its arrays hold the input either way
    int has_backward;
} input;

static attn_status load_input(const attn_options *o, input *in) {
    const attn_problem *knobs = &o->problem;
    if (o->sizes_given)
        return attn_error(ATTN_BAD_INPUT,
                          "INPUT=%s brings its own sizes: leave N, QLEN, KVLEN, BATCH, "
                          "HEADS, KVHEADS and DIM away",
                          o->input_folder);
    if (attn_problem_features(knobs) & (ATTN_HAS_BIAS | ATTN_HAS_MASK | ATTN_HAS_STRIDES))
        return attn_error(ATTN_BAD_INPUT,
                          "INPUT=%s brings its own tensors: leave BIAS, MASK and LAYOUT away",
                          o->input_folder);
    ATTN_TRY(attn_case_load(o->input_folder, &in->loaded));
    attn_problem *p = &in->loaded.problem;
    if (knobs->causal) p->causal = knobs->causal;
    if (knobs->window_left) p->window_left = knobs->window_left;
    if (knobs->window_right) p->window_right = knobs->window_right;
    if (knobs->softcap != 0) p->softcap = knobs->softcap;
    if (knobs->alibi) p->alibi = knobs->alibi;
    if (knobs->dropout != 0) p->dropout = knobs->dropout, p->dropout_seed = knobs->dropout_seed;
    p->br = knobs->br, p->bc = knobs->bc;
    return attn_ok();
}

static attn_status random_input(const attn_options *o, const attn_chapter *chapter, input *in) {
    const attn_problem *p = &o->problem;
    const size_t q = attn_q_elements(p), kv = attn_kv_elements(p);
    int backward = 0;
    for (int i = 0; i < chapter->count; i++)
        if (attn_chapter_owns(chapter, chapter->row[i]) && chapter->row[i]->stage->backward)
            backward = 1;
    const uint64_t available = attn_host_device()->free_bytes();
    const double need = 4.0 * ((backward ? 2.0 : 1.0) * (double)q + 2.0 * (double)kv) +
                        4.0 * (double)attn_bias_elements(p) + (double)attn_mask_elements(p);
    char wanted[32], there[32];
    attn_bytes_text(need, wanted, sizeof wanted);
    attn_bytes_text((double)available, there, sizeof there);
    if (available != 0 && need > (double)available)
        return attn_error(
            ATTN_NO_MEMORY,
            "q, k and v need %s, but %s are free; try a smaller N, batch or number of heads",
            wanted, there);
    return attn_case_random(p, o->input, o->seed, backward, &in->loaded);
}

// Asked before anything is filled or proved: a problem too large for all of the chapter's stages.
static attn_status check_memory(const attn_chapter *chapter, const attn_problem *problem) {
    attn_status first = attn_ok();
    for (int i = 0; i < chapter->count; i++) {
        const attn_loaded_stage *row = chapter->row[i];
        if (!attn_chapter_owns(chapter, row)) continue;
        const attn_status fits = attn_run_fits(row, problem, row->stage->backward != NULL);
        if (fits.code == ATTN_OK) return fits;
        if (first.code == ATTN_OK) first = fits;
    }
    return first;
}

// ---- measuring ----
static int threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

// Without a reference (`trial` NULL) there is no verdict: the stage is run for its bytes and its time.
static attn_status run_one(const attn_loaded_stage *row, const attn_problem *problem,
                           const attn_inputs *inputs, const attn_trial *trial,
                           const attn_options *o, attn_proof *proof) {
    attn_inputs wanted = *inputs;
    memset(proof, 0, sizeof *proof);
    if (!row->stage->backward) wanted.d_o = NULL;
    const int repeats = o->repeats_given ? 1 : o->repeats;
    ATTN_TRY(trial ? attn_prove(row, trial, repeats, proof)
                   : attn_run_stage(row, problem, &wanted, repeats, &proof->run));
    if (!o->repeats_given) return attn_ok();
    // Many runs, compared with each other, take the place of the one.
    attn_run_free(&proof->run);
    return attn_run_repeated(row, problem, &wanted, o->repeats, &proof->run);
}

// The best of several probes, beside the stages they are held against: a busy machine slows both.
static double probe_peak(attn_measurement *m) {
    double best = 0;
    for (int i = 0; i < 3; i++) {
        const double peak = attn_fma_probe(threads());
        if (peak > best) best = peak;
    }
    if (best > m->fma_peak) m->fma_peak = best;
    return best;
}

static int is_failed(const attn_measured *stage) {
    if (stage->status.code == ATTN_OK) return stage->checked && !stage->proof.pass;
    return stage->status.code == ATTN_DEVICE;
}

// Runs the stage on the trial's problem and adds what came of it to `m`.
static void measure_one(const attn_loaded_stage *row, const attn_inputs *inputs, attn_trial *trial,
                        int checked, const attn_options *o, attn_measurement *m) {
    attn_measured *stage = &m->stage[m->count++];
    stage->row = row, stage->checked = checked;
    // Tile sizes are for those stages that let them be chosen; the others run beside them as ever.
    trial->problem = m->problem;
    if (!(row->stage->features & ATTN_HAS_TILE_SIZES)) {
        m->own_tiles |= m->problem.br || m->problem.bc;
        trial->problem.br = trial->problem.bc = 0;
    }
    if (attn_is_on_host(stage)) stage->peak_before = probe_peak(m);
    stage->status = run_one(row, &trial->problem, inputs, checked ? trial : NULL, o, &stage->proof);
    if (attn_is_on_host(stage)) stage->peak_after = probe_peak(m);
    if (is_failed(stage)) m->failed++;
}

// The chapter's first stage on the host, or elsewhere, when none of them there can do the problem.
static const attn_measured *first_of_none(const attn_chapter *chapter, const attn_measurement *m,
                                          int elsewhere) {
    const attn_measured *first = NULL;
    for (int i = 0; i < m->count; i++) {
        const attn_measured *stage = &m->stage[i];
        if (!attn_chapter_owns(chapter, stage->row) || attn_is_on_host(stage) == elsewhere)
            continue;
        if (stage->status.code != ATTN_UNSUPPORTED) return NULL;
        if (!first) first = stage;
    }
    return first;
}

// Not for tiles, which are no part of the answer, and not where the chapter's stages did not even do the cases
// of their proof, on a GPU that is too small say.
static int may_fall_back(const attn_options *o, const attn_chapter_proof *proof,
                         const attn_problem *problem) {
    return !o->no_fallback && problem->br == 0 && problem->bc == 0 &&
           proof->golden_passed + proof->real_passed > 0;
}

static void fall_back(const attn_modules *modules, const attn_chapter *chapter,
                      const attn_inputs *inputs, attn_trial *trial, int checked,
                      const attn_options *o, attn_measurement *m) {
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        const attn_measured *refused = first_of_none(chapter, m, elsewhere);
        if (!refused) continue;
        const attn_loaded_stage *row =
            attn_find_fallback(modules, refused->row, &m->problem,
                               refused->row->stage->backward ? ATTN_BACKWARD : ATTN_FORWARD);
        if (!row) continue;
        m->fallback[elsewhere] = row, m->refused[elsewhere] = refused->status;
        int shown = 0; // as the yardstick, or in the place of the host's stages
        for (int i = 0; i < m->count; i++) shown |= m->stage[i].row == row;
        if (!shown) measure_one(row, inputs, trial, checked, o, m);
    }
}

static attn_status measure(const attn_modules *modules, const attn_chapter *chapter,
                           const attn_chapter_proof *proof, const attn_options *o, const input *in,
                           attn_measurement *m) {
    const attn_problem *problem = &in->loaded.problem;
    const attn_inputs inputs = attn_case_inputs(&in->loaded);
    const double flops = 4.0 * (double)problem->head_dim * (double)attn_score_elements(problem);
    const int checked = flops <= REFERENCE_FLOPS;
    attn_trial trial;
    memset(m, 0, sizeof *m);
    m->problem = *problem;
    m->stage = calloc((size_t)chapter->count + 2, sizeof *m->stage);
    if (!m->stage) return attn_error(ATTN_NO_MEMORY, "no memory for the results");
    if (checked) ATTN_TRY(attn_trial_begin(modules, problem, &inputs, NULL, &trial));
    for (int i = 0; i < chapter->count; i++)
        measure_one(chapter->row[i], &inputs, &trial, checked, o, m);
    if (may_fall_back(o, proof, problem))
        fall_back(modules, chapter, &inputs, &trial, checked, o, m);
    if (checked) attn_trial_free(&trial);
    return attn_ok();
}

static void free_measurement(attn_measurement *m) {
    for (int i = 0; i < m->count; i++) attn_proof_free(&m->stage[i].proof);
    free(m->stage);
}

// What the chapter's own stages could not do, when none of them could do it and no other did it for them:
// there is then nothing to show.
static attn_status all_refused(const attn_chapter *chapter, const attn_chapter_proof *proof,
                               const attn_options *o, const attn_measurement *m) {
    attn_status first = attn_ok();
    if (m->fallback[0] || m->fallback[1]) return first;
    for (int i = 0; i < m->count; i++) {
        if (!attn_chapter_owns(chapter, m->stage[i].row)) continue;
        if (m->stage[i].status.code == ATTN_OK || m->stage[i].status.code == ATTN_DEVICE)
            return attn_ok();
        if (first.code == ATTN_OK) first = m->stage[i].status;
    }
    if (first.code == ATTN_UNSUPPORTED && may_fall_back(o, proof, &m->problem))
        return attn_error(ATTN_UNSUPPORTED,
                          "%s, nor does any stage that is built; make build builds all",
                          first.text);
    return first;
}

// What each feature costs, on the host and elsewhere, where the chapter has a stage that does them all.
static attn_status print_features(const attn_modules *modules, const attn_chapter *chapter,
                                  const attn_options *o, attn_measurement *m) {
    enum { ROUNDS = 3 };
    const char *shown = "";
    for (int i = 0; i < chapter->count; i++) {
        const char *kind = chapter->row[i]->module->device->kind;
        if (!attn_chapter_owns(chapter, chapter->row[i])) continue;
        const attn_loaded_stage *row = attn_find_featured(modules, chapter->number, kind);
        if (!row || strcmp(kind, shown) == 0) continue;
        ATTN_TRY(attn_print_features(modules, row, o, ROUNDS, &m->failed));
        shown = kind;
    }
    return attn_ok();
}

// ---- the verdict ----
static int count_failures(const attn_chapter_proof *proof, const attn_measurement *m) {
    return proof->golden_failed + proof->real_failed + proof->hard_failed + proof->checked_failed +
           m->failed;
}

// " naive on host, o at batch 0, head 1, row 5": the worst element of each result that is wrong.
static void print_failed_stage(const attn_measured *stage) {
    printf(" %s on %s", stage->row->stage->name, stage->row->module->device->kind);
    if (stage->status.code != ATTN_OK) printf(" (%s)", stage->status.text);
    for (int r = 0; r < ATTN_RESULTS && stage->status.code == ATTN_OK; r++) {
        const attn_comparison *c = &stage->proof.comparison[r];
        if (stage->proof.compared[r] && !c->pass)
            printf(", %s at batch %lld, head %lld, row %lld", attn_result_name((attn_result)r),
                   (long long)c->index[0], (long long)c->index[1], (long long)c->index[2]);
    }
    if (stage->proof.bytes_compared && !stage->proof.bytes_equal)
        printf(", bytes counted that are not the closed form's");
    printf(";");
}

static void print_failed(const attn_measurement *m) {
    int stages = 0;
    printf("the measured problem:");
    for (int i = 0; i < m->count; i++)
        if (is_failed(&m->stage[i])) print_failed_stage(&m->stage[i]), stages++;
    if (m->failed > stages) printf(" %d rows of the features' table;", m->failed - stages);
    printf(" passed were: ");
}

static int print_verdict(const attn_chapter *chapter, const attn_chapter_proof *proof,
                         const attn_measurement *m) {
    const int golden = proof->golden_passed + proof->golden_failed + proof->golden_skipped;
    const int proved = proof->golden_passed + proof->real_passed;
    const int pass = count_failures(proof, m) == 0 && proved > 0;
    printf("\n%s  ", pass ? "PASS" : "FAIL");
    if (m->failed) print_failed(m);
    if (proof->golden_found)
        printf("%d of %d golden cases", proof->golden_passed, golden);
    else
        printf("golden cases not run: no tests/golden here");
    if (proof->golden_skipped) printf(" (%d not done by these stages)", proof->golden_skipped);
    printf(", %s", !proof->real_found       ? "real input not run: no tests/real-input here"
                   : proof->real_failed     ? "real input FAILED"
                   : proof->real_passed > 0 ? "real input"
                                            : "real input not done by these stages");
    printf(", %d of %d inputs of odd scores", proof->hard_passed,
           proof->hard_passed + proof->hard_failed);
    if (proof->checked_found && proof->checked_failed == 0)
        printf(", check build clean (races, bounds, uninitialised reads)");
    else if (proof->checked_found)
        printf(", check build FAILED");
    if (m->count > 0 && !m->stage[0].checked)
        printf("; the measured problem was not compared: the reference would take minutes");
    printf("\n");
    if (pass && chapter->predict) printf("Predict, then run: %s\n", chapter->predict);
    return pass ? 0 : 1;
}

static void print_title(const attn_chapter *chapter, const attn_problem *problem) {
    char text[200];
    attn_problem_describe(problem, text, sizeof text);
    printf("Chapter %d: %s\n%s\n", chapter->number, chapter->title, text);
    fflush(stdout); // the rest takes seconds
}

static attn_status chapter(const attn_options *o, int *exit_status) {
    static attn_modules modules;
    static attn_chapter chapter;
    attn_chapter_proof proof;
    attn_measurement m = {.stage = NULL};
    input in;
    memset(&in, 0, sizeof in);
    ATTN_TRY(attn_load_devices(o->device, &modules));
    ATTN_TRY(collect(&modules, o, &chapter));
    if (!o->input_folder) ATTN_TRY(check_memory(&chapter, &o->problem));
    attn_status status = o->input_folder ? load_input(o, &in) : random_input(o, &chapter, &in);
    if (status.code == ATTN_OK) status = attn_problem_check(&in.loaded.problem);
    if (status.code == ATTN_OK && !o->csv) print_title(&chapter, &in.loaded.problem);
    // Proof before measurement: a fast wrong answer is not worth a table.
    if (status.code == ATTN_OK) status = attn_chapter_prove(&modules, &chapter, &proof);
    if (status.code == ATTN_OK) status = measure(&modules, &chapter, &proof, o, &in, &m);
    if (status.code == ATTN_OK) status = all_refused(&chapter, &proof, o, &m);
    if (status.code == ATTN_OK) {
        attn_print_fallbacks(o->csv ? stderr : stdout, &chapter, &m);
        if (o->csv) {
            attn_print_chapter_csv(&m);
        } else {
            attn_print_tables(&chapter, &m);
            if (!o->input_folder) status = print_features(&modules, &chapter, o, &m);
            attn_print_recorded(&chapter, &m.problem);
        }
    }
    if (status.code == ATTN_OK)
        *exit_status =
            o->csv ? count_failures(&proof, &m) > 0 : print_verdict(&chapter, &proof, &m);
    free_measurement(&m);
    attn_case_free(&in.loaded);
    return status;
}

int attn_command_chapter(const attn_options *options) {
    int exit_status = 0;
    const attn_status status = chapter(options, &exit_status);
    return status.code == ATTN_OK ? exit_status : attn_complain(status);
}
