// problem.c -- see problem.h: what is a valid problem, and how large its tensors are.
#include "cpu/problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LENGTH = 1 << 30 }; // so that i + kv_len - q_len and band bounds fit in 32 bits
static const uint64_t MAX_ELEMENTS = (uint64_t)1 << 60;

float attn_default_scale(int64_t head_dim) {
    return head_dim > 0 ? (float)(1 / sqrt((double)head_dim)) : 1;
}

attn_problem attn_problem_of(int64_t q_len, int64_t kv_len, int64_t head_dim) {
    attn_problem problem;
    memset(&problem, 0, sizeof problem);
    problem.batch = problem.heads = problem.kv_heads = 1;
    problem.q_len = q_len, problem.kv_len = kv_len, problem.head_dim = head_dim;
    problem.scale = attn_default_scale(head_dim);
    return problem;
}

static attn_status check_size(const char *name, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return attn_ok();
    return attn_error(ATTN_BAD_INPUT, "%s is %lld; it must be from %lld to %lld", name,
                      (long long)value, (long long)least, (long long)most);
}

// a * b * c * d, or 0 and *too_large = 1 when that passes MAX_ELEMENTS.
static uint64_t product(int64_t a, int64_t b, int64_t c, int64_t d, uint64_t limit,
                        int *too_large) {
    const int64_t factor[4] = {a, b, c, d};
    uint64_t result = 1;
    for (int i = 0; i < 4; i++)
        if (factor[i] == 0) return 0;
    for (int i = 0; i < 4; i++) {
        if ((uint64_t)factor[i] > limit / result) return *too_large = 1, (uint64_t)0;
        result *= (uint64_t)factor[i];
    }
    return result;
}

static attn_status check_elements(const attn_problem *p, const char *tensor, int64_t heads,
                                  int64_t length) {
    int too_large = 0;
    product(p->batch, heads, length, p->head_dim, MAX_ELEMENTS, &too_large);
    if (!too_large) return attn_ok();
    return attn_error(
        ATTN_BAD_INPUT,
        "%s would have %lld x %lld x %lld x %lld elements; the product must be at most 2^60",
        tensor, (long long)p->batch, (long long)heads, (long long)length, (long long)p->head_dim);
}

static attn_status check_cumulative(const char *name, const int32_t *cumulative, int64_t sequences,
                                    int64_t total) {
    if (!cumulative) return attn_error(ATTN_BAD_INPUT, "%s is missing: sequences is set", name);
    if (cumulative[0] != 0)
        return attn_error(ATTN_BAD_INPUT, "%s[0] is %d; it must be 0", name, (int)cumulative[0]);
    for (int64_t s = 0; s < sequences; s++)
        if (cumulative[s + 1] < cumulative[s])
            return attn_error(ATTN_BAD_INPUT, "%s[%lld] is %d, less than the one before it (%d)",
                              name, (long long)s + 1, (int)cumulative[s + 1], (int)cumulative[s]);
    if (cumulative[sequences] != total)
        return attn_error(ATTN_BAD_INPUT, "%s ends in %d; it must end in the length, %lld", name,
                          (int)cumulative[sequences], (long long)total);
    return attn_ok();
}

attn_status attn_problem_check(const attn_problem *p) {
    if (p->type != ATTN_FP32)
        return attn_error(ATTN_BAD_INPUT, "element type %d is unknown; 0 is fp32", (int)p->type);
    ATTN_TRY(check_size("batch", p->batch, 0, MAX_LENGTH));
    ATTN_TRY(check_size("heads", p->heads, 1, MAX_LENGTH));
    ATTN_TRY(check_size("kv_heads", p->kv_heads, 1, MAX_LENGTH));
    ATTN_TRY(check_size("q_len", p->q_len, 0, MAX_LENGTH - 1));
    ATTN_TRY(check_size("kv_len", p->kv_len, 0, MAX_LENGTH - 1));
    ATTN_TRY(check_size("head_dim", p->head_dim, 1, MAX_LENGTH));
    ATTN_TRY(check_size("window_left", p->window_left, 0, INT64_MAX));
    ATTN_TRY(check_size("window_right", p->window_right, 0, INT64_MAX));
    ATTN_TRY(check_size("br", p->br, 0, MAX_LENGTH));
    ATTN_TRY(check_size("bc", p->bc, 0, MAX_LENGTH));
    ATTN_TRY(check_size("causal", (int64_t)p->causal, ATTN_CAUSAL_OFF, ATTN_CAUSAL_TOP_LEFT));
    if (p->heads % p->kv_heads != 0)
        return attn_error(ATTN_BAD_INPUT,
                          "heads is %lld and kv_heads %lld; heads must be a multiple of kv_heads",
                          (long long)p->heads, (long long)p->kv_heads);
    if (!isfinite(p->scale))
        return attn_error(ATTN_BAD_INPUT, "scale is %g; it must be a finite number", p->scale);
    if (!(p->dropout >= 0 && p->dropout < 1))
        return attn_error(ATTN_BAD_INPUT, "dropout is %g; it must be at least 0 and below 1",
                          p->dropout);
    if (p->sequences != 0) {
        ATTN_TRY(check_size("sequences", p->sequences, 0, MAX_LENGTH));
        ATTN_TRY(check_cumulative("q_cumulative", p->q_cumulative, p->sequences, p->q_len));
        ATTN_TRY(check_cumulative("kv_cumulative", p->kv_cumulative, p->sequences, p->kv_len));
    }
    ATTN_TRY(check_elements(p, "q", p->heads, p->q_len));
    ATTN_TRY(check_elements(p, "k", p->kv_heads, p->kv_len));
    return attn_ok();
}

