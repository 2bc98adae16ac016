// Exercise 2: the online rescale.
//
// The keys of a row go by one at a time, each with its score s and its value v, and none comes back. At the
// end there must be
//
//   O = sum_j e^(s_j - m) v_j / l        m = the largest score        L = log sum_j e^s_j = m + log l
//   l = sum_j e^(s_j - m)
//
// and the largest score may be the last one. What is summed up to then was summed with a smaller m.
#include "chapters/02-online-softmax/exercise/online_row.h"

#include <math.h>

// Before the first key.
void row_begin(online_row *row, int d) {
    // Yours (1): with which m does a row begin that has seen nothing? Scores may lie far below 0.
    //<answer>
    row->m = -INFINITY;
    //<stub> row->m = NAN;
    //</answer>
    row->l = 0;
    for (int c = 0; c < d; c++) row->o[c] = 0;
}

void row_add_key(online_row *row, float s, const float *v, int d) {
    // Yours (2): take the key in.
    //   a. the new maximum;
    //   b. the factor that makes of a sum taken with the old maximum one taken with the new: it is at most 1,
    //      and 0 for the first key;
    //   c. l and o, rescaled, and this key's weight e^(s - m) added, to o times v.
    //<answer>
    const float m = fmaxf(row->m, s);
    // As long as all scores are -infinity, so is the maximum, and (-inf) - (-inf) is NaN.
    const float shift = m == -INFINITY ? 0 : m;
    const float alpha = expf(row->m - shift);
    const float p = expf(s - shift);
    row->l = row->l * alpha + p;
    for (int c = 0; c < d; c++) row->o[c] = row->o[c] * alpha + p * v[c];
    row->m = m;
    //<stub> (void)row, (void)s, (void)v, (void)d; // goes, when yours is there
    //</answer>
}

// After the last key. A row that has seen none has l = 0, and is to have O = 0, L = -infinity.
void row_end(const online_row *row, int d, float *o, float *lse) {
    // Yours (3).
    //<answer>
    for (int c = 0; c < d; c++) o[c] = row->l > 0 ? row->o[c] / row->l : row->o[c];
    *lse = row->m + logf(row->l);
    //<stub> for (int c = 0; c < d; c++) o[c] = row->o[c];
    //<stub> *lse = row->m;
    //</answer>
}
