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

static attn_status check_elements(const char *tensor, int64_t batch, int64_t heads, int64_t rows,
                                  int64_t columns) {
    int too_large = 0;
    product(batch, heads, rows, columns, MAX_ELEMENTS, &too_large);
    if (!too_large) return attn_ok();
    return attn_error(
        ATTN_BAD_INPUT,
        "%s would have %lld x %lld x %lld x %lld elements; the product must be at most 2^60",
        tensor, (long long)batch, (long long)heads, (long long)rows, (long long)columns);
}

static int is_contiguous(attn_stride s) {
    return s.batch == 0 && s.head == 0 && s.row == 0;
}

// No two elements in one place: of the dimensions that have more than one step, from the smallest
// stride to the largest, each step must clear all that lies within.
static attn_status check_stride(const attn_problem *p, const char *tensor, attn_stride stride,
                                int64_t heads, int64_t rows) {
    if (is_contiguous(stride) || p->batch == 0 || rows == 0) return attn_ok();
    const struct {
        const char *name;
        int64_t stride, steps;
    } dimension[3] = {{"row", stride.row, rows},
                      {"head", stride.head, heads},
                      {"batch", stride.batch, p->batch}};
    int done[3] = {0};
    uint64_t within = (uint64_t)p->head_dim; // elements that what is done so far reaches over
    for (int round = 0; round < 3; round++) {
        int least = -1;
        for (int x = 0; x < 3; x++)
            if (!done[x] && (least < 0 || dimension[x].stride < dimension[least].stride)) least = x;
        done[least] = 1;
        const int64_t step = dimension[least].stride;
        if (dimension[least].steps == 1) continue;
        if (step < 0 || (uint64_t)step < within)
            return attn_error(ATTN_BAD_INPUT,
                              "%s's stride from %s to %s is %lld, but there lie %llu elements "
                              "between: they would overlap",
                              tensor, dimension[least].name, dimension[least].name, (long long)step,
                              (unsigned long long)within);
        if ((uint64_t)step > (MAX_ELEMENTS - within) / (uint64_t)(dimension[least].steps - 1))
            return attn_error(ATTN_BAD_INPUT,
                              "%s's stride from %s to %s is %lld: it would reach over more than "
                              "2^60 elements",
                              tensor, dimension[least].name, dimension[least].name,
                              (long long)step);
        within += (uint64_t)step * (uint64_t)(dimension[least].steps - 1);
    }
    return attn_ok();
}

// Of bias and mask: 0 and 0, or each 1 or all.
static attn_status check_broadcast(const attn_problem *p, const char *tensor, int64_t batch,
                                   int64_t heads) {
    if (batch == 0 && heads == 0) return attn_ok();
    if ((batch != 1 && batch != p->batch) || (heads != 1 && heads != p->heads))
        return attn_error(ATTN_BAD_INPUT,
                          "%s_batch is %lld and %s_heads %lld; each must be 1 or as many as the "
                          "problem has (%lld, %lld), or both 0",
                          tensor, (long long)batch, tensor, (long long)heads, (long long)p->batch,
                          (long long)p->heads);
    if (p->sequences != 0)
        return attn_error(ATTN_BAD_INPUT,
                          "there is no %s for variable lengths: most of [q_len][kv_len] would lie "
                          "between sequences; run those that need one alone",
                          tensor);
    return check_elements(tensor, batch, heads, p->q_len, p->kv_len);
}

static attn_status check_variants(const attn_problem *p) {
    if (!(p->softcap >= 0 && isfinite(p->softcap)))
        return attn_error(ATTN_BAD_INPUT, "softcap is %g; it must be a finite number above 0, or 0",
                          p->softcap);
    ATTN_TRY(check_size("alibi", p->alibi, 0, 1));
    ATTN_TRY(check_size("bias_gradient", p->bias_gradient, 0, 1));
    ATTN_TRY(check_broadcast(p, "bias", p->bias_batch, p->bias_heads));
    ATTN_TRY(check_broadcast(p, "mask", p->mask_batch, p->mask_heads));
    if (p->bias_gradient && p->bias_heads == 0)
        return attn_error(ATTN_BAD_INPUT, "bias_gradient is 1, but there is no bias");
    if (p->dropout == 0) return attn_ok();
    if (p->dropout_offset > UINT32_MAX)
        return attn_error(ATTN_BAD_INPUT, "dropout_offset is %llu; it must be below 2^32",
                          (unsigned long long)p->dropout_offset);
    const int64_t batches = p->sequences != 0 ? p->sequences : p->batch;
    if ((uint64_t)batches * (uint64_t)p->heads > (uint64_t)1 << 32)
        return attn_error(ATTN_BAD_INPUT,
                          "dropout tells heads apart by 32 bits, but there are %lld x %lld of them",
                          (long long)batches, (long long)p->heads);
    return attn_ok();
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
        if (p->batch != 1)
            return attn_error(ATTN_BAD_INPUT,
                              "batch is %lld; with variable lengths it must be 1, and each of the "
                              "batch's members one of the sequences",
                              (long long)p->batch);
        ATTN_TRY(check_cumulative("q_cumulative", p->q_cumulative, p->sequences, p->q_len));
        ATTN_TRY(check_cumulative("kv_cumulative", p->kv_cumulative, p->sequences, p->kv_len));
    }
    ATTN_TRY(check_elements("q", p->batch, p->heads, p->q_len, p->head_dim));
    ATTN_TRY(check_elements("k", p->batch, p->kv_heads, p->kv_len, p->head_dim));
    ATTN_TRY(check_stride(p, "q", p->q_stride, p->heads, p->q_len));
    ATTN_TRY(check_stride(p, "k", p->k_stride, p->kv_heads, p->kv_len));
    ATTN_TRY(check_stride(p, "v", p->v_stride, p->kv_heads, p->kv_len));
    ATTN_TRY(check_stride(p, "o", p->o_stride, p->heads, p->q_len));
    return check_variants(p);
}

