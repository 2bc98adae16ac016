// trace.c -- attention trace: a problem small enough to read, tile by tile, as the chapter's code computes
// it. The steps are printed by that code itself, through its hooks (cpu/trace/hooks.h).
#include "cpu/case.h"
#include "cpu/cli/chapter.h"
#include "cpu/cli/commands.h"
#include "cpu/proof.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attn_modules modules;

// What was left open: tiles of 2 x 2 where the stage has a choice; where it has none, its tiles are of
// 8 x 8, and lengths that leave a tile half empty. Masks are traced with one.
static attn_problem small_problem(const attn_options *o, const attn_stage *stage) {
    attn_problem p = o->problem;
    const int chooses = (stage->features & ATTN_HAS_TILE_SIZES) != 0;
    const int masks = (stage->features & (ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW)) != 0;
    if (p.q_len == 0) p.q_len = chooses ? 4 : masks ? 12 : 10;
    if (p.kv_len == 0) p.kv_len = chooses ? 6 : masks ? 20 : 12;
    if (chooses && p.br == 0) p.br = 2;
    if (chooses && p.bc == 0) p.bc = 2;
    if (masks && !(attn_problem_features(&p) & (ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW)))
        p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    return p;
}

// Whole numbers, to follow by hand.
static void round_off(float *x, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) x[i] = rintf(factor * x[i]) + 0.0f; // + 0: no -0
}

// A line a column: a problem has one or two, and up to 20 rows.
static void print_columns(const char *name, const float *x, int64_t rows, int64_t columns) {
    for (int64_t c = 0; c < columns; c++) {
        printf("%-4s column %lld", name, (long long)c);
        for (int64_t i = 0; i < rows; i++) printf("%4g", (double)x[i * columns + c]);
        printf("\n");
    }
}

static const char forward_steps[] =
    "A step: S = scale Q K^T        the tile's scores; -inf for a key that is not there or masked\n"
    "        m new                  the largest score of the row so far\n"
    "        factor = e^(m - m new) brings what was summed under the old m to the new one\n"
    "        P = e^(S - m new)      the weights, under the new one\n"
    "        l new = l factor + sum of P         O new = O factor + P V\n"
    "q0 is query 0, k0 key 0. memory: bytes asked for since the last such line; the next tile may "
    "be\n"
    "under way already\n";
static const char backward_steps[] =
    "A step: S = scale Q K^T        as in the forward pass, computed again\n"
    "        P = e^(S - L)          from L alone: no maximum, no sum\n"
    "        dP = dO V^T            from O = P V\n"
    "        dS = P (dP - D)        the softmax's gradient\n"
    "        dV, dK of the tile's keys and dQ of its queries, as summed so far\n\n";

static void print_input(const attn_problem *p, const attn_stage *stage, const attn_inputs *in) {
    const int64_t d = p->head_dim, rows = p->q_len > p->kv_len ? p->q_len : p->kv_len;
    char problem[160];
    attn_problem_describe(p, problem, sizeof problem);
    printf("%s: %s\n%s, scale %g\n\n%-13s", stage->name, stage->idea, problem, (double)p->scale,
           "row");
    for (int64_t i = 0; i < rows; i++) printf("%4lld", (long long)i);
    printf("\n");
    print_columns("Q", in->q, p->q_len, d);
    print_columns("K", in->k, p->kv_len, d);
    print_columns("V", in->v, p->kv_len, d);
    if (stage->backward) print_columns("dO", in->d_o, p->q_len, d);
    printf("\n%s", stage->backward ? backward_steps : forward_steps);
    fflush(stdout);
}

static void print_vector(const float *x, int64_t count) {
    for (int64_t c = 0; c < count; c++) printf("%8.4f", (double)x[c]);
}

static void print_forward(const attn_problem *p, const attn_outputs *out) {
    const int64_t d = p->head_dim;
    printf("\nResult: O = O / l, L = m + log l\n%-*sL\n", (int)(5 + 8 * d + 7), "");
    for (int64_t i = 0; i < p->q_len; i++) {
        printf("q%-4lld", (long long)i);
        print_vector(out->o + i * d, d);
        print_vector(out->lse + i, 1);
        printf("\n");
    }
}

static void print_gradient(const char *name, char row, const float *x, int64_t rows, int64_t d) {
    for (int64_t i = 0; i < rows; i++) {
        printf("%s of %c%-4lld", name, row, (long long)i);
        print_vector(x + i * d, d);
        printf("\n");
    }
}

