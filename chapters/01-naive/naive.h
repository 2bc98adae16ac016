// naive.h -- what the forward and the backward pass of chapter 1 on the CPU share.
#ifndef NAIVE_H
#define NAIVE_H

#include "cpu/mask.h"
#include "cpu/stage.h"

attn_status naive_forward(const attn_problem *problem, const attn_tensors *t, void *const *buffer);
attn_status naive_backward(const attn_problem *problem, const attn_tensors *t, void *const *buffer);

// The buffers of both passes: forward s, p; backward dp, ds; each [B][H][q_len][kv_len] floats.
int naive_buffers(const attn_problem *problem, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]);

// Where query row `row` of q, o and lse [B][H][q_len] stands.
typedef struct naive_row {
    int64_t kv_row; // its head's row 0 in k and v, counted in rows of [B][kv_heads][kv_len]
    int first, end; // the keys it sees: first <= j < end, none when first == end
} naive_row;

static inline naive_row naive_row_at(const attn_problem *problem, attn_band band, int64_t row) {
    const int64_t head = row / problem->q_len; // over batch * heads
    const int i = (int)(row % problem->q_len);
    // Heads share keys in groups; an index over batch * heads divides by the group's size as well.
    const int64_t kv_head = head / (problem->heads / problem->kv_heads);
    naive_row at = {kv_head * problem->kv_len, attn_first_key(band, i), attn_end_key(band, i)};
    if (at.first > at.end) at.first = at.end;
    return at;
}

static inline float naive_dot(const float *a, const float *b, int64_t d) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < d; c++) sum += a[c] * b[c];
    return sum;
}

static inline void naive_add_multiple(float *to, float factor, const float *from, int64_t d) {
    for (int64_t c = 0; c < d; c++) to[c] += factor * from[c];
}

#endif
