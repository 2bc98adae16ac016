// mask.h -- which keys a query sees: a band around the diagonal, so two numbers say it all.
//
// Causal masks and sliding windows are both of the form  first <= j - i < end,  i the query, j the
// key. Everything that skips, masks or counts asks this file. (The reference does not: it is
// written from the definition in problem.h, so that a mistake here cannot hide.)
#ifndef ATTN_MASK_H
#define ATTN_MASK_H

#include "cpu/inline.h"
#include "cpu/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

// Query i sees key j when  0 <= j < kv_len  and  first <= j - i < end.
typedef struct attn_band {
    int q_len, kv_len;
    int first, end;
} attn_band;

// Lengths are below 2^30 (attn_problem_check), so the bounds of an absent mask can stand outside.
enum { ATTN_BAND_OPEN = 1 << 30 };

// Of variable lengths each sequence has its own: attn_band_of(attn_problem_of_sequence(..)).
attn_band attn_band_of(const attn_problem *problem);

// The keys that query i sees are [attn_first_key, attn_end_key): empty when first >= end.
ATTN_INLINE int attn_first_key(attn_band band, int i) {
    int first = i + band.first;
    return first < 0 ? 0 : first;
}
ATTN_INLINE int attn_end_key(attn_band band, int i) {
    int end = i + band.end;
    return end < 0 ? 0 : end > band.kv_len ? band.kv_len : end;
}

// Pairs (query, key) that see each other, in one head: what the useful FLOPs count. Of all sequences;
// what a mask of bytes hides besides is counted.
uint64_t attn_visible_pairs(const attn_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
