// backward.cuh -- how chapter 5 cuts a backward pass into tiles, and what its kernels share with their
// rows in the stage table.
#ifndef BACKWARD_CUH
#define BACKWARD_CUH

#include "chapters/05-backward/backward_tile.cuh"
#include "cpu/stage.h"

// The tiles that are compiled: for each head dimension, large ones for a GPU that gives a block 227 KB of
// shared memory (H100, H200, B200), and small ones, 82, 70 and 134 KB, for others (RTX and A100: 99 and
// 163 KB). A head dimension between two runs in the larger.
//                     D   Br   Bc  warps
typedef backward_shape<64, 128, 128, 8> backward_64_large;
typedef backward_shape<64, 64, 64, 4> backward_64_small;
typedef backward_shape<128, 64, 128, 8> backward_128_large;
typedef backward_shape<128, 32, 32, 4> backward_128_small;
typedef backward_shape<256, 32, 64, 8> backward_256_large;
typedef backward_shape<256, 32, 32, 4> backward_256_small;

typedef struct backward_plan {
    int dim, br, bc; // the tiles of one of those
    int large;
    uint64_t shared_bytes;
    // Query heads that read one head of K follow each other in memory, so they are taken for one tall Q:
    uint64_t heads, rows; // heads of K and V; rows of Q, of O and so on that read one of them
    uint64_t query_tiles, key_tiles;
} backward_plan;
backward_plan backward_plan_of(const attn_problem *p);
attn_status backward_supports(const attn_problem *p); // both passes, without masks

backward_sizes backward_sizes_of(const attn_problem *p, const backward_plan *plan,
                                 const attn_tensors *t);

// function<shape>(...) for the shape of the plan.
#define BACKWARD_CALL(plan, function, ...)                                              \
    ((plan)->dim == 64    ? ((plan)->large ? function<backward_64_large>(__VA_ARGS__)   \
                                           : function<backward_64_small>(__VA_ARGS__))  \
     : (plan)->dim == 128 ? ((plan)->large ? function<backward_128_large>(__VA_ARGS__)  \
                                           : function<backward_128_small>(__VA_ARGS__)) \
     : (plan)->large      ? function<backward_256_large>(__VA_ARGS__)                   \
                          : function<backward_256_small>(__VA_ARGS__))

// D = rowsum(dO o O) of all rows: row_sums.cu.
attn_status backward_row_sums(const float *o, const float *d_o, float *row_sum, size_t rows, int d);

// KV outer: dK and dV; with adds_dq, dQ as well, added atomically to what is there: backward_kv.cu.
attn_status backward_kv_outer(const attn_problem *p, const attn_tensors *t, const float *row_sum,
                              bool adds_dq);

// Q outer: dQ alone: backward_q.cu.
attn_status backward_q_outer(const attn_problem *p, const attn_tensors *t, const float *row_sum);

#endif
