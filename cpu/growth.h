// growth.h -- how a stage's bytes grow with the length of the sequences, from its closed forms.
#ifndef ATTN_GROWTH_H
#define ATTN_GROWTH_H

#include "cpu/stage.h"

typedef enum attn_growth {
    ATTN_GROWTH_UNKNOWN =
        0,              // how the problem is cut changes on the way, or it cannot be made so long
    ATTN_GROWTH_NONE,   // no more with N
    ATTN_GROWTH_LINEAR, // N
    ATTN_GROWTH_SQUARE, // N^2
} attn_growth;

typedef enum attn_amount { ATTN_READ_BYTES, ATTN_EXTRA_BYTES } attn_amount;

// The bytes that the pass reads, or asks for besides the tensors.
double attn_amount_of(const attn_stage *stage, const attn_problem *problem, attn_pass pass,
                      attn_amount what);

// The law they follow where q_len and kv_len grow together from the problem's own.
attn_growth attn_growth_of(const attn_stage *stage, const attn_problem *problem, attn_pass pass,
                           attn_amount what);

#endif