static int has_stride(attn_stride s) {
    return s.batch != 0 || s.head != 0 || s.row != 0;
}

unsigned attn_problem_features(const attn_problem *p) {
    unsigned features = 0;
    if (p->causal != ATTN_CAUSAL_OFF) features |= ATTN_HAS_CAUSAL;
    if (p->window_left != 0 || p->window_right != 0) features |= ATTN_HAS_WINDOW;
    if (p->kv_heads != p->heads) features |= ATTN_HAS_GROUPED_HEADS;
    if (has_stride(p->q_stride) || has_stride(p->k_stride) || has_stride(p->v_stride) ||
        has_stride(p->o_stride))
        features |= ATTN_HAS_STRIDES;
    if (p->sequences != 0) features |= ATTN_HAS_VARIABLE_LENGTHS;
    if (p->dropout != 0) features |= ATTN_HAS_DROPOUT;
    if (p->br != 0 || p->bc != 0) features |= ATTN_HAS_TILE_SIZES;
    return features;
}

const char *attn_feature_name(unsigned one_bit) {
    switch (one_bit) {
    case ATTN_HAS_CAUSAL:
        return "a causal mask";
    case ATTN_HAS_WINDOW:
        return "a sliding window";
    case ATTN_HAS_GROUPED_HEADS:
        return "grouped heads (kv_heads < heads)";
    case ATTN_HAS_STRIDES:
        return "strided tensors";
    case ATTN_HAS_VARIABLE_LENGTHS:
        return "variable lengths";
    case ATTN_HAS_DROPOUT:
        return "dropout";
    case ATTN_HAS_TILE_SIZES:
        return "tile sizes other than its own";
    default:
        return "an unknown feature";
    }
}

size_t attn_q_elements(const attn_problem *p) {
    return (size_t)p->batch * (size_t)p->heads * (size_t)p->q_len * (size_t)p->head_dim;
}

size_t attn_kv_elements(const attn_problem *p) {
    return (size_t)p->batch * (size_t)p->kv_heads * (size_t)p->kv_len * (size_t)p->head_dim;
}

size_t attn_rows(const attn_problem *p) {
    return (size_t)p->batch * (size_t)p->heads * (size_t)p->q_len;
}

uint64_t attn_score_elements(const attn_problem *p) {
    int too_large = 0;
    uint64_t n = product(p->batch, p->heads, p->q_len, p->kv_len, (uint64_t)1 << 63, &too_large);
    return too_large ? UINT64_MAX : n;
}

void attn_problem_describe(const attn_problem *p, char *text, size_t size) {
    size_t used = 0;
#define APPEND(...)                                                                       \
    do {                                                                                  \
        if (used < size) used += (size_t)snprintf(text + used, size - used, __VA_ARGS__); \
    } while (0)
    APPEND("B=%lld H=%lld", (long long)p->batch, (long long)p->heads);
    if (p->kv_heads != p->heads) APPEND(" (K and V: %lld)", (long long)p->kv_heads);
    if (p->q_len == p->kv_len)
        APPEND(" N=%lld", (long long)p->q_len);
    else
        APPEND(" q_len=%lld kv_len=%lld", (long long)p->q_len, (long long)p->kv_len);
    APPEND(" d=%lld fp32", (long long)p->head_dim);
    if (p->causal == ATTN_CAUSAL_BOTTOM_RIGHT) APPEND(" causal");
    if (p->causal == ATTN_CAUSAL_TOP_LEFT) APPEND(" causal (top-left)");
    if (p->window_left != 0) APPEND(" window %lld left", (long long)p->window_left);
    if (p->window_right != 0) APPEND(" window %lld right", (long long)p->window_right);
    if (p->dropout != 0) APPEND(" dropout %g", p->dropout);
#undef APPEND
}
