// gradients.c -- the usual mistakes of a backward pass (exercise 5), each computed.
#include "tests/grade/grader.h"

#include <math.h>
#include <stdlib.h>

enum {
    NO_D,
    D_OF_DP,
    D_OF_ONE_PAIR,
    D_OF_DO,
    D_OF_O,
    DQ_WITHOUT_SCALE,
    DK_WITHOUT_SCALE,
    SCALE_TWICE,
    M_FOR_L,
    DQ_OF_ONE_TILE,
};

#define DQ (1u << ATTN_RESULT_DQ)
#define DK (1u << ATTN_RESULT_DK)
#define DV (1u << ATTN_RESULT_DV)
#define WRONG_D                                                                               \
    "D is wrong: it is sum_j P_ij dP_ij, each dP with its weight, and that is dO_i . O_i, d " \
    "products and no pass over the keys"
#define NO_SCALE                                                                              \
    "the scale is lost: the scores are scale * Q K^T, so dQ = scale * dS K and dK = scale * " \
    "dS^T Q, both"

const mistake gradient_mistakes[] = {
    {NO_D, DQ | DK,
     "D is left out: dS = P (dP - D), for a softmax row sums to 1 whatever its scores are, and D "
     "takes off what would change that sum"},
    {D_OF_DP, DQ | DK, WRONG_D},
    {D_OF_ONE_PAIR, DQ | DK, WRONG_D},
    {D_OF_DO, DQ | DK, WRONG_D},
    {D_OF_O, DQ | DK, WRONG_D},
    {M_FOR_L, DQ | DK | DV,
     "P is computed with m instead of L: e^(S - m) is not divided by l; e^(S - L) is, for "
     "L = m + log l"},
    {DQ_WITHOUT_SCALE, DQ, NO_SCALE},
    {DK_WITHOUT_SCALE, DK, NO_SCALE},
    {SCALE_TWICE, DQ, "the scale is applied twice: in dS and in dQ, perhaps"},
    {DQ_OF_ONE_TILE, DQ,
     "dQ is that of the last tile of keys alone: each block must add its part to what the others "
     "have put there, hbm_atomic_add(&dq[..], part), not store it"},
    {0, 0, NULL},
};

typedef struct head {
    const attn_problem *p;
    const float *q, *k, *v, *d_o; // of this head
    const double *o, *lse;
    double *dq, *dk, *dv, *dp;
} head;

static double dot(const float *a, const float *b, int64_t d) {
    double sum = 0;
    for (int64_t c = 0; c < d; c++) sum += (double)a[c] * b[c];
    return sum;
}

static void query(const exercise *e, const head *h, int what, int64_t i) {
    const int64_t d = h->p->head_dim, keys = h->p->kv_len;
    const float *q = h->q + i * d, *d_o = h->d_o + i * d;
    const double scale = h->p->scale, *o = h->o + i * d;
    double row_sum = 0, shift = h->lse[i];
    if (what == M_FOR_L) shift = -INFINITY;
    for (int64_t j = 0; j < keys; j++) {
        h->dp[j] = dot(d_o, h->v + j * d, d);
        if (what == D_OF_DP) row_sum += h->dp[j];
        if (what == M_FOR_L) shift = fmax(shift, scale * dot(q, h->k + j * d, d));
    }
    for (int64_t c = 0; c < d && what != D_OF_DP && what != NO_D; c++)
        row_sum += what == D_OF_DO  ? (double)d_o[c] * d_o[c]
                   : what == D_OF_O ? o[c] * o[c]
                                    : o[c] * d_o[c];
    for (int64_t j = 0; j < keys; j++) {
        const double p = exp(scale * dot(q, h->k + j * d, d) - shift);
        const double ds = p * (h->dp[j] - (what == D_OF_ONE_PAIR ? p * h->dp[j] : row_sum));
        const double of_dq = what == DQ_WITHOUT_SCALE ? 1
                             : what == SCALE_TWICE    ? scale * scale
                                                      : scale;
        const double of_dk = what == DK_WITHOUT_SCALE ? 1 : scale;
        const int counts = what != DQ_OF_ONE_TILE || j / e->bc == (keys - 1) / e->bc;
        for (int64_t c = 0; c < d; c++) {
            if (counts) h->dq[i * d + c] += of_dq * ds * h->k[j * d + c];
            h->dk[j * d + c] += of_dk * ds * q[c];
            h->dv[j * d + c] += p * d_o[c];
        }
    }
}

void imitate_gradients(const exercise *e, const attn_trial *trial, int mistake, imitation *out) {
    const attn_problem *p = &trial->problem;
    const int64_t d = p->head_dim;
    double *dp = calloc((size_t)p->kv_len + 1, sizeof *dp);
    for (int64_t n = 0; n < p->batch * p->heads && dp; n++) {
        const int64_t at = n * p->q_len * d, key = n * p->kv_len * d;
        const head h = {p,
                        trial->inputs.q + at,
                        trial->inputs.k + key,
                        trial->inputs.v + key,
                        trial->inputs.d_o + at,
                        trial->reference.o + at,
                        trial->reference.lse + n * p->q_len,
                        out->result[ATTN_RESULT_DQ] + at,
                        out->result[ATTN_RESULT_DK] + key,
                        out->result[ATTN_RESULT_DV] + key,
                        dp};
        for (int64_t i = 0; i < p->q_len; i++) query(e, &h, mistake, i);
    }
    free(dp);
}
