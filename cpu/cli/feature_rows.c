// feature_rows.c -- see features.h.
#include "cpu/cli/features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned attn_shown_features(void) {
    return ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS | ATTN_HAS_STRIDES |
           ATTN_HAS_VARIABLE_LENGTHS | ATTN_HAS_DROPOUT | ATTN_HAS_SOFTCAP | ATTN_HAS_ALIBI |
           ATTN_HAS_BIAS | ATTN_HAS_MASK;
}

// Each member of the batch as four sequences: a half of its rows and one, a quarter less three, none, and
// what is left. They lie one after the other, so that the rows are as many as before.
enum { PARTS = 4 };
static int32_t *cut(int64_t batch, int64_t length) {
    int32_t *cumulative = malloc(sizeof *cumulative * (size_t)(PARTS * batch + 1));
    const int64_t half = length / 2 + (length > 1), quarter = length / 4 > 3 ? length / 4 - 3 : 0;
    const int64_t part[PARTS] = {half, quarter, 0, length - half - quarter};
    if (!cumulative) return NULL;
    cumulative[0] = 0;
    for (int64_t s = 0; s < PARTS * batch; s++)
        cumulative[s + 1] = cumulative[s] + (int32_t)part[s % PARTS];
    return cumulative;
}

static attn_status set_lengths(attn_feature_row *row) {
    attn_problem *p = &row->problem;
    const int64_t longest = p->q_len > p->kv_len ? p->q_len : p->kv_len;
    if (longest > 0 && p->batch >= ((int64_t)1 << 30) / longest)
        return attn_error(ATTN_BAD_INPUT,
                          "%lld members of %lld rows are too many to be packed: below 2^30 in all",
                          (long long)p->batch, (long long)longest);
    row->q_cumulative = cut(p->batch, p->q_len), row->kv_cumulative = cut(p->batch, p->kv_len);
    if (!row->q_cumulative || !row->kv_cumulative)
        return attn_error(ATTN_NO_MEMORY, "no memory for cumulative lengths");
    p->sequences = PARTS * p->batch;
    p->q_len *= p->batch, p->kv_len *= p->batch, p->batch = 1;
    p->q_cumulative = row->q_cumulative, p->kv_cumulative = row->kv_cumulative;
    // As knobs only where these can say it.
    const int32_t *c = row->q_cumulative;
    if (p->sequences == PARTS && p->q_len == p->kv_len)
        snprintf(row->knobs, sizeof row->knobs, "LENGTHS=%d,%d,0,%d", c[1], c[2] - c[1],
                 c[4] - c[3]);
    return attn_ok();
}

static void set_layout(attn_problem *p) {
    const int64_t d = p->head_dim, row = p->heads * d, kv_row = p->kv_heads * d;
    p->q_stride = p->o_stride = (attn_stride){p->q_len * row, d, row};
    p->k_stride = p->v_stride = (attn_stride){p->kv_len * kv_row, d, kv_row};
}

enum feature {
    OFF,
    CAUSAL,
    WINDOW,
    CAUSAL_AND_WINDOW,
    LENGTHS,
    GROUPED,
    BIAS,
    BIAS_GRADIENT,
    ALIBI,
    MASK,
    SOFTCAP,
    DROPOUT,
    LAYOUT,
};
static const struct {
    const char *key, *name, *knobs;
} names[ATTN_FEATURE_ROWS] = {
    [OFF] = {"off", "all off", ""},
    [CAUSAL] = {"causal", "causal, bottom-right", "CAUSAL=1"},
    [WINDOW] = {"window", "window, both sides", "WINDOW=%lld WINDOWRIGHT=%lld"},
    [CAUSAL_AND_WINDOW] = {"causal+window", "causal and window", "CAUSAL=1 WINDOW=%lld"},
    [LENGTHS] = {"lengths", "variable lengths", ""},
    [GROUPED] = {"grouped", "grouped heads", "KVHEADS=%lld"},
    [BIAS] = {"bias", "bias", "BIAS=one"},
    [BIAS_GRADIENT] = {"dbias", "bias and its gradient", "BIAS=one DBIAS=1"},
    [ALIBI] = {"alibi", "ALiBi", "ALIBI=1"},
    [MASK] = {"mask", "byte mask", "MASK=one"},
    [SOFTCAP] = {"softcap", "softcap", "SOFTCAP=30"},
    [DROPOUT] = {"dropout", "dropout", "DROPOUT=0.1"},
    [LAYOUT] = {"layout", "strides of [B][N][H][d]", "LAYOUT=bnhd"},
};

static attn_status turn_on(enum feature feature, attn_feature_row *row) {
    attn_problem *p = &row->problem;
    const long long window = p->kv_len < 16 ? 1 : p->kv_len / 16;
    const long long kv_heads = p->heads % 4 == 0 ? p->heads / 4 : 1;
    snprintf(row->knobs, sizeof row->knobs, names[feature].knobs,
             feature == GROUPED ? kv_heads : window, window);
    switch (feature) {
    case OFF:
        break;
    case CAUSAL:
        p->causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        break;
    case WINDOW:
        p->window_left = p->window_right = window;
        break;
    case CAUSAL_AND_WINDOW:
        p->causal = ATTN_CAUSAL_BOTTOM_RIGHT, p->window_left = window;
        break;
    case LENGTHS:
        return set_lengths(row);
    case GROUPED:
        p->kv_heads = kv_heads;
        break;
    case BIAS_GRADIENT:
        p->bias_gradient = 1; // fall through
    case BIAS:
        p->bias_batch = p->bias_heads = 1;
        break;
    case ALIBI:
        p->alibi = 1;
        break;
    case MASK:
        p->mask_batch = p->mask_heads = 1;
        break;
    case SOFTCAP:
        p->softcap = 30;
        break;
    case DROPOUT:
        p->dropout = 0.1f, p->dropout_seed = 1;
        break;
    case LAYOUT:
        set_layout(p);
        break;
    }
    return attn_ok();
}

attn_status attn_feature_rows(const attn_problem *asked, const attn_stage *stage,
                              attn_feature_row rows[ATTN_FEATURE_ROWS], int *count) {
    attn_problem off = attn_problem_of(asked->q_len, asked->kv_len, asked->head_dim);
    attn_status status = attn_ok();
    off.batch = asked->batch, off.heads = off.kv_heads = asked->heads, off.scale = asked->scale;
    *count = 0;
    for (int f = 0; f < ATTN_FEATURE_ROWS && status.code == ATTN_OK; f++) {
        if (f == GROUPED && off.heads == 1) continue;
        if (f == BIAS_GRADIENT && !(stage->features & ATTN_HAS_BIAS_GRADIENT)) continue;
        attn_feature_row *row = &rows[(*count)++];
        *row = (attn_feature_row){.key = names[f].key, .name = names[f].name, .problem = off};
        status = turn_on((enum feature)f, row);
    }
    if (status.code != ATTN_OK) attn_feature_rows_free(rows, *count);
    return status;
}

void attn_feature_rows_free(attn_feature_row rows[ATTN_FEATURE_ROWS], int count) {
    for (int i = 0; i < count; i++) free(rows[i].q_cumulative), free(rows[i].kv_cumulative);
}
