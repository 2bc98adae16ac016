// judge.c -- see grader.h: where the numbers part, and which mistake gives the same ones.
#include "tests/grade/grader.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float *answer(const attn_run *run, int result) {
    const attn_outputs *out = &run->out;
    const float *const all[ATTN_RESULTS] = {out->o, out->lse, out->dq, out->dk, out->dv, NULL};
    return all[result];
}

static size_t elements(const attn_problem *p, int result) {
    if (result == ATTN_RESULT_LSE) return attn_rows(p);
    return result == ATTN_RESULT_DK || result == ATTN_RESULT_DV ? attn_kv_elements(p)
                                                                : attn_q_elements(p);
}

static int no_number(double x) {
    return !(fabs(x) <= FLT_MAX);
}

// ---- recognising a mistake ----
// Wide: an answer adds in an order of its own, and a mistake may magnify what that costs, in proportion to
// the largest number of a row.
static int row_agrees(const float *got, const double *wrong, int64_t columns, double allowed) {
    double largest = 0;
    for (int64_t c = 0; c < columns; c++)
        if (!no_number(wrong[c])) largest = fmax(largest, fabs(wrong[c]));
    for (int64_t c = 0; c < columns; c++) {
        if (no_number(wrong[c]) != no_number(got[c])) return 0;
        if (!no_number(wrong[c]) && fabs(got[c] - wrong[c]) > 10 * allowed + 1e-4 * largest)
            return 0;
    }
    return 1;
}

static int agrees(const grade_case *c, const imitation *made, unsigned results) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const float *got = answer(&c->proof.run, r);
        const int64_t columns = r == ATTN_RESULT_LSE ? 1 : c->trial.problem.head_dim;
        const int64_t count = (int64_t)elements(&c->trial.problem, r);
        if (!(results >> r & 1) || !got) continue;
        for (int64_t i = 0; i < count; i += columns)
            if (!row_agrees(got + i, made->result[r] + i, columns, c->proof.comparison[r].allowed))
                return 0;
    }
    return 1;
}

static int agrees_everywhere(const exercise *e, const mistake *m, const grade_case *cases,
                             int count, grade_planted most) {
    int agreed = 1;
    for (int n = 0; n < count && agreed; n++) {
        const grade_case *c = &cases[n];
        imitation made = {{NULL}};
        if (!c->tried || c->status.code != ATTN_OK || c->planted > most) continue;
        for (int r = 0; r < ATTN_RESULT_DBIAS; r++) {
            made.result[r] = calloc(elements(&c->trial.problem, r) + 1, sizeof(double));
            if (!made.result[r]) agreed = 0;
        }
        if (agreed) {
            e->imitate(e, &c->trial, m->id, &made);
            agreed = agrees(c, &made, m->results);
        }
        for (int r = 0; r < ATTN_RESULTS; r++) free(made.result[r]);
    }
    return agreed;
}

// A result that is right everywhere cannot be what the mistake is about.
static unsigned wrong_results(const grade_case *cases, int count, grade_planted most) {
    unsigned wrong = 0;
    for (int n = 0; n < count; n++)
        for (int r = 0; r < ATTN_RESULTS && cases[n].tried && cases[n].planted <= most; r++)
            if (cases[n].proof.compared[r] && !cases[n].proof.comparison[r].pass) wrong |= 1u << r;
    return wrong;
}

const mistake *recognise(const exercise *e, const grade_case *cases, int count) {
    grade_planted most = GRADE_MINUS_INFINITY; // the first kind that fails
    for (int n = 0; n < count; n++)
        if (!cases[n].pass && cases[n].planted < most) most = cases[n].planted;
    const unsigned wrong = wrong_results(cases, count, most);
    for (const mistake *m = e->mistakes; m->hint; m++)
        if ((m->results & wrong) && agrees_everywhere(e, m, cases, count, most)) return m;
    return NULL;
}

// ---- where the numbers part ----
static void say(grade_case *c, const char *format, ...) {
    const size_t used = strlen(c->failure);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->failure + used, sizeof c->failure - used, format, arguments);
    va_end(arguments);
}

static double expected_at(const attn_trial *trial, int result, size_t i) {
    if (trial->expected[result]) return trial->expected[result][i];
    return attn_reference_result(&trial->reference, (attn_result)result)[i];
}

static int differs(double got, double expected, double allowed) {
    if (no_number(expected)) return !no_number(got) || (isinf(expected) && got != expected);
    return !(fabs(got - expected) <= allowed);
}

// The weights that the answer gives the keys in one row: O itself, where V has a single 1 in each column.
static attn_status weights_of(const attn_loaded_stage *row, const attn_trial *trial, size_t query,
                              float *weight) {
    const attn_problem *p = &trial->problem;
    const int64_t d = p->head_dim;
    attn_inputs inputs = trial->inputs;
    attn_run run;
    float *v = calloc(attn_kv_elements(p) + 1, sizeof *v);
    attn_status status = v ? attn_ok() : attn_error(ATTN_NO_MEMORY, "no memory for V");
    inputs.v = v, inputs.d_o = NULL;
    for (int64_t first = 0; first < p->kv_len && status.code == ATTN_OK; first += d) {
        memset(v, 0, attn_kv_elements(p) * sizeof *v);
        for (int64_t j = first; j < first + d && j < p->kv_len; j++)
            for (int64_t h = 0; h < p->batch * p->kv_heads; h++)
                v[(h * p->kv_len + j) * d + j - first] = 1;
        status = attn_run_stage(row, p, &inputs, 1, &run);
        if (status.code != ATTN_OK) break;
        for (int64_t j = first; j < first + d && j < p->kv_len; j++)
            weight[j] = run.out.o[query * (size_t)d + (size_t)(j - first)];
        attn_run_free(&run);
    }
    free(v);
    return status;
}

