// feature_cases.c -- see feature_cases.h.
#include "tests/feature_cases.h"
#include "tests/covering.h"
#include "tests/harness.h"

#include <stdlib.h>

enum { LENGTHS, DIM, HEADS, BAND, SOFTCAP, ALIBI, BIAS, MASK, DROPOUT, LAYOUT, KIND, FACTORS };
_Static_assert((int)FACTORS <= (int)MAX_FACTORS, "covering.h has room");

// Lengths that end within tiles and at their ends; the packed ones with empty sequences at the head, in
// the middle and at the end, more queries than keys, and keys without a query.
static const int32_t mixed_q[] = {0, 0, 33, 33, 34, 98, 131, 131};
static const int32_t mixed_kv[] = {0, 7, 72, 77, 77, 81, 145, 145};
static const int32_t even[] = {0, 64, 128};
static const int32_t small_q[] = {0, 9, 9, 20}, small_kv[] = {0, 6, 10, 33}; // for slow devices
static const struct {
    int64_t q_len, kv_len, sequences;
    const int32_t *q, *kv;
} lengths[] = {
    {1, 1, 0, NULL, NULL},     {33, 65, 0, NULL, NULL},        {64, 64, 0, NULL, NULL},
    {70, 33, 0, NULL, NULL},   {45, 131, 0, NULL, NULL},       {131, 145, 7, mixed_q, mixed_kv},
    {128, 128, 2, even, even}, {20, 33, 3, small_q, small_kv},
};
static const int64_t dims[] = {8, 20, 33, 64, 100, 128};
static const struct {
    int64_t batch, heads, kv_heads;
} heads[] = {{1, 1, 1}, {2, 2, 2}, {1, 4, 2}, {2, 3, 1}};
static const struct {
    attn_causal causal;
    int64_t left, right;
} bands[] = {
    {ATTN_CAUSAL_OFF, 0, 0},  {ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0},  {ATTN_CAUSAL_TOP_LEFT, 0, 0},
    {ATTN_CAUSAL_OFF, 33, 7}, {ATTN_CAUSAL_BOTTOM_RIGHT, 16, 0}, {ATTN_CAUSAL_TOP_LEFT, 5, 0},
};
static const float softcaps[] = {0, 0.5f, 30};
static const struct {
    int batch, heads, gradient; // 1: one for all, 2: one for each
} biases[] = {{0, 0, 0}, {1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {2, 2, 1}, {2, 2, 0}},
  masks[] = {{0, 0, 0}, {1, 1, 0}, {2, 2, 0}};
static const float dropouts[] = {0, 0.1f, 0.8f};
enum { CONTIGUOUS, ROWS_OUTSIDE, WITH_GAPS, LAYOUTS }; // ROWS_OUTSIDE: [B][N][H][d]

#define COUNT(array) (int)(sizeof array / sizeof *array)
static const int levels[FACTORS] = {COUNT(lengths),  COUNT(dims), COUNT(heads),    COUNT(bands),
                                    COUNT(softcaps), 2,           COUNT(biases),   COUNT(masks),
                                    COUNT(dropouts), LAYOUTS,     ATTN_INPUT_KINDS};

static attn_stride stride_of(int layout, int64_t heads, int64_t rows, int64_t d, int64_t gap) {
    if (layout == ROWS_OUTSIDE) return (attn_stride){rows * heads * d, d, heads * d};
    const int64_t row = d + gap, head = rows * row + 4 * gap; // 16-byte loads stay aligned with d
    return (attn_stride){heads * head + gap, head, row};
}

static void set_layout(attn_problem *p, int layout) {
    if (layout == CONTIGUOUS) return;
    const int64_t d = p->head_dim;
    p->q_stride = stride_of(layout, p->heads, p->q_len, d, 4);
    p->k_stride = stride_of(layout, p->kv_heads, p->kv_len, d, 8);
    p->v_stride = stride_of(layout, p->kv_heads, p->kv_len, d, 12);
    p->o_stride = stride_of(layout, p->heads, p->q_len, d, 4);
}

static test_case case_of(const int *at, unsigned does, int number) {
    test_case c = {.kind = (attn_input_kind)at[KIND], .seed = (uint64_t)number};
    attn_problem *p = &c.problem;
    const int packed = lengths[at[LENGTHS]].sequences != 0 && does & ATTN_HAS_VARIABLE_LENGTHS;
    *p = attn_problem_of(lengths[at[LENGTHS]].q_len, lengths[at[LENGTHS]].kv_len, dims[at[DIM]]);
    if (packed) {
        p->sequences = lengths[at[LENGTHS]].sequences;
        p->q_cumulative = lengths[at[LENGTHS]].q, p->kv_cumulative = lengths[at[LENGTHS]].kv;
    }
    p->batch = packed ? 1 : heads[at[HEADS]].batch;
    p->heads = heads[at[HEADS]].heads, p->kv_heads = heads[at[HEADS]].kv_heads;
    if (!(does & ATTN_HAS_GROUPED_HEADS)) p->kv_heads = p->heads;
    if (does & ATTN_HAS_CAUSAL) p->causal = bands[at[BAND]].causal;
    if (does & ATTN_HAS_WINDOW)
        p->window_left = bands[at[BAND]].left, p->window_right = bands[at[BAND]].right;
    if (does & ATTN_HAS_SOFTCAP) p->softcap = softcaps[at[SOFTCAP]];
    if (does & ATTN_HAS_ALIBI) p->alibi = at[ALIBI];
    if (does & ATTN_HAS_BIAS && !packed && biases[at[BIAS]].batch != 0) {
        p->bias_batch = biases[at[BIAS]].batch == 1 ? 1 : p->batch;
        p->bias_heads = biases[at[BIAS]].heads == 1 ? 1 : p->heads;
        p->bias_gradient = does & ATTN_HAS_BIAS_GRADIENT ? biases[at[BIAS]].gradient : 0;
    }
    if (does & ATTN_HAS_MASK && !packed && masks[at[MASK]].batch != 0) {
        p->mask_batch = masks[at[MASK]].batch == 1 ? 1 : p->batch;
        p->mask_heads = masks[at[MASK]].heads == 1 ? 1 : p->heads;
    }
    if (does & ATTN_HAS_DROPOUT) {
        p->dropout = dropouts[at[DROPOUT]];
        p->dropout_seed = (uint64_t)number << 33, p->dropout_offset = (uint64_t)number;
    }
    if (does & ATTN_HAS_STRIDES) set_layout(p, at[LAYOUT]);
    return c;
}

int feature_cases_make(unsigned does, test_case cases[MAX_FEATURE_CASES]) {
    int count = 0, at[MAX_FACTORS];
    covering *pairs = covering_begin(FACTORS, levels);
    for (; covering_next(pairs, at); count++) {
        ck_assert_msg(count < MAX_FEATURE_CASES, "more than %d cases are needed",
                      MAX_FEATURE_CASES);
        cases[count] = case_of(at, does, count + 1);
    }
    free(pairs);
    return count;
}
