// rows.cu -- exercise 3 as a stage: what it must do, and the bytes it is held to.
#include "chapters/03-tiled-q-outer/exercise/exercise.cuh"
#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"

static attn_status supports(const attn_problem *p) {
    if (p->head_dim <= MAX_D) return attn_ok();
    return attn_error(ATTN_UNSUPPORTED, "the exercise has head dimensions up to %d", MAX_D);
}

static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) q_outer_add_bytes(p, ((uint64_t)p->q_len + BR - 1) / BR, traffic);
}

static double flops(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? 4 * (double)p->head_dim * (double)attn_score_elements(p) : 0;
}

static const attn_stage stages[] = {{
    "exercise",
    "exercise 3",
    ATTN_HAS_GROUPED_HEADS,
    0,
    NULL,
    supports,
    NULL,
    exercise_forward,
    NULL,
    bytes,
    flops,
    NULL,
    NULL,
}};

ATTN_MODULE(3, "Exercise 3", "make grade3", gpu_device(), stages)
