// stages.h -- the three forms of this chapter, and what their query tiles have in common.
#ifndef ATTN_CHAPTER2_STAGES_H
#define ATTN_CHAPTER2_STAGES_H

#include "cpu/mask.h"
#include "cpu/stage.h"

// Each form: forward pass, bytes and FLOPs by formula, and extra memory where it needs any. What
// these functions are to do is said in cpu/stage.h, how they do it at the head of their files.

attn_status online_forward(const attn_problem *, const attn_tensors *, void *const *buffer);
void online_bytes(const attn_problem *, attn_pass, attn_traffic *);
double online_flops(const attn_problem *, attn_pass);

attn_status tiled_forward(const attn_problem *, const attn_tensors *, void *const *buffer);
int tiled_buffers(const attn_problem *, attn_pass, attn_buffer need[ATTN_MAX_BUFFERS]);
void tiled_bytes(const attn_problem *, attn_pass, attn_traffic *);
double tiled_flops(const attn_problem *, attn_pass);

attn_status simd_supports(const attn_problem *);
attn_status simd_forward(const attn_problem *, const attn_tensors *, void *const *buffer);
int simd_buffers(const attn_problem *, attn_pass, attn_buffer need[ATTN_MAX_BUFFERS]);
void simd_bytes(const attn_problem *, attn_pass, attn_traffic *);
double simd_flops(const attn_problem *, attn_pass);

static inline int64_t sequences_of(const attn_problem *p) {
    return p->sequences != 0 ? p->sequences : 1;
}

// The tensors of one query head: heads / kv_heads neighbours share one K and V.
typedef struct head_view {
    const float *q, *k, *v; // [q_len][d], [kv_len][d], [kv_len][d]
    float *o, *lse;         // [q_len][d], [q_len]
} head_view;

static inline head_view head_of(const attn_problem *p, const attn_tensors *t, int64_t head) {
    // head counts batch * heads; as heads is a multiple of kv_heads, so counts its quotient.
    const int64_t kv = head / (p->heads / p->kv_heads);
    const int64_t q_size = p->q_len * p->head_dim, kv_size = p->kv_len * p->head_dim;
    head_view view = {
        .q = (const float *)t->q + head * q_size,
        .k = (const float *)t->k + kv * kv_size,
        .v = (const float *)t->v + kv * kv_size,
        .o = (float *)t->o + head * q_size,
        .lse = t->lse + head * p->q_len,
    };
    return view;
}

// Keys [first, end) that at least one of the queries [i0, i1) sees; none when first >= end. Both
// bounds of the band move up by one from query to query, so the first query has the first key and
// the last query the last, and every key between is seen by one of them.
typedef struct key_range {
    int first, end;
} key_range;

static inline key_range keys_of_tile(attn_band band, int i0, int i1) {
    key_range keys = {attn_first_key(band, i0), attn_end_key(band, i1 - 1)};
    return keys;
}

// Where the tile of `size` that begins at `begin` ends, the last one shorter.
static inline int tile_end(int begin, int size, int end) {
    return end - begin > size ? begin + size : end;
}

// A tile of `size`, made no longer than the `length` it is cut from, and never 0.
static inline int clamp_tile(int64_t size, int64_t length) {
    return size < length ? (int)size : length > 0 ? (int)length : 1;
}

// What all query tiles of one head, of `br` queries each, read together: keys, and pairs of a query and
// a key. Of all sequences.
typedef struct tile_reads {
    uint64_t keys, pairs;
} tile_reads;

static inline tile_reads read_together(const attn_problem *p, int br) {
    tile_reads sum = {0, 0};
    for (int64_t s = 0; s < sequences_of(p); s++) {
        const attn_problem alone = attn_problem_of_sequence(p, s);
        const attn_band band = attn_band_of(&alone);
        for (int i0 = 0, i1; i0 < band.q_len; i0 = i1) {
            i1 = tile_end(i0, br, band.q_len);
            const key_range keys = keys_of_tile(band, i0, i1);
            if (keys.end <= keys.first) continue;
            sum.keys += (uint64_t)(keys.end - keys.first);
            sum.pairs += (uint64_t)(keys.end - keys.first) * (uint64_t)(i1 - i0);
        }
    }
    return sum;
}

// The bytes of a pass in tiles of `br` queries, in the papers' two-level model: a tile, and what
// belongs to its queries, is on the chip, the rest in memory. So q, o and lse move once, and a row
// of K and of V moves once for every query tile that sees it.
static inline void tiled_model(const attn_problem *p, int br, attn_traffic *traffic) {
    const uint64_t heads = (uint64_t)(p->batch * p->heads), row = 4 * (uint64_t)p->head_dim;
    const uint64_t queries = heads * (uint64_t)p->q_len;
    const uint64_t keys = heads * read_together(p, br).keys;
    attn_traffic_add(traffic, "q", queries * row, 0);
    attn_traffic_add(traffic, "k", keys * row, 0);
    attn_traffic_add(traffic, "v", keys * row, 0);
    attn_traffic_add(traffic, "o", 0, queries * row);
    attn_traffic_add(traffic, "lse", 0, queries * 4);
}

#endif
