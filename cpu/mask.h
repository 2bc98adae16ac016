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

// What of a band does not depend on the lengths; a kernel makes each sequence's band of it.
typedef struct attn_band_rule {
    int bottom_right; // query i stands at key position i + kv_len - q_len; else at i
    int first, end;   // of j - i', i' that position
} attn_band_rule;
attn_band_rule attn_band_rule_of(const attn_problem *problem);

// The key position that query 0 stands at.
ATTN_INLINE int attn_band_shift(attn_band_rule rule, int q_len, int kv_len) {
    return rule.bottom_right ? kv_len - q_len : 0;
}
ATTN_INLINE attn_band attn_band_of_lengths(attn_band_rule rule, int q_len, int kv_len) {
    const int shift = attn_band_shift(rule, q_len, kv_len);
    attn_band band;
    band.q_len = q_len, band.kv_len = kv_len;
    // |shift| and the bounds are at most 2^30, and an open bound stays open.
    band.first = rule.first == -ATTN_BAND_OPEN ? rule.first : rule.first + shift;
    band.end = rule.end == ATTN_BAND_OPEN ? rule.end : rule.end + shift;
    if (band.first < -ATTN_BAND_OPEN) band.first = -ATTN_BAND_OPEN;
    if (band.end > ATTN_BAND_OPEN) band.end = ATTN_BAND_OPEN;
    return band;
}

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
