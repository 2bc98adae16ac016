// definition.h -- who sees whom, pair by pair, straight from problem.h: no band.
#ifndef TESTS_DEFINITION_H
#define TESTS_DEFINITION_H

#include "cpu/problem.h"

static inline int query_sees_key(const attn_problem *p, int64_t i, int64_t j) {
    const int64_t position = p->causal == ATTN_CAUSAL_TOP_LEFT ? i : i + p->kv_len - p->q_len;
    if (j < 0 || j >= p->kv_len) return 0;
    if (p->causal != ATTN_CAUSAL_OFF && j > position) return 0;
    if (p->window_left != 0 && !(position - j < p->window_left)) return 0;
    if (p->window_right != 0 && !(j - position < p->window_right)) return 0;
    return 1;
}

// The same for rows of packed sequences, which see keys of their own only.
static inline int packed_query_sees_key(const attn_problem *p, int64_t i, int64_t j) {
    if (p->sequences == 0) return query_sees_key(p, i, j);
    for (int64_t s = 0; s < p->sequences; s++) {
        const int64_t q = p->q_cumulative[s], k = p->kv_cumulative[s];
        if (i < q || i >= p->q_cumulative[s + 1]) continue;
        attn_problem alone = *p;
        alone.q_len = p->q_cumulative[s + 1] - q, alone.kv_len = p->kv_cumulative[s + 1] - k;
        return query_sees_key(&alone, i - q, j - k);
    }
    return 0;
}

// Some query sees it.
static inline int key_is_seen(const attn_problem *p, int64_t j) {
    for (int64_t i = 0; i < p->q_len; i++)
        if (query_sees_key(p, i, j)) return 1;
    return 0;
}

static inline int query_sees_any(const attn_problem *p, int64_t i) {
    for (int64_t j = 0; j < p->kv_len; j++)
        if (query_sees_key(p, i, j)) return 1;
    return 0;
}

#endif
