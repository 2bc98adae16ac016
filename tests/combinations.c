// combinations.c -- see combinations.h. A greedy covering array: each new case is the best of a few
// random ones that hold a pair that no case has yet.
#include "tests/combinations.h"
#include "cpu/random.h"
#include "tests/harness.h"

#include <string.h>

enum { LENGTH_Q, LENGTH_KV, DIM, HEADS, MASK, SCALE, KIND, FACTORS };
enum { MAX_LEVELS = 24, CANDIDATES = 40 };

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

static unsigned char covered[FACTORS][MAX_LEVELS][FACTORS][MAX_LEVELS];

static int new_pairs(const int *at, int mark) {
    int count = 0;
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++) {
            unsigned char *pair = &covered[a][at[a]][b][at[b]];
            count += !*pair;
            if (mark) *pair = 1;
        }
    return count;
}

// The first pair that no case has; 0 when there is none left.
static int first_uncovered(int pair[4]) {
    for (int a = 0; a < FACTORS; a++)
        for (int x = 0; x < levels[a]; x++)
            for (int b = a + 1; b < FACTORS; b++)
                for (int y = 0; y < levels[b]; y++)
                    if (!covered[a][x][b][y])
                        return pair[0] = a, pair[1] = x, pair[2] = b, pair[3] = y, 1;
    return 0;
}

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
    int count = 0, pair[4];
    uint64_t draw = 0;
    memset(covered, 0, sizeof covered);
    while (first_uncovered(pair) && count < MAX_COMBINATIONS) {
        int best[FACTORS], best_pairs = -1;
        for (int candidate = 0; candidate < CANDIDATES; candidate++) {
            int at[FACTORS];
            for (int f = 0; f < FACTORS; f++) {
                uint32_t word[4];
                attn_philox(2024, 0, draw++, word);
                at[f] = (int)(word[0] % (uint32_t)levels[f]);
            }
            at[pair[0]] = pair[1], at[pair[2]] = pair[3];
            const int pairs = new_pairs(at, 0);
            if (pairs > best_pairs) best_pairs = pairs, memcpy(best, at, sizeof best);
        }
        new_pairs(best, 1);
        cases[count] = case_of(best, (uint64_t)count + 1);
        count++;
    }
    ck_assert_msg(!first_uncovered(pair), "more than %d cases are needed", MAX_COMBINATIONS);
    return count;
}
