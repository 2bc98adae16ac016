// mask.c -- see mask.h.
#include "cpu/mask.h"

static int smaller(int64_t a, int64_t b) {
    return (int)(a < b ? a : b);
}

attn_band_rule attn_band_rule_of(const attn_problem *p) {
    attn_band_rule rule = {p->causal != ATTN_CAUSAL_TOP_LEFT, -ATTN_BAND_OPEN, ATTN_BAND_OPEN};
    if (p->causal != ATTN_CAUSAL_OFF) rule.end = 1;
    // A window wider than any length is no window; clamped first, so that sums cannot overflow.
    if (p->window_left > 0) rule.first = 1 - smaller(p->window_left, ATTN_BAND_OPEN);
    if (p->window_right > 0) rule.end = smaller(rule.end, p->window_right);
    return rule;
}

attn_band attn_band_of(const attn_problem *p) {
    return attn_band_of_lengths(attn_band_rule_of(p), (int)p->q_len, (int)p->kv_len);
}

static uint64_t pairs_in(attn_band band) {
    uint64_t pairs = 0;
    for (int i = 0; i < band.q_len; i++) {
        int first = attn_first_key(band, i), end = attn_end_key(band, i);
        if (end > first) pairs += (uint64_t)(end - first);
    }
    return pairs;
}

uint64_t attn_visible_pairs(const attn_problem *p) {
    uint64_t pairs = 0;
    if (p->sequences == 0) return pairs_in(attn_band_of(p));
    for (int64_t s = 0; s < p->sequences; s++) {
        const attn_problem alone = attn_problem_of_sequence(p, s);
        pairs += pairs_in(attn_band_of(&alone));
    }
    return pairs;
}
