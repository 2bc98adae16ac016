// rows.cu -- exercise 6 as a stage: what it must do, and the bytes it is held to.
#include "chapters/06-masks/exercise/exercise.cuh"
#include "cpu/mask.h"

static attn_status supports(const attn_problem *p) {
    if (p->head_dim <= MAX_D && p->causal == ATTN_CAUSAL_BOTTOM_RIGHT) return attn_ok();
    return attn_error(ATTN_UNSUPPORTED,
                      "the exercise has the causal mask that ends bottom right, and head "
                      "dimensions up to %d",
                      MAX_D);
}

// Keys that all blocks of a head read together.
static uint64_t keys_read(const attn_problem *p) {
    const attn_band band = attn_band_of(p);
    uint64_t keys = 0;
    for (int first = 0; first < band.q_len; first += BR) {
        const int last = first + BR < band.q_len ? first + BR - 1 : band.q_len - 1;
        keys += (uint64_t)attn_end_key(band, last);
    }
    return keys;
}

static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass != ATTN_FORWARD) return;
    const uint64_t kv = 4 * (uint64_t)(p->batch * p->heads * p->head_dim) * keys_read(p);
    attn_traffic_add(traffic, "q", 4 * attn_q_elements(p), 0);
    attn_traffic_add(traffic, "k", kv, 0);
    attn_traffic_add(traffic, "v", kv, 0);
    attn_traffic_add(traffic, "o", 0, 4 * attn_q_elements(p));
    attn_traffic_add(traffic, "lse", 0, 4 * attn_rows(p));
}

static double flops(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? 4 * (double)p->head_dim * (double)(p->batch * p->heads) *
                                      (double)attn_visible_pairs(p)
                                : 0;
}

static const attn_stage stages[] = {{
    "exercise",
    "exercise 6",
    ATTN_HAS_CAUSAL | ATTN_HAS_GROUPED_HEADS,
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

ATTN_MODULE(6, "Exercise 6", "make grade6", gpu_device(), stages)
