// stages.h -- the host stages of this chapter, and what their backward passes have in common.
#ifndef ATTN_CHAPTER5_STAGES_H
#define ATTN_CHAPTER5_STAGES_H

#include "chapters/02-online-softmax/stages.h" // the forward passes: online-tiled's, online-simd's

attn_status recompute_backward(const attn_problem *, const attn_tensors *, void *const *buffer);
int recompute_tile_keys(const attn_problem *);

attn_status recompute_simd_backward(const attn_problem *, const attn_tensors *,
                                    void *const *buffer);
int recompute_simd_backward_buffers(const attn_problem *, attn_buffer need[ATTN_MAX_BUFFERS]);
attn_status recompute_simd_supports(const attn_problem *);
void recompute_simd_backward_bytes(const attn_problem *, attn_traffic *);
double recompute_simd_backward_flops(const attn_problem *);

// D_i = sum_c dO_ic O_ic, a number a query row: d [B][H][q_len].
void row_sums(const attn_problem *, const attn_tensors *, float *d);

// A key head and the query heads that share it. These are neighbours, so that row i of the g-th of
// them is row g * q_len + i here.
typedef struct key_head {
    const float *k, *v; // [kv_len][d]
    float *dk, *dv;
    const float *q, *d_o;   // [group][q_len][d]
    const float *lse, *sum; // [group][q_len], L and D
    float *dq;
} key_head;

// sum: D of all rows; head: of batch * kv_heads.
static inline key_head key_head_of(const attn_problem *p, const attn_tensors *t, const float *sum,
                                   int64_t head) {
    const int64_t kv = head * p->kv_len * p->head_dim;
    const int64_t row = head * (p->heads / p->kv_heads) * p->q_len, q = row * p->head_dim;
    key_head view = {
        .k = (const float *)t->k + kv,
        .v = (const float *)t->v + kv,
        .dk = (float *)t->dk + kv,
        .dv = (float *)t->dv + kv,
        .q = (const float *)t->q + q,
        .d_o = (const float *)t->d_o + q,
        .lse = t->lse + row,
        .sum = sum + row,
        .dq = (float *)t->dq + q,
    };
    return view;
}

// Queries [first, end) that see at least one of the keys [j0, j1); none when first >= end. Both
// bounds of the band move by one from query to query, so there are no gaps.
typedef struct query_range {
    int first, end;
} query_range;

static inline query_range queries_of_tile(attn_band band, int j0, int j1) {
    query_range queries = {j0 - band.end + 1, j1 - band.first};
    if (queries.first < 0) queries.first = 0;
    if (queries.end > band.q_len) queries.end = band.q_len;
    return queries;
}

// Over all tiles of bc keys of one head: the queries that they read together, the keys of those tiles
// that at least one query sees, and the pairs of both. Of all sequences.
typedef struct tile_totals {
    uint64_t queries, keys, pairs;
} tile_totals;

static inline tile_totals totals_of_tiles(const attn_problem *p, int bc) {
    tile_totals sum = {0, 0, 0};
    for (int64_t s = 0; s < sequences_of(p); s++) {
        const attn_problem alone = attn_problem_of_sequence(p, s);
        const attn_band band = attn_band_of(&alone);
        for (int j0 = 0, j1; j0 < band.kv_len; j0 = j1) {
            j1 = tile_end(j0, bc, band.kv_len);
            const query_range queries = queries_of_tile(band, j0, j1);
            if (queries.first >= queries.end) continue;
            sum.queries += (uint64_t)(queries.end - queries.first);
            sum.keys += (uint64_t)(j1 - j0);
            sum.pairs += (uint64_t)(queries.end - queries.first) * (uint64_t)(j1 - j0);
        }
    }
    return sum;
}

// The bytes of a backward pass in tiles of bc keys, but for those of dQ, in the papers' two-level
// model: a tile of keys, with its dK and dV, is on the chip while all queries that see it pass by.
static inline void backward_model(const attn_problem *p, int bc, attn_traffic *traffic) {
    const tile_totals tiles = totals_of_tiles(p, bc);
    const uint64_t row = 4 * (uint64_t)p->head_dim, kv = 4 * attn_kv_elements(p);
    const uint64_t queries = (uint64_t)(p->batch * p->heads) * tiles.queries;
    const uint64_t keys = (uint64_t)(p->batch * p->kv_heads) * tiles.keys;
    attn_traffic_add(traffic, "o", attn_rows(p) * row, 0); // o and do for D
    attn_traffic_add(traffic, "do", attn_rows(p) * row + queries * row, 0);
    attn_traffic_add(traffic, "d", queries * 4, attn_rows(p) * 4);
    attn_traffic_add(traffic, "lse", queries * 4, 0);
    attn_traffic_add(traffic, "q", queries * row, 0);
    attn_traffic_add(traffic, "k", keys * row, 0);
    attn_traffic_add(traffic, "v", keys * row, 0);
    attn_traffic_add(traffic, "dk", 0, kv);
    attn_traffic_add(traffic, "dv", 0, kv);
}

#endif
