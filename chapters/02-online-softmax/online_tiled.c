// online_tiled.c -- form (b): the same pass in tiles, br queries by bc keys, in plain C.
//
// Form (a) reads K and V again for every query. Here br queries share what is read: a tile of keys
// is brought in once and used by all of them while it is in the cache, and K and V are read q_len/br
// times. Within a tile softmax is the ordinary one; between tiles it is form (a)'s, with a whole
// tile in the place of a key, so that m moves, and O is rescaled, once a tile. This is
// FlashAttention-2's order of loops (arXiv 2307.08691, Algorithm 1), this course's v1.
//
//   loops         each tile of queries; within it each tile of keys that one of its queries sees
//   tiles         br, bc: any; 64 x 64 when not asked for
//   extra memory  "tile": S of one tile, m and l:  4 (br bc + 2 br) bytes, whatever the lengths.
//                 O grows in its own place, a tile of it at a time.
//   bytes         q, o: rows * d * 4 each;  lse: rows * 4;  k, v: heads * d * 4 * the sum over query
//                 tiles of the keys that the tile sees, (q_len / br) * kv_len without a mask
//   FLOPs         4 * pairs * d: only pairs that see each other are computed
#include "chapters/02-online-softmax/stages.h"
#include "cpu/trace/hooks.h"

#include <math.h>

typedef struct tile {
    head_view head;
    attn_band band;
    int d, bc;
    float scale;
    int i0, i1, j0, j1; // queries [i0, i1), keys [j0, j1)
    float *s;           // [br][bc] scores, then weights
    float *m, *l;       // [br] largest score, and sum of e^(s - m), of the key tiles so far
} tile;

// The keys of the tile that query i sees. Masking is nothing more here: what a query does not see is
// never computed, and not even read.
static key_range keys_in_tile(const tile *t, int i) {
    key_range keys = {attn_first_key(t->band, i), attn_end_key(t->band, i)};
    if (keys.first < t->j0) keys.first = t->j0;
    if (keys.end > t->j1) keys.end = t->j1;
    return keys;
}

static float *score_row(const tile *t, int i) { // indexed by j - j0
    return t->s + (int64_t)(i - t->i0) * t->bc;
}

// S = scale * Q K^T
static void scores(const tile *t) {
    for (int i = t->i0; i < t->i1; i++) {
        const key_range keys = keys_in_tile(t, i);
        const float *q = t->head.q + (int64_t)i * t->d;
        float *s = score_row(t, i);
        for (int j = keys.first; j < keys.end; j++) {
            const float *k = t->head.k + (int64_t)j * t->d;
            float sum = 0;
            for (int c = 0; c < t->d; c++) sum += q[c] * k[c];
            s[j - t->j0] = sum * t->scale;
        }
    }
}

// P = e^(S - m) with the new m; l and O, which were sums with the old one, follow it.
static void softmax(const tile *t) {
    for (int i = t->i0; i < t->i1; i++) {
        const key_range keys = keys_in_tile(t, i);
        if (keys.first >= keys.end) continue; // this query sees nothing of the tile
        float *s = score_row(t, i), *o = t->head.o + (int64_t)i * t->d;
        float *m = t->m + (i - t->i0), *l = t->l + (i - t->i0);

        float m_new = *m;
        for (int j = keys.first; j < keys.end; j++)
            if (s[j - t->j0] > m_new) m_new = s[j - t->j0];
        const float shift = m_new == -INFINITY ? 0 : m_new; // (-inf) - (-inf) would be NaN
        const float alpha = expf(*m - shift);
        TRACE_ROW(i - t->i0, s, 1, *m, m_new, alpha, *l, o);

        float sum = 0;
        for (int j = keys.first; j < keys.end; j++) {
            s[j - t->j0] = expf(s[j - t->j0] - shift);
            sum += s[j - t->j0];
        }
        *l = *l * alpha + sum;
        for (int c = 0; c < t->d; c++) o[c] *= alpha;
        *m = m_new;
    }
}

// O += P V
static void values(const tile *t) {
    for (int i = t->i0; i < t->i1; i++) {
        const key_range keys = keys_in_tile(t, i);
        const float *p = score_row(t, i);
        float *o = t->head.o + (int64_t)i * t->d;
        for (int j = keys.first; j < keys.end; j++) {
            const float *v = t->head.v + (int64_t)j * t->d;
            for (int c = 0; c < t->d; c++) o[c] += p[j - t->j0] * v[c];
        }
    }
}

static void start(const tile *t) {
    for (int i = t->i0; i < t->i1; i++) {
        float *o = t->head.o + (int64_t)i * t->d;
        for (int c = 0; c < t->d; c++) o[c] = 0;
        t->m[i - t->i0] = -INFINITY;
        t->l[i - t->i0] = 0;
    }
}

static void finish(const tile *t) {
    for (int i = t->i0; i < t->i1; i++) {
        const float m = t->m[i - t->i0], l = t->l[i - t->i0];
        const int saw_a_key = attn_first_key(t->band, i) < attn_end_key(t->band, i);
        float *o = t->head.o + (int64_t)i * t->d;
        for (int c = 0; c < t->d && saw_a_key; c++) o[c] /= l; // else O stays 0
        t->head.lse[i] = m + logf(l);
    }
}

// Sizes asked for, or 64; never more than there is, never 0.
static int tile_queries(const attn_problem *p) {
    return clamp_tile(p->br > 0 ? p->br : 64, p->q_len);
}
static int tile_keys(const attn_problem *p) {
    return clamp_tile(p->bc > 0 ? p->bc : 64, p->kv_len);
}

int tiled_buffers(const attn_problem *p, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]) {
    if (pass != ATTN_FORWARD) return 0;
    const uint64_t br = (uint64_t)tile_queries(p), bc = (uint64_t)tile_keys(p);
    need[0] = (attn_buffer){.name = "tile", .bytes = sizeof(float) * (br * bc + 2 * br)};
    return 1;
}

attn_status tiled_forward(const attn_problem *p, const attn_tensors *tensors, void *const *buffer) {
    const int br = tile_queries(p);
    tile t = {.band = attn_band_of(p),
              .d = (int)p->head_dim,
              .bc = tile_keys(p),
              .scale = p->scale};
    t.m = buffer[0];
    t.l = t.m + br;
    t.s = t.l + br;
    for (int64_t n = 0; n < p->batch * p->heads; n++) {
        t.head = head_of(p, tensors, n);
        for (t.i0 = 0; t.i0 < t.band.q_len; t.i0 = t.i1) {
            t.i1 = tile_end(t.i0, br, t.band.q_len);
            TRACE_QUERIES_STAY(t.i0, br);
            start(&t);
            const key_range keys = keys_of_tile(t.band, t.i0, t.i1);
            for (t.j0 = keys.first; t.j0 < keys.end; t.j0 = t.j1) {
                t.j1 = tile_end(t.j0, t.bc, keys.end);
                TRACE_TILE(t.i0, t.j0, t.j1 - t.j0);
                scores(&t);
                softmax(&t);
                values(&t);
                TRACE_DONE(t.s, t.bc, t.l, t.head.o + t.i0 * t.d, t.d);
            }
            finish(&t);
        }
    }
    return attn_ok();
}

void tiled_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    (void)pass;
    tiled_model(p, tile_queries(p), traffic);
}

double tiled_flops(const attn_problem *p, attn_pass pass) {
    return online_flops(p, pass); // clipped at the mask, tiles compute no pair more than rows do
}
