// row_sums.c -- D = rowsum(dO o O), one number a query row, before the keys are walked through.
//
// Softmax's gradient subtracts from each dP_ij the row's mean of them, weighted by P. It looks as if
// that took a pass of its own over the row of P, but P V is O, which is still there:
//
//   D_i = sum_j P_ij dP_ij = sum_j P_ij sum_c dO_ic v_jc
//                          = sum_c dO_ic sum_j P_ij v_jc = sum_c dO_ic O_ic
//
//   bytes   o, do: rows * d * 4 each read;  d: rows * 4 written
#include "chapters/01-naive/naive.h"
#include "chapters/05-backward/stages.h"

void row_sums(const attn_problem *p, const attn_tensors *t, float *d) {
    const attn_stride at = attn_layout_of(p).o; // dO lies as O does
    const int64_t rows = (int64_t)attn_rows(p), columns = p->head_dim;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const int64_t head = row / p->q_len;
        const int64_t first =
            head / p->heads * at.batch + head % p->heads * at.head + row % p->q_len * at.row;
        d[row] = naive_dot((const float *)t->d_o + first, (const float *)t->o + first, columns);
    }
}