unsigned attn_problem_features(const attn_problem *p) {
    unsigned features = 0;
    if (p->causal != ATTN_CAUSAL_OFF) features |= ATTN_HAS_CAUSAL;
    if (p->window_left != 0 || p->window_right != 0) features |= ATTN_HAS_WINDOW;
    if (p->kv_heads != p->heads) features |= ATTN_HAS_GROUPED_HEADS;
    if (!is_contiguous(p->q_stride) || !is_contiguous(p->k_stride) || !is_contiguous(p->v_stride) ||
        !is_contiguous(p->o_stride))
        features |= ATTN_HAS_STRIDES;
    if (p->sequences != 0) features |= ATTN_HAS_VARIABLE_LENGTHS;
    if (p->dropout != 0) features |= ATTN_HAS_DROPOUT;
    if (p->br != 0 || p->bc != 0) features |= ATTN_HAS_TILE_SIZES;
    if (p->softcap != 0) features |= ATTN_HAS_SOFTCAP;
    if (p->alibi != 0) features |= ATTN_HAS_ALIBI;
    if (p->bias_heads != 0) features |= ATTN_HAS_BIAS;
    if (p->bias_gradient != 0) features |= ATTN_HAS_BIAS_GRADIENT;
    if (p->mask_heads != 0) features |= ATTN_HAS_MASK;
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
    case ATTN_HAS_SOFTCAP:
        return "a softcap";
    case ATTN_HAS_ALIBI:
        return "ALiBi";
    case ATTN_HAS_BIAS:
        return "an additive bias";
    case ATTN_HAS_BIAS_GRADIENT:
        return "the gradient of a bias";
    case ATTN_HAS_MASK:
        return "a mask of bytes";
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

size_t attn_bias_elements(const attn_problem *p) {
    return (size_t)p->bias_batch * (size_t)p->bias_heads * (size_t)p->q_len * (size_t)p->kv_len;
}

size_t attn_mask_elements(const attn_problem *p) {
    return (size_t)p->mask_batch * (size_t)p->mask_heads * (size_t)p->q_len * (size_t)p->kv_len;
}

static attn_stride resolved(const attn_problem *p, attn_stride stride, int64_t heads,
                            int64_t rows) {
    const int64_t d = p->head_dim;
    if (!is_contiguous(stride)) return stride;
    if (p->sequences != 0) return (attn_stride){rows * heads * d, d, heads * d};
    return (attn_stride){heads * rows * d, rows * d, d};
}

attn_layout attn_layout_of(const attn_problem *p) {
    return (attn_layout){.q = resolved(p, p->q_stride, p->heads, p->q_len),
                         .k = resolved(p, p->k_stride, p->kv_heads, p->kv_len),
                         .v = resolved(p, p->v_stride, p->kv_heads, p->kv_len),
                         .o = resolved(p, p->o_stride, p->heads, p->q_len)};
}

static size_t extent(const attn_problem *p, attn_stride stride, int64_t heads, int64_t rows) {
    if (p->batch == 0 || rows == 0) return 0;
    return (size_t)((p->batch - 1) * stride.batch + (heads - 1) * stride.head +
                    (rows - 1) * stride.row + p->head_dim);
}

size_t attn_q_extent(const attn_problem *p, attn_stride stride) {
    return extent(p, stride, p->heads, p->q_len);
}

size_t attn_kv_extent(const attn_problem *p, attn_stride stride) {
    return extent(p, stride, p->kv_heads, p->kv_len);
}

attn_sequence attn_sequence_of(const attn_problem *p, int64_t s) {
    if (p->sequences == 0) return (attn_sequence){0, p->q_len, 0, p->kv_len};
    const int32_t *q = p->q_cumulative + s, *kv = p->kv_cumulative + s;
    return (attn_sequence){q[0], q[1] - q[0], kv[0], kv[1] - kv[0]};
}

attn_problem attn_problem_of_sequence(const attn_problem *p, int64_t s) {
    const attn_sequence rows = attn_sequence_of(p, s);
    const attn_layout layout = attn_layout_of(p);
    attn_problem alone = *p;
    alone.q_len = rows.q_len, alone.kv_len = rows.kv_len;
    alone.sequences = 0, alone.q_cumulative = alone.kv_cumulative = NULL;
    alone.q_stride = layout.q, alone.k_stride = layout.k;
    alone.v_stride = layout.v, alone.o_stride = layout.o;
    return alone;
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
    // The usual window looks back; sides are named where the other is asked for.
    if (p->window_left != 0)
        APPEND(" window %lld%s", (long long)p->window_left, p->window_right != 0 ? " left" : "");
    if (p->window_right != 0) APPEND(" window %lld right", (long long)p->window_right);
    if (p->sequences != 0) APPEND(" in %lld sequences", (long long)p->sequences);
    if (attn_problem_features(p) & ATTN_HAS_STRIDES) APPEND(" strided");
    if (p->softcap != 0) APPEND(" softcap %g", p->softcap);
    if (p->alibi != 0) APPEND(" ALiBi");
    if (p->bias_heads != 0)
        APPEND(" bias %lldx%lld%s", (long long)p->bias_batch, (long long)p->bias_heads,
               p->bias_gradient ? " with gradient" : "");
    if (p->mask_heads != 0)
        APPEND(" mask %lldx%lld", (long long)p->mask_batch, (long long)p->mask_heads);
    if (p->dropout != 0) APPEND(" dropout %g", p->dropout);
#undef APPEND
}
