// input.c -- see input.h.
//
// Whatever stands here as float arithmetic is one rounding of an exact product, or exact. With a
// second rounding compilers could differ, by fusing the two into a multiply-add.
#include "cpu/input.h"

#include "cpu/random.h"

#include <string.h>

static const char *const kind_names[ATTN_INPUT_KINDS] = {
    [ATTN_INPUT_NORMAL] = "normal", [ATTN_INPUT_OUTLIERS] = "outliers", [ATTN_INPUT_WIDE] = "wide",
    [ATTN_INPUT_EQUAL] = "equal",   [ATTN_INPUT_RISING] = "rising",
};

// Streams of random.h. Every tensor has its own, and outliers draw from two more for each.
typedef enum tensor_id { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_DO, TENSORS } tensor_id;
enum {
    STREAM_OUTLIER_COIN = TENSORS,
    STREAM_OUTLIER = 2 * TENSORS,
    STREAM_BIAS = 3 * TENSORS,
    STREAM_MASK
};

enum {
    OUTLIER_CHANCE = 4294967, // of 2^32: 0.001
    OUTLIER_DEVIATION = 10,   // variance 100
    WIDE_LARGEST = 8,         // rows of q times 2^8 ...
    WIDE_CYCLE = 17,          // ... to 2^-8
    RISING_QUERY = 8,         // q's first coordinate; 1/sqrt(d) undoes it when d is 64
    RISING_RAMP = 256, // k's first coordinate rises by this, so that exp in fp32 cannot span it
};

const char *attn_input_name(attn_input_kind kind) {
    return (unsigned)kind < ATTN_INPUT_KINDS ? kind_names[kind] : "?";
}

attn_status attn_input_parse(const char *text, attn_input_kind *kind) {
    for (int i = 0; i < ATTN_INPUT_KINDS; i++) {
        if (strcmp(text, kind_names[i]) == 0) {
            *kind = (attn_input_kind)i;
            return attn_ok();
        }
    }
    char names[80] = "";
    for (int i = 0; i < ATTN_INPUT_KINDS; i++) {
        strncat(names, i > 0 ? ", " : "", sizeof names - strlen(names) - 1);
        strncat(names, kind_names[i], sizeof names - strlen(names) - 1);
    }
    return attn_error(ATTN_BAD_INPUT, "the kind of input is '%.80s', but must be one of: %s", text,
                      names);
}

// N(0,1) + N(0,100) Bernoulli(0.001) in steps of ATTN_NORMAL_STEP: below 2^24, so exact as a float.
static int32_t outlier_steps(uint64_t seed, tensor_id tensor, uint64_t element) {
    int32_t steps = attn_normal_steps(seed, tensor, element);
    uint32_t coin[4];
    attn_philox(seed, STREAM_OUTLIER_COIN + tensor, element, coin);
    if (coin[0] < OUTLIER_CHANCE)
        steps += OUTLIER_DEVIATION * attn_normal_steps(seed, STREAM_OUTLIER + tensor, element);
    return steps;
}

static float power_of_two(int exponent) {
    return exponent < 0 ? 1.0f / (float)(1 << -exponent) : (float)(1 << exponent);
}

// One element of a contiguous tensor: rows of head_dim elements, rows_a_head of them to a head.
static float element_of(attn_input_kind kind, uint64_t seed, tensor_id tensor, int64_t element,
                        int64_t head_dim, int64_t rows_a_head) {
    int64_t row = element / head_dim, column = element % head_dim;
    float normal = attn_normal(seed, tensor, (uint64_t)element);
    if (tensor == TENSOR_DO) return normal;

    switch (kind) {
    case ATTN_INPUT_OUTLIERS:
        return (float)outlier_steps(seed, tensor, (uint64_t)element) * ATTN_NORMAL_STEP;
    case ATTN_INPUT_WIDE:
        if (tensor == TENSOR_Q)
            return normal * power_of_two(WIDE_LARGEST - (int)(row % WIDE_CYCLE));
        return normal;
    case ATTN_INPUT_EQUAL:
        return tensor == TENSOR_V ? normal : 1.0f;
    case ATTN_INPUT_RISING:
        if (column > 0 || tensor == TENSOR_V) return normal;
        if (tensor == TENSOR_Q) return RISING_QUERY;
        // Lengths are below 2^30 and the ramp is 2^8: no overflow, and an integer that is exact.
        return (float)(row % rows_a_head * RISING_RAMP / rows_a_head - RISING_RAMP / 2);
    default:
        return normal;
    }
}

static void fill(attn_input_kind kind, uint64_t seed, tensor_id tensor, float *data,
                 size_t elements, int64_t head_dim, int64_t rows_a_head) {
    if (data == NULL) return;
#pragma omp parallel for schedule(static)
    for (int64_t element = 0; element < (int64_t)elements; element++)
        data[element] = element_of(kind, seed, tensor, element, head_dim, rows_a_head);
}

void attn_input_fill(attn_input_kind kind, uint64_t seed, const attn_problem *problem, float *q,
                     float *k, float *v, float *d_o) {
    size_t q_elements = attn_q_elements(problem), kv_elements = attn_kv_elements(problem);
    int64_t d = problem->head_dim;
    fill(kind, seed, TENSOR_Q, q, q_elements, d, problem->q_len);
    fill(kind, seed, TENSOR_K, k, kv_elements, d, problem->kv_len);
    fill(kind, seed, TENSOR_V, v, kv_elements, d, problem->kv_len);
    fill(kind, seed, TENSOR_DO, d_o, q_elements, d, problem->q_len);
}

void attn_input_fill_scores(uint64_t seed, const attn_problem *problem, float *bias,
                            unsigned char *mask) {
    const uint64_t biases = bias ? attn_bias_elements(problem) : 0;
    const uint64_t masks = mask ? attn_mask_elements(problem) : 0;
    for (uint64_t e = 0; e < biases; e++) bias[e] = attn_normal(seed, STREAM_BIAS, e);
    for (uint64_t e = 0; e < masks; e++) mask[e] = attn_uniform(seed, STREAM_MASK, e) < 0.75f;
}