static void print_check(const attn_proof *proof, const attn_stage *stage, const attn_problem *p) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const attn_comparison *c = &proof->comparison[r];
        if (proof->compared[r])
            printf(
                "%s  %-3s off the reference, in double precision, by %.1e at most; allowed %.1e\n",
                c->pass ? "PASS" : "FAIL", attn_result_name((attn_result)r), c->worst, c->allowed);
    }
    if (!proof->bytes_compared) return;
    const attn_traffic model = attn_model_bytes(stage, p, ATTN_FORWARD);
    const attn_tensor_bytes total = attn_traffic_total(&model);
    printf("%s  bytes as by the closed form: read %llu, written %llu\n",
           proof->bytes_equal ? "PASS" : "FAIL", (unsigned long long)total.read,
           (unsigned long long)total.written);
}

static attn_status trace_input(const attn_loaded_stage *row, const attn_problem *p,
                               const attn_case *random, int *failed) {
    const attn_inputs inputs = attn_case_inputs(random);
    attn_trial trial;
    attn_proof proof;
    print_input(p, row->stage, &inputs);
    ATTN_TRY(attn_trial_begin(&modules, p, &inputs, NULL, &trial));
    const attn_status status = attn_prove(row, &trial, 1, &proof); // prints the steps
    if (status.code == ATTN_OK) {
        const attn_outputs *out = &proof.run.out;
        if (row->stage->backward) {
            printf("\nResult\n");
            print_gradient("dQ", 'q', out->dq, p->q_len, p->head_dim);
            print_gradient("dK", 'k', out->dk, p->kv_len, p->head_dim);
            print_gradient("dV", 'k', out->dv, p->kv_len, p->head_dim);
        } else {
            print_forward(p, out);
        }
        print_check(&proof, row->stage, p);
        *failed |= !proof.pass;
        attn_proof_free(&proof);
    }
    attn_trial_free(&trial);
    return status;
}

static attn_status trace_stage(const attn_loaded_stage *row, const attn_options *o, int *failed) {
    const attn_problem p = small_problem(o, row->stage);
    const attn_pass pass = row->stage->backward ? ATTN_BACKWARD : ATTN_FORWARD;
    attn_case random;
    ATTN_TRY(attn_problem_check(&p));
    ATTN_TRY(attn_stage_supports(row->stage, &p, pass));
    ATTN_TRY(attn_case_random(&p, o->input, o->seed, pass == ATTN_BACKWARD, &random));
    round_off(random.q, attn_q_elements(&p), 1);
    round_off(random.k, attn_kv_elements(&p), 1);
    round_off(random.v, attn_kv_elements(&p), 1.5f);
    if (random.d_o) round_off(random.d_o, attn_q_elements(&p), 1.5f);
    const attn_status status = trace_input(row, &p, &random, failed);
    attn_case_free(&random);
    return status;
}

static attn_status trace(const attn_options *o, int *failed) {
    const attn_module *traced = NULL;
    char there[80] = "";
    int chapter = 0;
    ATTN_TRY(attn_chapter_number(o->operand, &chapter));
    ATTN_TRY(
        attn_load_devices("host", &modules)); // naive, by whose error the allowance is measured
    const int host_modules = modules.module_count;
    ATTN_TRY(attn_modules_load("trace", &modules));
    for (int i = host_modules; i < modules.module_count; i++) {
        const int number = modules.module[i]->chapter;
        if (number == chapter) traced = modules.module[i];
        snprintf(there + strlen(there), sizeof there - strlen(there), " %d", number);
    }
    if (!traced)
        return attn_error(ATTN_BAD_INPUT,
                          "there is no trace of chapter '%s'; built are those of chapters%s "
                          "(make traceN builds chapter N's)",
                          o->operand, there[0] ? there : ": none");
    for (int i = 0; i < traced->stage_count; i++) {
        const attn_loaded_stage row = {traced, &traced->stages[i]};
        if (i > 0) printf("\n");
        ATTN_TRY(trace_stage(&row, o, failed));
    }
    printf("\nNext: %s\n", traced->predict);
    return attn_ok();
}

int attn_command_trace(const attn_options *o) {
    int failed = 0;
    const int refused = attn_complain(trace(o, &failed));
    return refused ? refused : failed;
}
