// Exercise 1: the bytes of naive attention.
//
// Three kernels, which you need not read: what they ask of device memory follows from what they are.
//
//   scores    S = scale Q K^T. A block computes a tile of S of 64 x 64, or less at the edges: for that it reads
//             the tile's rows of Q and its rows of K, whole rows of d numbers. It writes its part of S.
//   softmax   A block a row of S: it reads the row for its maximum, again for the sum of e^(s - m), and again to
//             write the row of P. It writes L, one number a row.
//   values    O = P V. A block computes 64 rows of O, up to 128 columns of them: for that it reads the whole
//             rows of P, and all rows of V, of each the columns that it computes. It writes its part of O.
//
// All of that for each of batch * heads heads of Q; heads that share K and V read them each for itself. All
// numbers are fp32. `make grade1` counts on the emulator, and compares to the byte.
#include "chapters/01-naive/exercise/bytes.h"

// Tiles of `size` that `length` is cut into, the last perhaps smaller.
static uint64_t tiles(uint64_t length, uint64_t size) {
    return (length + size - 1) / size;
}

void exercise_bytes(const attn_problem *p, attn_traffic *traffic) {
    const uint64_t heads = (uint64_t)(p->batch * p->heads), d = (uint64_t)p->head_dim;
    const uint64_t q_len = (uint64_t)p->q_len, kv_len = (uint64_t)p->kv_len;
    // Yours: of each tensor the bytes read, and the bytes written.
    //<answer>
    const uint64_t q_rows = 4 * heads * q_len * d, k_rows = 4 * heads * kv_len * d;
    const uint64_t s = 4 * heads * q_len * kv_len, rows = 4 * heads * q_len;
    attn_traffic_add(traffic, "q", q_rows * tiles(kv_len, 64), 0);
    attn_traffic_add(traffic, "k", k_rows * tiles(q_len, 64), 0);
    attn_traffic_add(traffic, "s", 3 * s, s);
    attn_traffic_add(traffic, "p", s * tiles(d, 128), s);
    attn_traffic_add(traffic, "v", k_rows * tiles(q_len, 64), 0);
    attn_traffic_add(traffic, "o", 0, q_rows);
    attn_traffic_add(traffic, "lse", 0, rows);
    //<stub> attn_traffic_add(traffic, "q", 0 * heads * q_len * d * tiles(kv_len, 64), 0);
    //<stub> attn_traffic_add(traffic, "k", 0, 0);
    //<stub> attn_traffic_add(traffic, "s", 0, 0);
    //<stub> attn_traffic_add(traffic, "p", 0, 0);
    //<stub> attn_traffic_add(traffic, "v", 0, 0);
    //<stub> attn_traffic_add(traffic, "o", 0, 0);
    //<stub> attn_traffic_add(traffic, "lse", 0, 0);
    //</answer>
}
