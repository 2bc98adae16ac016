// rows.c -- exercise 1 as a stage that only has a formula: what it is held against, naive does.
#include "chapters/01-naive/exercise/bytes.h"

static attn_status forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    (void)p, (void)t, (void)buffer;
    return attn_error(ATTN_UNSUPPORTED, "exercise 1 is a formula, and computes nothing");
}

static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) exercise_bytes(p, traffic);
}

static double flops(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? 4 * (double)p->head_dim * (double)attn_score_elements(p) : 0;
}

static const attn_stage stages[] = {{
    .name = "exercise",
    .idea = "exercise 1",
    .features = ATTN_HAS_GROUPED_HEADS,
    .forward = forward,
    .bytes = bytes,
    .flops = flops,
}};

ATTN_MODULE(1, "Exercise 1", "make grade1", attn_host_device(), stages)
