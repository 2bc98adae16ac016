// variants.cuh -- one problem with everything that chapter 6's second stage can do, as its kernels get it.
//
// What is added to the masked kernels is of two kinds, each in a header of its own:
//
//   places.cuh        where the rows of a head lie: strides, and sequences of their own lengths
//   score_steps.cuh   what happens to a score besides: softcap, bias, ALiBi, a mask of bytes; and dropout
//
// A step that is off is one comparison a tile, the same for all threads. With all of them off chapter 3 and
// 5's kernels run, or `masked`.
#ifndef VARIANTS_CUH
#define VARIANTS_CUH

#include "chapters/06-masks/masked.cuh"
#include "cpu/dropout.h"

// Of a tensor [batch or 1][heads or 1][q_len][kv_len]: elements from one batch and one head to the next.
typedef struct variant_pairs {
    int64_t batch, head;
} variant_pairs;

typedef struct variant_shape {
    // places.cuh
    int q_len, kv_len; // of all sequences together
    int d, heads, group;
    unsigned members;                            // of the batch, or sequences
    unsigned heads_in_all, tiles, together;      // the grid: masked.cuh
    const int32_t *q_cumulative, *kv_cumulative; // in device memory, or NULL
    attn_layout stride;
    attn_band_rule rule;
    bool banded; // the rule masks anything
    bool vectors;

    // score_steps.cuh
    float scale, softcap;
    bool alibi, drops;
    const float *bias;         // NULL: none
    const unsigned char *mask; // NULL: none
    variant_pairs bias_stride, mask_stride;
    attn_dropout drop;
} variant_shape;

// For a grid of so many blocks a head, `heads` of each member.
variant_shape variant_shape_of(const attn_problem *p, const attn_tensors *t, unsigned heads,
                               uint64_t tiles);
// Tiles of the longest member: blocks of members that have fewer return at once.
uint64_t variant_query_tiles(const attn_problem *p, int br);
uint64_t variant_key_tiles(const attn_problem *p, int bc);

// Whether there is anything that `masked` cannot do.
static inline bool has_variants(const attn_problem *p) {
    return (attn_problem_features(p) &
            ~(unsigned)(ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS)) != 0;
}

attn_status variants_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer);
attn_status variants_backward(const attn_problem *p, const attn_tensors *t, void *const *buffer);

// function<shape>(...) for the shape of a plan. With small tiles and a head dimension above 128 a thread would
// need more than its 255 registers: variants_supports refuses that.
#define VARIANTS_CALL(plan, function, ...)                                              \
    ((plan)->dim == 64    ? ((plan)->large ? function<backward_64_large>(__VA_ARGS__)   \
                                           : function<backward_64_small>(__VA_ARGS__))  \
     : (plan)->dim == 128 ? ((plan)->large ? function<backward_128_large>(__VA_ARGS__)  \
                                           : function<backward_128_small>(__VA_ARGS__)) \
                          : function<backward_256_large>(__VA_ARGS__))

// The bias' gradient has two sums of scores in registers at a time: with d up to 64 small tiles only.
static inline backward_plan bias_gradient_plan(const attn_problem *p) {
    backward_plan plan = backward_plan_of(p);
    if (plan.dim == 64)
        plan.large = 0, plan.br = backward_64_small::BR, plan.bc = backward_64_small::BC;
    return plan;
}

attn_status variants_supports(const attn_problem *p);
void variants_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic);
double variants_flops(const attn_problem *p, attn_pass pass);

// Its kernels: D = rowsum(dO o O), and zeros in dQ; dK, dV, and dQ by atomic additions; and dbias.
attn_status variants_row_sums(const attn_problem *p, const attn_tensors *t, float *row_sum);
attn_status variants_backward_kv(const attn_problem *p, const attn_tensors *t,
                                 const float *row_sum);
attn_status variants_bias_gradient(const attn_problem *p, const attn_tensors *t,
                                   const float *row_sum);

#endif
