// combinations.c -- see combinations.h.
#include "tests/combinations.h"
#include "tests/covering.h"
#include "tests/harness.h"

#include <stdlib.h>

enum { LENGTH_Q, LENGTH_KV, DIM, HEADS, MASK, SCALE, KIND, FACTORS };

static const int64_t lengths[] = {1, 31, 33, 64, 65, 127, 200};
static const int64_t dims[] = {1,  2,  3,  8,  15,  16,  17,  31,  32,  33,  40, 63,
                               64, 65, 80, 96, 100, 127, 128, 129, 192, 255, 256};
static const struct {
    int64_t batch, heads, kv_heads;
} heads[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 2}, {1, 2, 1}, {1, 4, 2}, {2, 3, 3}, {2, 3, 1}};
static const struct {
    attn_causal causal;
    int64_t left, right;
} masks[] = {
    {ATTN_CAUSAL_OFF, 0, 0},          {ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0},
    {ATTN_CAUSAL_TOP_LEFT, 0, 0},     {ATTN_CAUSAL_OFF, 16, 0},
    {ATTN_CAUSAL_OFF, 0, 16},         {ATTN_CAUSAL_OFF, 33, 7},
    {ATTN_CAUSAL_BOTTOM_RIGHT, 1, 0}, {ATTN_CAUSAL_TOP_LEFT, 70, 0},
    {ATTN_CAUSAL_BOTTOM_RIGHT, 5, 3},
};
// In parts of the default scale: 0 stands for a scale of 0.
static const float scales[] = {1, 0, -1, 1e-30f, 1e-3f, 20};

static const int levels[FACTORS] = {sizeof lengths / sizeof *lengths,
                                    sizeof lengths / sizeof *lengths,
                                    sizeof dims / sizeof *dims,
                                    sizeof heads / sizeof *heads,
                                    sizeof masks / sizeof *masks,
                                    sizeof scales / sizeof *scales,
                                    ATTN_INPUT_KINDS};

static test_case case_of(const int *at, uint64_t seed) {
    test_case c = {.kind = (attn_input_kind)at[KIND], .seed = seed};
    c.problem = attn_problem_of(lengths[at[LENGTH_Q]], lengths[at[LENGTH_KV]], dims[at[DIM]]);
    c.problem.batch = heads[at[HEADS]].batch;
    c.problem.heads = heads[at[HEADS]].heads, c.problem.kv_heads = heads[at[HEADS]].kv_heads;
    c.problem.causal = masks[at[MASK]].causal;
    c.problem.window_left = masks[at[MASK]].left, c.problem.window_right = masks[at[MASK]].right;
    c.problem.scale *= scales[at[SCALE]];
    return c;
}

int combinations_make(test_case cases[MAX_COMBINATIONS]) {
    int count = 0, at[MAX_FACTORS];
    covering *pairs = covering_begin(FACTORS, levels);
    for (; covering_next(pairs, at); count++) {
        ck_assert_msg(count < MAX_COMBINATIONS, "more than %d cases are needed", MAX_COMBINATIONS);
        cases[count] = case_of(at, (uint64_t)count + 1);
    }
    free(pairs);
    return count;
}
