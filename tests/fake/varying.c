// varying.c -- a chapter for tests of what the program prints: its answers are the reference's, but every
// second run has each fourth element of dq three units further from 0. It claims to recompute: 10 FLOPs a
// pair and d backward, and L is all that it reads of the forward pass' besides O. With d = 7, and no case
// has it, the last row of O is wrong.
#include "cpu/reference.h"
#include "cpu/stage.h"

#include <string.h>

static void round_to(float *to, const double *from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = (float)from[i];
}

static attn_status forward(const attn_problem *problem, const attn_tensors *t,
                           void *const *buffer) {
    const attn_inputs inputs = {.q = t->q, .k = t->k, .v = t->v};
    attn_reference reference;
    (void)buffer;
    ATTN_TRY(attn_reference_compute(problem, &inputs, &reference));
    round_to(t->o, reference.o, attn_q_elements(problem));
    if (problem->head_dim == 7) ((float *)t->o)[attn_q_elements(problem) - 1] += 1;
    round_to(t->lse, reference.lse, attn_rows(problem));
    attn_reference_free(&reference);
    return attn_ok();
}

static attn_status backward(const attn_problem *problem, const attn_tensors *t,
                            void *const *buffer) {
    static unsigned runs;
    const attn_inputs inputs = {.q = t->q, .k = t->k, .v = t->v, .d_o = t->d_o};
    attn_reference reference;
    (void)buffer;
    ATTN_TRY(attn_reference_compute(problem, &inputs, &reference));
    round_to(t->dq, reference.dq, attn_q_elements(problem));
    round_to(t->dk, reference.dk, attn_kv_elements(problem));
    round_to(t->dv, reference.dv, attn_kv_elements(problem));
    attn_reference_free(&reference);
    const uint32_t further = runs++ % 2 ? 3 : 0;
    for (size_t i = 0; i < attn_q_elements(problem); i += 4) {
        float *element = (float *)t->dq + i;
        uint32_t bits;
        memcpy(&bits, element, sizeof bits);
        if (*element != 0) bits += further;
        memcpy(element, &bits, sizeof bits);
    }
    return attn_ok();
}

static void bytes(const attn_problem *problem, attn_pass pass, attn_traffic *traffic) {
    const attn_tensor_bytes all = attn_compulsory_bytes(problem, pass);
    const uint64_t lse = 4 * attn_rows(problem);
    attn_traffic_add(traffic, "q", all.read, all.written);
    if (pass == ATTN_BACKWARD) attn_traffic_add(traffic, "lse", lse, 0);
}

static double flops(const attn_problem *problem, attn_pass pass) {
    return attn_useful_flops(problem, pass);
}

static const attn_stage stages[] = {{
    .name = "varying",
    .idea = "the reference's answers, dq not twice the same",
    .features = ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS,
    .forward = forward,
    .backward = backward,
    .bytes = bytes,
    .flops = flops,
}};

ATTN_MODULE(9, "A chapter for tests", "make test", attn_host_device(), stages)
