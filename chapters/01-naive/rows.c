// rows.c -- chapter 1's row of the stage table on the host, and its closed forms.
#include "chapters/01-naive/naive.h"
#include "chapters/01-naive/title.h"

int naive_buffers(const attn_problem *problem, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]) {
    const uint64_t scores = attn_score_elements(problem);
    const uint64_t bytes = scores > UINT64_MAX / 4 ? UINT64_MAX : 4 * scores;
    const attn_buffer forward[2] = {{"s", bytes, 0}, {"p", bytes, 1}};
    const attn_buffer backward[2] = {{"dp", bytes, 0}, {"ds", bytes, 0}};
    for (int i = 0; i < 2; i++) need[i] = pass == ATTN_FORWARD ? forward[i] : backward[i];
    return 2;
}

// naive.c and naive_backward.c derive these. `pairs` counts visible pairs in all heads.
static void naive_bytes(const attn_problem *problem, attn_pass pass, attn_traffic *traffic) {
    const uint64_t pairs =
        (uint64_t)(problem->batch * problem->heads) * attn_visible_pairs(problem);
    const uint64_t scores = 4 * attn_score_elements(problem), d = (uint64_t)problem->head_dim;
    const uint64_t q = 4 * attn_q_elements(problem), kv = 4 * attn_kv_elements(problem);
    const uint64_t per_pair = 4 * pairs, row_per_pair = 4 * pairs * d;
    if (pass == ATTN_FORWARD) {
        attn_traffic_add(traffic, "q", q, 0);
        attn_traffic_add(traffic, "k", row_per_pair, 0);
        attn_traffic_add(traffic, "v", row_per_pair, 0);
        attn_traffic_add(traffic, "s", 3 * per_pair, scores);
        attn_traffic_add(traffic, "p", per_pair, scores);
        attn_traffic_add(traffic, "o", 0, q);
        attn_traffic_add(traffic, "lse", 0, 4 * attn_rows(problem));
    } else {
        attn_traffic_add(traffic, "do", q + row_per_pair,
                         0); // for dP a row a query; for dV a row a pair
        attn_traffic_add(traffic, "v", row_per_pair, 0);
        attn_traffic_add(traffic, "p", 3 * per_pair, 0); // for D, for dS, for dV
        attn_traffic_add(traffic, "dp", per_pair, per_pair);
        attn_traffic_add(traffic, "ds", 2 * per_pair, per_pair); // for dQ, for dK
        attn_traffic_add(traffic, "k", row_per_pair, 0);
        attn_traffic_add(traffic, "q", row_per_pair, 0);
        attn_traffic_add(traffic, "dq", 0, q);
        attn_traffic_add(traffic, "dk", 0, kv);
        attn_traffic_add(traffic, "dv", 0, kv);
    }
}

static double naive_flops(const attn_problem *problem, attn_pass pass) {
    const double products = pass == ATTN_FORWARD ? 2 : 4; // Q K^T, P V; and dV, dP, dQ, dK
    return products * 2 * (double)problem->head_dim * (double)(problem->batch * problem->heads) *
           (double)attn_visible_pairs(problem);
}

static const attn_stage stages[] = {{
    .name = "naive",
    .idea = "three passes, S and P in memory",
    .features = ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS,
    .yardstick = 1,
    .buffers = naive_buffers,
    .forward = naive_forward,
    .backward = naive_backward,
    .bytes = naive_bytes,
    .flops = naive_flops,
    .too_large = CHAPTER_TOO_LARGE,
}};

ATTN_MODULE(1, CHAPTER_TITLE, CHAPTER_PREDICT, attn_host_device(), stages)
