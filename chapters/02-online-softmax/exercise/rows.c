// rows.c -- exercise 2 as a stage: every query takes in every key, once, through the learner's functions.
#include "chapters/02-online-softmax/exercise/online_row.h"
#include "chapters/02-online-softmax/stages.h"

static attn_status supports(const attn_problem *p) {
    if (p->head_dim <= EXERCISE2_MAX_D) return attn_ok();
    return attn_error(ATTN_UNSUPPORTED, "the exercise has head dimensions up to %d",
                      EXERCISE2_MAX_D);
}

static attn_status forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    (void)buffer;
    const int d = (int)p->head_dim;
    for (int64_t n = 0; n < p->batch * p->heads; n++) {
        const head_view head = head_of(p, t, n);
        for (int64_t i = 0; i < p->q_len; i++) {
            online_row row;
            row_begin(&row, d);
            for (int64_t j = 0; j < p->kv_len; j++) {
                float s = 0;
                for (int c = 0; c < d; c++) s += head.q[i * d + c] * head.k[j * d + c];
                row_add_key(&row, p->scale * s, head.v + j * d, d);
            }
            row_end(&row, d, head.o + i * d, head.lse + i);
        }
    }
    return attn_ok();
}

static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) tiled_model(p, 1, traffic);
}

static double flops(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? 4 * (double)p->head_dim * (double)attn_score_elements(p) : 0;
}

static const attn_stage stages[] = {{
    .name = "exercise",
    .idea = "exercise 2",
    .features = ATTN_HAS_GROUPED_HEADS,
    .supports = supports,
    .forward = forward,
    .bytes = bytes,
    .flops = flops,
}};

ATTN_MODULE(2, "Exercise 2", "make grade2", attn_host_device(), stages)