// The right weight of each key in that row.
static void right_weights(const attn_trial *trial, size_t query, double *weight) {
    const attn_problem *p = &trial->problem;
    const int64_t d = p->head_dim, i = (int64_t)query % p->q_len;
    const int64_t head = (int64_t)query / p->q_len / (p->heads / p->kv_heads);
    const double L = attn_reference_result(&trial->reference, ATTN_RESULT_LSE)[query];
    for (int64_t j = 0; j < p->kv_len; j++) {
        double s = 0;
        for (int64_t c = 0; c < d; c++)
            s += (double)trial->inputs.q[(int64_t)query * d + c] *
                 trial->inputs.k[(head * p->kv_len + j) * d + c];
        weight[j] = p->causal && j > i + p->kv_len - p->q_len ? 0 : exp(p->scale * s - L);
    }
}

static void say_which_key(const exercise *e, const attn_loaded_stage *row, grade_case *c,
                          size_t query) {
    const int64_t keys = c->trial.problem.kv_len;
    float *got = calloc((size_t)keys + 1, sizeof *got);
    double *right = calloc((size_t)keys + 1, sizeof *right);
    if (keys > 0 && got && right && weights_of(row, &c->trial, query, got).code == ATTN_OK) {
        right_weights(&c->trial, query, right);
        int64_t j = 0;
        while (j < keys && !differs(got[j], right[j], 1e-4 * right[j] + 1e-7)) j++;
        if (j < keys) {
            say(c, " Among the weights of that row, key %lld's is the first to be wrong",
                (long long)j);
            if (e->bc > 1)
                say(c, " (tile %lld of keys, its key %lld)", (long long)(j / e->bc),
                    (long long)(j % e->bc));
            say(c, ": %.6g for %.6g.", got[j], right[j]);
        }
    }
    free(got);
    free(right);
}

static void say_place(const exercise *e, const attn_loaded_stage *row, grade_case *c, int result) {
    static const char *const names[] = {"O", "L", "dQ", "dK", "dV"};
    const attn_problem *p = &c->trial.problem;
    const attn_comparison *all = &c->proof.comparison[result];
    const float *got = answer(&c->proof.run, result);
    const int of_key = result == ATTN_RESULT_DK || result == ATTN_RESULT_DV;
    const int64_t columns = result == ATTN_RESULT_LSE ? 1 : p->head_dim;
    const int64_t length = of_key ? p->kv_len : p->q_len, tile = of_key ? e->bc : e->br;
    size_t i = 0;
    while (i < elements(p, result) &&
           !differs(got[i], expected_at(&c->trial, result, i), all->allowed))
        i++;
    if (i == elements(p, result)) return;
    const int64_t row_index = (int64_t)i / columns, at = row_index % length;
    say(c, "%s is wrong, first in %s %lld", names[result], of_key ? "key" : "query", (long long)at);
    if (tile > 1)
        say(c, " (tile %lld of %s, its row %lld)", (long long)(at / tile),
            of_key ? "keys" : "queries", (long long)(at % tile));
    if (p->batch * p->heads > 1) say(c, " of head %lld", (long long)(row_index / length));
    if (columns > 1) say(c, ", column %lld", (long long)((int64_t)i % columns));
    say(c, ": %.7g for %.7g; %llu of %llu numbers are off.", got[i],
        expected_at(&c->trial, result, i), (unsigned long long)all->over,
        (unsigned long long)all->elements);
    if (result == ATTN_RESULT_O) say_which_key(e, row, c, (size_t)row_index);
}

static void say_bytes(const attn_loaded_stage *row, grade_case *c) {
    int above = 0;
    say(c, "The bytes are not the closed form's:");
    for (int pass = 0; pass < (row->stage->backward ? 2 : 1); pass++) {
        const attn_traffic model = attn_model_bytes(row->stage, &c->trial.problem, (attn_pass)pass);
        const attn_traffic *counted = &c->proof.run.traffic[pass];
        attn_traffic names = model;
        for (int i = 0; i < counted->count; i++)
            attn_traffic_add(&names, counted->tensor[i].name, 0, 0);
        for (int i = 0; i < names.count; i++) {
            const char *name = names.tensor[i].name;
            const attn_tensor_bytes is = attn_traffic_of(counted, name),
                                    should = attn_traffic_of(&model, name);
            if (is.read != should.read)
                say(c, " %s, read: %llu for %llu;", name, (unsigned long long)is.read,
                    (unsigned long long)should.read);
            if (is.written != should.written)
                say(c, " %s, written: %llu for %llu;", name, (unsigned long long)is.written,
                    (unsigned long long)should.written);
            above |= is.read > should.read || is.written > should.written;
        }
    }
    c->failure[strlen(c->failure) - 1] = '.';
    c->asks_too_much = above;
}

void describe_failure(const exercise *e, const attn_loaded_stage *row, grade_case *c) {
    if (c->status.code != ATTN_OK) {
        say(c, "%s", c->status.text);
        return;
    }
    if (e->counts_naive) {
        say(c, "The formula differs from the count.");
        return;
    }
    for (int r = 0; r < ATTN_RESULTS; r++)
        if (c->proof.compared[r] && !c->proof.comparison[r].pass) {
            say_place(e, row, c, r);
            return;
        }
    if (c->proof.bytes_compared && !c->proof.bytes_equal) say_bytes(row, c);
}
