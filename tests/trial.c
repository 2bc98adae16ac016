// trial.c -- see trial.h.
#include "tests/trial.h"
#include "tests/harness.h"
#include "tests/stage_rows.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- inputs --------------------------------------------------------------------------------------------
static float *floats(size_t count) {
    float *memory = malloc(sizeof(float) * count + 1); // + 1: an empty tensor is not NULL
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static test_input allocate(const attn_problem *p) {
    const size_t q = attn_q_elements(p), kv = attn_kv_elements(p);
    test_input input = {floats(q), floats(kv), floats(kv), floats(q), NULL, NULL};
    if (p->bias_heads != 0) input.bias = floats(attn_bias_elements(p));
    if (p->mask_heads != 0) input.mask = (unsigned char *)floats(attn_mask_elements(p) / 4 + 1);
    return input;
}

test_input test_input_make(const test_case *c) {
    test_input input = allocate(&c->problem);
    attn_input_fill(c->kind, c->seed, &c->problem, input.q, input.k, input.v, input.d_o);
    attn_input_fill_scores(c->seed, &c->problem, input.bias, input.mask);
    return input;
}

test_input test_input_copy(const test_input *from, const attn_problem *problem) {
    const size_t q = attn_q_elements(problem), kv = attn_kv_elements(problem);
    test_input to = allocate(problem);
    memcpy(to.q, from->q, 4 * q);
    memcpy(to.k, from->k, 4 * kv);
    memcpy(to.v, from->v, 4 * kv);
    memcpy(to.d_o, from->d_o, 4 * q);
    if (to.bias) memcpy(to.bias, from->bias, 4 * attn_bias_elements(problem));
    if (to.mask) memcpy(to.mask, from->mask, attn_mask_elements(problem));
    return to;
}

void test_input_free(test_input *input) {
    free(input->q);
    free(input->k);
    free(input->v);
    free(input->d_o);
    free(input->bias);
    free(input->mask);
    memset(input, 0, sizeof *input);
}

attn_inputs test_inputs(const test_input *input) {
    return (attn_inputs){input->q, input->k, input->v, input->d_o, input->bias, input->mask};
}

// ---- saying what it was --------------------------------------------------------------------------------
static void add(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

void test_case_describe(const test_case *c, const attn_loaded_stage *row, char *text, size_t size) {
    const attn_problem *p = &c->problem;
    char problem[200], knobs[400];
    snprintf(knobs, sizeof knobs,
             "--qlen %lld --kvlen %lld --batch %lld --heads %lld --kvheads %lld --dim %lld "
             "--scale %.9g --kind %s --seed %llu",
             (long long)p->q_len, (long long)p->kv_len, (long long)p->batch, (long long)p->heads,
             (long long)p->kv_heads, (long long)p->head_dim, p->scale, attn_input_name(c->kind),
             (unsigned long long)c->seed);
    if (p->causal == ATTN_CAUSAL_BOTTOM_RIGHT) add(knobs, sizeof knobs, " --causal 1");
    if (p->window_left > 0) add(knobs, sizeof knobs, " --window %lld", (long long)p->window_left);
    if (p->br > 0) add(knobs, sizeof knobs, " --br %lld", (long long)p->br);
    if (p->bc > 0) add(knobs, sizeof knobs, " --bc %lld", (long long)p->bc);
    if (p->causal == ATTN_CAUSAL_TOP_LEFT) add(knobs, sizeof knobs, " --causal 1 --align top-left");
    if (p->window_right > 0)
        add(knobs, sizeof knobs, " --window-right %lld", (long long)p->window_right);
    if (p->softcap > 0) add(knobs, sizeof knobs, " --softcap %.9g", p->softcap);
    if (p->alibi) add(knobs, sizeof knobs, " --alibi 1");
    if (p->bias_gradient) add(knobs, sizeof knobs, " --dbias 1");
    if (p->bias_heads != 0)
        add(knobs, sizeof knobs, " --bias %s", p->bias_heads == p->heads ? "each" : "one");
    if (p->mask_heads != 0)
        add(knobs, sizeof knobs, " --mask %s", p->mask_heads == p->heads ? "each" : "one");
    if (p->dropout != 0) add(knobs, sizeof knobs, " --dropout %.9g", p->dropout);
    // What knobs can say of the following is less than what a problem can.
    const int more = p->sequences != 0 || p->bias_heads != 0 || p->mask_heads != 0 ||
                     p->dropout != 0 || attn_problem_features(p) & ATTN_HAS_STRIDES || c->note;
    attn_problem_describe(p, problem, sizeof problem);
    snprintf(text, size, "%s on %s, %s%s%s: attention chapter %d --device %s %s%s",
             row->stage->name, row->module->device->kind, problem, c->note ? ", " : "",
             c->note ? c->note : "", row->module->chapter, row->module->device->kind, knobs,
             more ? " (and what knobs do not say)" : "");
}

void test_failed(test_failures *failures, const attn_loaded_stage *row, const test_case *c,
                 const char *format, ...) {
    char where[800], what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    failures->failed++;
    test_case_describe(c, row, where, sizeof where);
    if (failures->used < sizeof failures->text)
        failures->used += (size_t)snprintf(failures->text + failures->used,
                                           sizeof failures->text - failures->used,
                                           "\n    %s\n        %s", where, what);
}

// ---- running -------------------------------------------------------------------------------------------
// 1 when the status is none to go on with; it has then been noted.
static int ends_here(attn_status status, const attn_loaded_stage *row, const test_case *c,
                     test_failures *failures) {
    if (status.code == ATTN_OK) return 0;
    if (status.code != ATTN_UNSUPPORTED) {
        test_failed(failures, row, c, "%s", status.text);
    } else if (failures->refused++ == 0) {
        snprintf(failures->why_refused, sizeof failures->why_refused, "%s", status.text);
    }
    return 1;
}

static void note_proof(const attn_proof *proof, const attn_loaded_stage *row, const test_case *c,
                       test_failures *failures) {
    if (proof->pass) return;
    char text[400] = "";
    for (int r = 0; r < ATTN_RESULTS; r++) {
        if (!proof->compared[r] || proof->comparison[r].pass) continue;
        attn_comparison_describe(&proof->comparison[r], text, sizeof text);
        break; // the others follow from it, mostly
    }
    if (!text[0]) snprintf(text, sizeof text, "the bytes counted differ from the closed form");
    test_failed(failures, row, c, "%s", text);
}

void test_prove(const attn_loaded_stage *row, const test_case *c, const test_input *input,
                const attn_case *expected, test_failures *failures) {
    const attn_inputs inputs = test_inputs(input);
    attn_trial trial;
    attn_proof proof;
    failures->cases++;
    // Asked first, since the reference may take longer than the stage.
    if (ends_here(attn_stage_supports(row->stage, &c->problem, ATTN_FORWARD), row, c, failures))
        return;
    if (ends_here(attn_trial_begin(stage_modules(), &c->problem, &inputs, expected, &trial), row, c,
                  failures))
        return;
    if (!ends_here(attn_prove(row, &trial, 1, &proof), row, c, failures)) {
        note_proof(&proof, row, c, failures);
        if (!proof.compared[ATTN_RESULT_O] || !proof.compared[ATTN_RESULT_LSE])
            test_failed(failures, row, c, "o and lse were not compared");
        if (row->stage->backward && inputs.d_o && !(expected && !expected->dk) &&
            !proof.compared[ATTN_RESULT_DK])
            test_failed(failures, row, c, "dq, dk and dv were not compared");
        if (row->module->device->traffic && !proof.bytes_compared)
            test_failed(failures, row, c, "the bytes were not compared");
        attn_proof_free(&proof);
    }
    attn_trial_free(&trial);
}

int test_run_stage(const attn_loaded_stage *row, const test_case *c, const test_input *input,
                   attn_run *run, test_failures *failures) {
    attn_inputs inputs = test_inputs(input);
    if (!row->stage->backward) inputs.d_o = NULL;
    return !ends_here(attn_run_stage(row, &c->problem, &inputs, 1, run), row, c, failures);
}

const float *test_output(const attn_run *run, attn_result result) {
    switch (result) {
    case ATTN_RESULT_O:
        return run->out.o;
    case ATTN_RESULT_LSE:
        return run->out.lse;
    case ATTN_RESULT_DQ:
        return run->out.dq;
    case ATTN_RESULT_DK:
        return run->out.dk;
    case ATTN_RESULT_DV:
        return run->out.dv;
    case ATTN_RESULT_DBIAS:
        return run->out.dbias;
    }
    return NULL;
}

size_t test_output_elements(const attn_problem *problem, attn_result result) {
    switch (result) {
    case ATTN_RESULT_LSE:
        return attn_rows(problem);
    case ATTN_RESULT_DBIAS:
        return attn_bias_elements(problem);
    case ATTN_RESULT_DK:
    case ATTN_RESULT_DV:
        return attn_kv_elements(problem);
    default:
        return attn_q_elements(problem);
    }
}

void test_verdict(const attn_loaded_stage *row, const char *family, const test_failures *failures) {
    ck_assert_msg(failures->cases > 0, "%s: no case ran", family);
    ck_assert_msg(failures->failed == 0, "%s: %d of %d cases fail%s", family, failures->failed,
                  failures->cases, failures->text);
    if (failures->refused < failures->cases) return;
    char what[120];
    snprintf(what, sizeof what, "stages: %s on %s, %s", row->stage->name, row->module->device->kind,
             family);
    test_skip(what, "%s", failures->why_refused);
}
