// problem.h -- one attention problem: shapes, scale, mask, and what later chapters add.
//
//   S = scale * Q K^T,   P = softmax over the keys each query sees,   O = P V,   L = logsumexp of S
//
//   q, o, do, dq   [batch][heads][q_len][head_dim]
//   k, v, dk, dv   [batch][kv_heads][kv_len][head_dim]
//   lse            [batch][heads][q_len], natural logarithm, always fp32
//   bias, dbias    [bias_batch][bias_heads][q_len][kv_len], fp32
//   mask           [mask_batch][mask_heads][q_len][kv_len], bytes
//
// With everything on, in this order:  x = scale * q_i . k_j;  t = softcap * tanh(x / softcap);
// S_ij = t + bias_ij - slope |i' - j|;  masks;  P = softmax(S);  dropout;  O = P V.
//
// Query head h reads key and value head h / (heads / kv_heads). A query that sees no key has O = 0,
// L = -infinity and gives no gradient. All fields exist from the first chapter; zero means "off".
#ifndef ATTN_PROBLEM_H
#define ATTN_PROBLEM_H

#include "cpu/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum attn_type {
    ATTN_FP32 = 0,
} attn_type;

// Which corner of the q_len x kv_len score matrix the causal diagonal ends in. They differ only
// when q_len != kv_len. Bottom-right is what the flash-attention library does since version 2.1.
typedef enum attn_causal {
    ATTN_CAUSAL_OFF = 0,
    ATTN_CAUSAL_BOTTOM_RIGHT, // query i sees key j when j <= i + kv_len - q_len
    ATTN_CAUSAL_TOP_LEFT,     // query i sees key j when j <= i
} attn_causal;

typedef struct attn_stride { // in elements; columns lie side by side
    int64_t batch, head, row;
} attn_stride;

typedef struct attn_problem {
    attn_type type;
    int64_t batch, heads, kv_heads, q_len, kv_len, head_dim;
    float scale; // any finite value; attn_problem_set_default_scale gives 1/sqrt(head_dim)

    attn_causal causal;
    // Sliding window around the query's own position i' (i + kv_len - q_len, or i with TOP_LEFT), 0
    // off:
    int64_t window_left;  // W: the query sees only keys j > i' - W
    int64_t window_right; // W: the query sees only keys j < i' + W

    // Views: how a stage finds the tensors in the memory of its device. All zero: as in the table
    // above. dq has q's strides, dk k's, dv v's, dO o's. On the host tensors are always as in the
    // table, and cpu/runner.c puts them where the strides say.
    attn_stride q_stride, k_stride, v_stride, o_stride;

    // Variable lengths: batch is 1, and the rows of all sequences lie one after the other. Query and
    // key positions, and with them masks and ALiBi, count within the sequence; a query sees keys of
    // its own sequence only. In a device's memory, unless strides say otherwise, [row][head][column].
    int64_t sequences;            // 0, or how many there are; their lengths may be 0
    const int32_t *q_cumulative;  // [sequences + 1], first 0, last q_len
    const int32_t *kv_cumulative; // [sequences + 1], first 0, last kv_len

    // Probability in [0, 1) that a weight of P is dropped, made 0; the others are divided by
    // 1 - dropout. Which ones, says cpu/dropout.h. L stays that of all keys seen.
    float dropout;
    uint64_t dropout_seed, dropout_offset; // any seed; the offset is below 2^32

    float softcap; // > 0: no |score| reaches it
    // 1: slope |i' - j| is taken off, i' as for the window and slope = 2^(-8 (h + 1) / heads) for
    // query head h, as Press et al. (2108.12409) have it where heads is a power of two. Where it is
    // not, they interleave two such series; here the formula stays the same.
    int alibi;
    int64_t bias_batch, bias_heads; // each 1, or as many as the problem has; 0 and 0: no bias
    int bias_gradient;              // 1: the backward pass gives dbias, too
    int64_t mask_batch, mask_heads; // likewise; a query sees only keys where its byte is not 0

    // Not mathematics, but asked for together with it: tile sizes, 0 for the stage's own choice.
    int64_t br, bc; // queries, keys a tile
} attn_problem;

