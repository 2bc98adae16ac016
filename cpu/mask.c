// mask.c -- see mask.h.
#include "cpu/mask.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

attn_band attn_band_of(const attn_problem *p) {
    // Query i stands at key position i + shift. Causal, bottom-right: the last query sees all keys.
    const int64_t shift = p->causal == ATTN_CAUSAL_TOP_LEFT ? 0 : p->kv_len - p->q_len;
    int64_t first = -ATTN_BAND_OPEN, end = ATTN_BAND_OPEN;
    if (p->causal != ATTN_CAUSAL_OFF) end = shift + 1;
    // A window wider than any length is no window; clamped first, so that the sums cannot overflow.
    if (p->window_left > 0) first = shift - smaller(p->window_left, ATTN_BAND_OPEN) + 1;
    if (p->window_right > 0) end = smaller(end, shift + smaller(p->window_right, ATTN_BAND_OPEN));
    attn_band band = {(int)p->q_len, (int)p->kv_len, (int)larger(first, -ATTN_BAND_OPEN),
                      (int)smaller(end, ATTN_BAND_OPEN)};
    return band;
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
