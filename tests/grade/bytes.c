// bytes.c -- exercise 1, a formula: it is held against what the emulator counts of naive's forward pass.
// A usual mistake is a factor, the same in every case.
#include "tests/grade/grader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double rounded_up(int64_t length) {
    return (double)((length + 63) / 64);
}
static double rounded_down(int64_t length) {
    return (double)(length / 64);
}

// What a tensor's tiles are counted in: Q is read once for each tile of keys, K and V for each of queries.
static int64_t other_length(const attn_problem *p, char tensor) {
    return tensor == 'q' ? p->kv_len : p->q_len;
}
static double numbers(const attn_problem *p, char tensor) {
    (void)p, (void)tensor;
    return 1.0 / 4;
}
static double no_heads(const attn_problem *p, char tensor) {
    (void)tensor;
    return 1.0 / (double)(p->batch * p->heads);
}
static double no_batch(const attn_problem *p, char tensor) {
    (void)tensor;
    return 1.0 / (double)p->batch;
}
static double heads_of_keys(const attn_problem *p, char tensor) {
    (void)tensor;
    return (double)p->kv_heads / (double)p->heads;
}
static double read_once(const attn_problem *p, char tensor) {
    return 1 / rounded_up(other_length(p, tensor));
}
static double tiles_rounded_down(const attn_problem *p, char tensor) {
    return rounded_down(other_length(p, tensor)) / rounded_up(other_length(p, tensor));
}
static double one_of_three(const attn_problem *p, char tensor) {
    (void)p, (void)tensor;
    return 1.0 / 3;
}
static double two_of_three(const attn_problem *p, char tensor) {
    (void)p, (void)tensor;
    return 2.0 / 3;
}
static double once_for_all_columns(const attn_problem *p, char tensor) {
    (void)tensor;
    return 1 / (double)((p->head_dim + 127) / 128);
}
static double left_out(const attn_problem *p, char tensor) {
    (void)p, (void)tensor;
    return 0;
}

static const struct {
    double (*factor)(const attn_problem *, char tensor);
    const char *tensors; // initials
    const char *hint;
} factors[] = {
    {numbers, "qkspvol", "these are numbers, not bytes: an fp32 number has 4"},
    {no_heads, "qkspvol", "this is one head's: there are batch * heads of them"},
    {no_batch, "qkspvol", "the batch is left out: there are batch * heads heads"},
    {heads_of_keys, "kv",
     "K and V are counted for each head of their own. But each head of Q reads them, those of a "
     "group each for itself: batch * heads times"},
    {read_once, "qkv",
     "it is counted once. But each tile of S needs its rows of Q and of K, so Q is read once for "
     "each tile of keys, and K and V once for each tile of queries"},
    {tiles_rounded_down, "qkv",
     "the number of tiles is rounded down; a rest is a tile, too: (length + 63) / 64"},
    {one_of_three, "s",
     "S is counted as read once. softmax reads a row for its maximum, again for the sum, and again "
     "to write P"},
    {two_of_three, "s",
     "S is counted as read twice. softmax reads a row for its maximum, again for the sum, and "
     "again "
     "to write P"},
    {once_for_all_columns, "p",
     "P is read for each block of `values`, and where d is above 128 there are several side by "
     "side"},
    {left_out, "qkspvol", "it is left out"},
};

attn_status count_naive(const attn_loaded_stage *naive, const attn_stage *formula, grade_case *c) {
    const attn_traffic model = attn_model_bytes(formula, &c->trial.problem, ATTN_FORWARD);
    attn_inputs inputs = c->trial.inputs;
    inputs.d_o = NULL;
    ATTN_TRY(attn_run_stage(naive, &c->trial.problem, &inputs, 1, &c->proof.run));
    c->proof.bytes_compared = 1;
    c->proof.bytes_equal = attn_traffic_equal(&model, &c->proof.run.traffic[0]);
    c->proof.pass = c->proof.bytes_equal;
    return attn_ok();
}

typedef struct place {
    const char *tensor;
    int written;
} place;

static uint64_t bytes_at(const attn_traffic *traffic, place at) {
    const attn_tensor_bytes bytes = attn_traffic_of(traffic, at.tensor);
    return at.written ? bytes.written : bytes.read;
}

static int first_wrong(const grade_case *c, const attn_traffic *model, place *at) {
    static const char *const tensors[] = {"q", "k", "s", "p", "v", "o", "lse"};
    for (int i = 0; i < 7; i++)
        for (int written = 0; written < 2; written++) {
            *at = (place){tensors[i], written};
            if (bytes_at(model, *at) != bytes_at(&c->proof.run.traffic[0], *at)) return 1;
        }
    return 0;
}

const char *recognise_bytes(const attn_stage *formula, grade_case *cases, int count) {
    int first = 0;
    place at;
    while (first < count && cases[first].pass) first++;
    if (first == count) return NULL;
    grade_case *c = &cases[first];
    attn_traffic model = attn_model_bytes(formula, &c->trial.problem, ATTN_FORWARD);
    if (!first_wrong(c, &model, &at)) return NULL;
    snprintf(c->failure, sizeof c->failure,
             "%s, %s: your formula says %llu bytes, counted were %llu.", at.tensor,
             at.written ? "written" : "read", (unsigned long long)bytes_at(&model, at),
             (unsigned long long)bytes_at(&c->proof.run.traffic[0], at));
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        int agreed = strchr(factors[f].tensors, at.tensor[0]) != NULL;
        for (int i = 0; i < count && agreed; i++) {
            const attn_problem *p = &cases[i].trial.problem;
            const double counted = (double)bytes_at(&cases[i].proof.run.traffic[0], at);
            model = attn_model_bytes(formula, p, ATTN_FORWARD);
            agreed = counted == 0 || fabs(factors[f].factor(p, at.tensor[0]) * counted -
                                          (double)bytes_at(&model, at)) < 0.5;
        }
        if (agreed) return factors[f].hint;
    }
    return NULL;
}
