// merge.c -- the usual mistakes of a merge of slices (exercise 4), each computed.
#include "chapters/04-tiled-kv-outer/exercise/slices.h"
#include "tests/grade/grader.h"

#include <math.h>
#include <stdlib.h>

enum {
    MEAN,
    MEAN_OF_THOSE_WITH_KEYS,
    WITHOUT_MAXIMUM,
    DIVIDED_TWICE,
    NOT_DIVIDED,
    FIRST_EMPTY_NAN,
    ALL_EMPTY_NAN,
    BINARY_WEIGHTS,
    BINARY_LSE,
    NAN_HIDDEN,
};

#define O   (1u << ATTN_RESULT_O)
#define LSE (1u << ATTN_RESULT_LSE)
#define BINARY                                                                                   \
    "a binary exponential or logarithm meets a natural one: L_s is a natural logarithm, so the " \
    "weights are expf(L_s - m), not exp2f, and L = m + logf(l), not log2f"
#define EMPTY                                                                                 \
    "a slice without keys gives NaN. Its L_s is -infinity, and so is the maximum as long as " \
    "there "                                                                                  \
    "is no other: (-inf) - (-inf) is NaN; and where all slices are such, l is 0, and 0/0 is NaN"
#define NO_MAXIMUM                                                                            \
    "the weights are taken without their maximum: e^L_s overflows fp32 beyond L_s = 88, and " \
    "underflows below -104. Subtract the largest L_s first: e^(L_s - m)"
#define SLICE_MEAN                                                                                 \
    "this is the mean of the slices. They do not count alike: a slice's weight is the sum of its " \
    "e^score, e^L_s, in proportion to that of all"

const mistake merge_mistakes[] = {
    {MEAN, O, SLICE_MEAN},
    {MEAN_OF_THOSE_WITH_KEYS, O, SLICE_MEAN},
    {WITHOUT_MAXIMUM, O, NO_MAXIMUM},
    {WITHOUT_MAXIMUM, LSE, NO_MAXIMUM},
    {DIVIDED_TWICE, O, "O is normalised twice: it is divided by the sum of the weights once"},
    {NOT_DIVIDED, O,
     "O is not normalised: the weights e^(L_s - m) sum to l, not to 1. Divide by l, once"},
    {FIRST_EMPTY_NAN, O, EMPTY},
    {FIRST_EMPTY_NAN, LSE, EMPTY}, // O was saved by a guard, perhaps
    {ALL_EMPTY_NAN, O, EMPTY},
    {ALL_EMPTY_NAN, LSE, EMPTY},
    {BINARY_WEIGHTS, O, BINARY},
    {BINARY_LSE, LSE, BINARY},
    {NAN_HIDDEN, O,
     "a NaN in the input is hidden: it makes l NaN, and l > 0 is false for NaN, too, so the row "
     "becomes 0, like one without keys. Ask whether l is 0: NaN must stay NaN"},
    {0, 0, NULL},
};

enum { S = EXERCISE4_SLICES };

// O_s [S][d] and L_s [S] of one row.
static void slices_of(const attn_problem *p, const float *q, const float *k, const float *v,
                      double *score, double *o, double *lse) {
    const int64_t d = p->head_dim;
    for (int s = 0; s < S; s++) {
        const int64_t first = EXERCISE4_FIRST_OF_SLICE(s, p->kv_len);
        const int64_t end = EXERCISE4_FIRST_OF_SLICE(s + 1, p->kv_len);
        double m = -INFINITY, l = 0;
        for (int64_t c = 0; c < d; c++) o[s * d + c] = 0;
        for (int64_t j = first; j < end; j++) {
            score[j] = 0;
            for (int64_t c = 0; c < d; c++) score[j] += (double)q[c] * k[j * d + c];
            score[j] *= p->scale;
            m = fmax(m, score[j]);
        }
        for (int64_t j = first; j < end; j++) {
            l += exp(score[j] - m);
            for (int64_t c = 0; c < d; c++) o[s * d + c] += exp(score[j] - m) * v[j * d + c];
        }
        for (int64_t c = 0; c < d && end > first; c++) o[s * d + c] /= l;
        lse[s] = m + log(l);
    }
}

static void merge(int what, int64_t d, const double *o_part, const double *lse_part, double *o,
                  double *lse) {
    double m = -INFINITY, l = 0, weight[S];
    int with_keys = 0;
    for (int s = 0; s < S; s++) m = fmax(m, lse_part[s]);
    for (int s = 0; s < S; s++) {
        const int empty = lse_part[s] == -INFINITY;
        const double x = m == -INFINITY ? -INFINITY : lse_part[s] - m;
        with_keys += !empty;
        weight[s] = exp(x);
        if (what == WITHOUT_MAXIMUM) weight[s] = expf((float)lse_part[s]);
        if (what == BINARY_WEIGHTS) weight[s] = exp2(x);
        if (what == MEAN) weight[s] = 1;
        if (what == MEAN_OF_THOSE_WITH_KEYS) weight[s] = !empty;
        l += weight[s];
    }
    const int broken = (what == FIRST_EMPTY_NAN && lse_part[0] == -INFINITY) ||
                       (what == ALL_EMPTY_NAN && with_keys == 0);
    for (int64_t c = 0; c < d; c++) {
        o[c] = broken ? NAN : 0;
        for (int s = 0; s < S; s++) o[c] += weight[s] * o_part[s * d + c];
        if (with_keys > 0 && what != NOT_DIVIDED) o[c] /= l;
        if (with_keys > 0 && what == DIVIDED_TWICE) o[c] /= l;
    }
    for (int64_t c = 0; c < d && what == NAN_HIDDEN && isnan(l); c++) o[c] = 0;
    *lse = with_keys == 0 ? -INFINITY : m + (what == BINARY_LSE ? log2(l) : log(l));
    if (what == WITHOUT_MAXIMUM) *lse = logf((float)l);
    if (broken) *lse = NAN;
}

void imitate_merge(const exercise *e, const attn_trial *trial, int mistake, imitation *out) {
    const attn_problem *p = &trial->problem;
    const attn_inputs *in = &trial->inputs;
    const int64_t d = p->head_dim, group = p->heads / p->kv_heads;
    double *score = calloc((size_t)p->kv_len + 1, sizeof *score);
    double *o_part = calloc((size_t)(S * d), sizeof *o_part), lse_part[S];
    (void)e;
    for (int64_t row = 0; row < (int64_t)attn_rows(p) && score && o_part; row++) {
        const int64_t head = row / p->q_len / group * p->kv_len * d;
        slices_of(p, in->q + row * d, in->k + head, in->v + head, score, o_part, lse_part);
        merge(mistake, d, o_part, lse_part, out->result[ATTN_RESULT_O] + row * d,
              &out->result[ATTN_RESULT_LSE][row]);
    }
    free(score);
    free(o_part);
}
