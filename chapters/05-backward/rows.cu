// rows.cu -- chapter 5's rows of the stage table on the GPU and the emulator, and their closed forms.
#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"
#include "chapters/05-backward/backward.cuh"
#include "chapters/05-backward/title.h"

#define TILES \
    "128x128 (d <= 64), 64x128 (d <= 128) or 32x64; smaller where a block has less than 227 KB"

// D, one number a row. O and L, which the backward pass needs as well, are the forward pass' results.
static int backward_buffers(const attn_problem *p, attn_pass pass,
                            attn_buffer need[ATTN_MAX_BUFFERS]) {
    const attn_buffer d = {"d", 4 * attn_rows(p), 0};
    if (pass == ATTN_FORWARD) return 0;
    need[0] = d;
    return 1;
}

// ---- (a) one pass: dQ by atomic additions ----
static attn_status atomic_backward(const attn_problem *p, const attn_tensors *t,
                                   void *const *buffer) {
    float *d = (float *)buffer[0];
    ATTN_TRY(backward_row_sums((const float *)t->o, (const float *)t->d_o, d, attn_rows(p),
                               (int)p->head_dim));
    ATTN_TRY(gpu_memset(t->dq, 0, 4 * attn_q_elements(p))); // what is added to
    return backward_kv_outer(p, t, d, true);
}

// ---- (b) two passes: each block owns what it writes ----
static attn_status two_pass_backward(const attn_problem *p, const attn_tensors *t,
                                     void *const *buffer) {
    float *d = (float *)buffer[0];
    ATTN_TRY(backward_row_sums((const float *)t->o, (const float *)t->d_o, d, attn_rows(p),
                               (int)p->head_dim));
    ATTN_TRY(backward_kv_outer(p, t, d, false));
    return backward_q_outer(p, t, d);
}

// ---- bytes: row_sums.cu, backward_kv.cu and backward_q.cu have the formulas; here they are added up ----
static void add_row_sums(const attn_problem *p, attn_traffic *traffic) {
    attn_traffic_add(traffic, "o", 4 * attn_q_elements(p), 0);
    attn_traffic_add(traffic, "do", 4 * attn_q_elements(p), 0);
    attn_traffic_add(traffic, "d", 0, 4 * attn_rows(p));
}

// Q, dO, L and D `of_rows` times, K and V `of_keys` times.
static void add_inputs(const attn_problem *p, uint64_t of_rows, uint64_t of_keys,
                       attn_traffic *traffic) {
    const uint64_t q = 4 * attn_q_elements(p), kv = 4 * attn_kv_elements(p);
    attn_traffic_add(traffic, "q", of_rows * q, 0);
    attn_traffic_add(traffic, "do", of_rows * q, 0);
    attn_traffic_add(traffic, "lse", of_rows * 4 * attn_rows(p), 0);
    attn_traffic_add(traffic, "d", of_rows * 4 * attn_rows(p), 0);
    attn_traffic_add(traffic, "k", of_keys * kv, 0);
    attn_traffic_add(traffic, "v", of_keys * kv, 0);
}

static void add_kv_outer(const attn_problem *p, const backward_plan *plan, attn_traffic *traffic) {
    add_inputs(p, plan->key_tiles, attn_rows(p) > 0, traffic);
    attn_traffic_add(traffic, "dk", 0, 4 * attn_kv_elements(p));
    attn_traffic_add(traffic, "dv", 0, 4 * attn_kv_elements(p));
}

static void atomic_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) {
        q_outer_bytes(p, pass, traffic);
        return;
    }
    const backward_plan plan = backward_plan_of(p);
    const uint64_t q = 4 * attn_q_elements(p);
    add_row_sums(p, traffic);
    attn_traffic_add(traffic, "dq", 0, q); // zeros
    add_kv_outer(p, &plan, traffic);
    attn_traffic_add(traffic, "dq", plan.key_tiles * q, plan.key_tiles * q);
}

static void two_pass_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) {
        q_outer_bytes(p, pass, traffic);
        return;
    }
    const backward_plan plan = backward_plan_of(p);
    add_row_sums(p, traffic);
    add_kv_outer(p, &plan, traffic);
    add_inputs(p, p->kv_len > 0, plan.query_tiles, traffic);
    attn_traffic_add(traffic, "dq", 0, 4 * attn_q_elements(p));
}

// ---- FLOPs: 2d a pair and product ----
static double product_flops(const attn_problem *p, int products) {
    return products * 2.0 * (double)p->head_dim * (double)attn_score_elements(p);
}
static double atomic_flops(const attn_problem *p, attn_pass pass) {
    return product_flops(p, pass == ATTN_FORWARD ? 2 : 5); // S, dV, dP, dK, dQ
}
static double two_pass_flops(const attn_problem *p, attn_pass pass) {
    return product_flops(p, pass == ATTN_FORWARD ? 2 : 7); // S, dV, dP, dK; dP, S, dQ
}

static uint64_t shared_bytes(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? q_outer_shared_bytes(p, pass) : backward_plan_of(p).shared_bytes;
}

static const attn_stage stages[] = {
    {
        "recompute-atomic",
        "one pass, KV outer; dQ by atomic additions: not the same bits twice",
        ATTN_HAS_GROUPED_HEADS,
        0,
        TILES,
        backward_supports,
        backward_buffers,
        q_outer_forward,
        atomic_backward,
        atomic_bytes,
        atomic_flops,
        NULL,
        shared_bytes,
    },
    {
        "recompute-two-pass",
        "KV outer for dK and dV, then Q outer for dQ: 14 FLOPs for 10, the same bits always",
        ATTN_HAS_GROUPED_HEADS,
        0,
        TILES,
        backward_supports,
        backward_buffers,
        q_outer_forward,
        two_pass_backward,
        two_pass_bytes,
        two_pass_flops,
        NULL,
        shared_bytes,
    },
};

ATTN_MODULE(5, CHAPTER_TITLE, CHAPTER_PREDICT, gpu_device(), stages)