// The features of a problem, so that a stage can say which it does (attn_stage.features).
enum {
    ATTN_HAS_CAUSAL = 1,
    ATTN_HAS_WINDOW = 2,
    ATTN_HAS_GROUPED_HEADS = 4, // kv_heads < heads
    ATTN_HAS_STRIDES = 8,
    ATTN_HAS_VARIABLE_LENGTHS = 16,
    ATTN_HAS_DROPOUT = 32,
    ATTN_HAS_TILE_SIZES = 64, // br or bc asked for
    ATTN_HAS_SOFTCAP = 128,
    ATTN_HAS_ALIBI = 256,
    ATTN_HAS_BIAS = 512,
    ATTN_HAS_BIAS_GRADIENT = 1024,
    ATTN_HAS_MASK = 2048,
    ATTN_LAST_FEATURE = ATTN_HAS_MASK,
};

// A problem of one head with everything off and the default scale.
attn_problem attn_problem_of(int64_t q_len, int64_t kv_len, int64_t head_dim);
float attn_default_scale(int64_t head_dim);

// ATTN_OK when the problem means something. Refuses (ATTN_BAD_INPUT) negative sizes, zero heads,
// kv_heads or head_dim, heads that are no multiple of kv_heads, a scale that is not finite, dropout
// outside [0, 1), cumulative lengths that decrease, strides by which two elements would share a
// place, a bias or a mask together with variable lengths, and tensors of 2^62 bytes or more. Zero
// batch, q_len or kv_len are fine: such problems have an answer.
attn_status attn_problem_check(const attn_problem *problem);

unsigned attn_problem_features(const attn_problem *problem); // ATTN_HAS_... bits
const char *attn_feature_name(unsigned one_bit);

// Elements of q (= o, do, dq), of k (= v, dk, dv), of lse (one a query row). Call after the check.
size_t attn_q_elements(const attn_problem *problem);
size_t attn_kv_elements(const attn_problem *problem);
size_t attn_rows(const attn_problem *problem);
// Elements of the whole score matrix, batch * heads * q_len * kv_len; UINT64_MAX when 2^63 or more.
uint64_t attn_score_elements(const attn_problem *problem);

// Of bias (= dbias) and of mask, which has bytes; 0 without one.
size_t attn_bias_elements(const attn_problem *problem);
size_t attn_mask_elements(const attn_problem *problem);

// The strides in force, where zeros and variable lengths have been resolved: element [b][h][i][c] of q
// is q[b * q.batch + h * q.head + i * q.row + c]. And how many elements lie between a tensor's first
// and its last, gaps included: what its memory must hold.
typedef struct attn_layout {
    attn_stride q, k, v, o;
} attn_layout;
attn_layout attn_layout_of(const attn_problem *problem);
size_t attn_q_extent(const attn_problem *problem, attn_stride stride);
size_t attn_kv_extent(const attn_problem *problem, attn_stride stride);

// Which rows sequence number s has; without variable lengths number 0 has all. And the problem of that
// sequence alone: its lengths, the strides in force.
typedef struct attn_sequence {
    int64_t q_first, q_len, kv_first, kv_len;
} attn_sequence;
attn_sequence attn_sequence_of(const attn_problem *problem, int64_t s);
attn_problem attn_problem_of_sequence(const attn_problem *problem, int64_t s);

// ---- the tensors of one problem on the host ----
typedef struct attn_inputs {
    const float *q, *k, *v; // shapes: above, contiguous
    const float *d_o;       // NULL: forward only
    const float *bias;      // NULL when the problem has none
    const unsigned char *mask;
} attn_inputs;

// One line for a table's head: "B=1 H=4 N=1024 d=64 fp32 causal".
void attn_problem_describe(const attn_problem *problem, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
