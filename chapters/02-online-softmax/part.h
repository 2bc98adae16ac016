// part.h -- one query head of one sequence: the part of a problem that a tile never leaves. Where its
// rows lie, which keys it sees, and what its scores go through.
//
// Without variable lengths all of a batch's member is one sequence. Strides and packed sequences are
// nothing but another first row, and another way from a row to the next.
#ifndef ATTN_PART_H
#define ATTN_PART_H

#include "chapters/02-online-softmax/score_steps.h"
#include "chapters/02-online-softmax/stages.h"

#include <math.h>

typedef struct part {
    const float *q, *k, *v; // its first rows
    float *o, *lse;
    size_t q_row, k_row, v_row, o_row; // elements from one row to the next; of lse it is 1
    attn_band band;
    score_steps steps;
} part;

// Where row `row` of a head begins, in elements.
static inline int64_t element_of(attn_stride stride, int64_t batch, int64_t head, int64_t row) {
    return batch * stride.batch + head * stride.head + row * stride.row;
}

// Which [q_len][kv_len] of a bias or a mask is that of a head: 1 stands for one that is shared by all.
static inline int64_t shared_head(const attn_problem *p, int64_t batches, int64_t heads,
                                  int64_t batch, int64_t head) {
    return ((batches == 1 ? 0 : batch) * heads + (heads == 1 ? 0 : head)) * p->q_len * p->kv_len;
}

static inline score_steps score_steps_of(const attn_problem *p, const attn_tensors *t, int64_t s,
                                         int64_t batch, int64_t head) {
    const attn_sequence rows = attn_sequence_of(p, s);
    score_steps steps = {.softcap = p->softcap, .row = (size_t)p->kv_len};
    steps.shift = p->causal == ATTN_CAUSAL_TOP_LEFT ? 0 : (int)(rows.kv_len - rows.q_len);
    if (p->alibi) steps.slope = exp2f(-8.0f * (float)(head + 1) / (float)p->heads);
    if (p->bias_heads != 0)
        steps.bias = t->bias + shared_head(p, p->bias_batch, p->bias_heads, batch, head);
    if (p->mask_heads != 0)
        steps.mask = t->mask + shared_head(p, p->mask_batch, p->mask_heads, batch, head);
    steps.change_scores = p->softcap != 0 || p->alibi || p->bias_heads != 0;
    steps.drops = p->dropout != 0;
    steps.dropout = attn_dropout_of(p);
    steps.head = (uint32_t)((p->sequences != 0 ? s : batch) * p->heads + head);
    return steps;
}

// Sequence s, query head `head` of [batch][heads].
static inline part part_of(const attn_problem *p, const attn_tensors *t, int64_t s, int64_t head) {
    const attn_problem alone = attn_problem_of_sequence(p, s);
    const attn_sequence rows = attn_sequence_of(p, s);
    const attn_layout at = attn_layout_of(p);
    const int64_t b = head / p->heads, h = head % p->heads, kv_h = h / (p->heads / p->kv_heads);
    part x = {
        .q = (const float *)t->q + element_of(at.q, b, h, rows.q_first),
        .k = (const float *)t->k + element_of(at.k, b, kv_h, rows.kv_first),
        .v = (const float *)t->v + element_of(at.v, b, kv_h, rows.kv_first),
        .o = (float *)t->o + element_of(at.o, b, h, rows.q_first),
        .lse = t->lse + head * p->q_len + rows.q_first,
        .q_row = (size_t)at.q.row,
        .k_row = (size_t)at.k.row,
        .v_row = (size_t)at.v.row,
        .o_row = (size_t)at.o.row,
        .band = attn_band_of(&alone),
        .steps = score_steps_of(p, t, s, b, h),
    };
    return x;
}

#endif
