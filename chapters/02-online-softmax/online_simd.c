// online_simd.c -- form (c): the tiles of form (b) with SIMD, and OpenMP over query tiles.
//
// What is added is only speed. Queries lie side by side in the lanes of the vectors: S and O are
// kept transposed, S^T = K Q^T and O^T = O^T alpha + V^T P^T. Then m, l and alpha are vectors, softmax is
// form (a)'s lines with a vector where a number was, and no sum has to run across lanes. Both
// products are one routine (register_block.h), and e^x is 2^(x log2(e)), from exp2.h.
//
// It is also the form that does all that cpu/problem.h has: heads and sequences as they lie in memory
// (part.h), and small steps between the products, for softcap, bias, ALiBi, a mask of bytes and dropout
// (score_steps.h). A step is asked for once a tile; without any, a tile takes the same way as ever.
//
//   loops         each sequence; each (head, tile of queries) of it, spread over the threads; within it
//                 each tile of keys that one of its queries sees. Other tiles are skipped; a mask is
//                 applied only to keys that some of the queries see and others do not.
//   tiles         br: 1 ... BLOCK_QUERIES, the lanes of a register block (32 with AVX-512, 24 with
//                 AVX2, 12 with SSE2, 8 with NEON), which is also what it is when not asked for;
//                 bc: any; 128 when not asked for
//   extra memory  "workspace", Q^T, S^T and O^T of a tile for each processor:
//                 4 (2 d + bc) BLOCK_QUERIES bytes each, whatever the lengths
//   bytes         q, o: rows * d * 4 each;  lse: rows * 4;  k, v: heads * d * 4 * the sum over query
//                 tiles of the keys that the tile sees, (q_len / br) * kv_len without a mask;
//                 bias, mask: 4 and 1 for each pair of these queries and keys, once a head
//   FLOPs         4 * d * BLOCK_QUERIES * the same sum * heads: idle and masked lanes work, too
#include "chapters/02-online-softmax/exp2.h"
#include "chapters/02-online-softmax/part.h"
#include "chapters/02-online-softmax/register_block.h"
#include "chapters/02-online-softmax/stages.h"
#include "chapters/02-online-softmax/transpose.h"
#include "chapters/02-online-softmax/workspaces.h"

#include <math.h>

// ---- one tile ----------------------------------------------------------------------------------------

// S stays unscaled here: e^(scale s - scale m) = 2^((s - m) log2_scale). (Scaling Q beforehand would
// be one multiplication less, but its rounding errors can be all alike and add up over d.) Then m is
// the largest s only where the scale is positive; so the sign goes into Q, which is exact. And to a
// scale of 0 belongs Q * 0, since (s - m) * 0 would be NaN for a masked s.
// A scale so large that log2(e) times it is infinite gives 2^64 of itself to Q, which is exact as well.
// Steps that change scores need true ones: what else there is of the scale then goes into S.
typedef struct scaling {
    float of_q;       // 1, -1 or 0, or +-2^64
    float of_s;       // |scale / of_q|, or 1 for 0, where steps change scores
    float scale;      // that, where none does; else 1
    float log2_scale; // log2(e) times that
} scaling;

static scaling scaling_of(float scale, int change_scores) {
    const float large = fabsf(scale) > 0x1p126f ? 0x1p64f : 1;
    const float size = scale == 0 ? 1 : fabsf(scale) / large;
    scaling x = {.of_q = (float)((scale > 0) - (scale < 0)) * large, .of_s = size};
    x.scale = change_scores ? 1 : size;
    x.log2_scale = (float)(x.scale * 1.4426950408889634);
    return x;
}

typedef struct tile {
    part head;
    int d;
    scaling scale;
    int i0, i1, j0, j1; // queries [i0, i1), keys [j0, j1)
    key_range seen_by_all;

    // [.][BLOCK_QUERIES]: query i0 + n is column n.
    float *q; // [d]  Q^T, times scaling.of_q
    float *s; // [bc] S^T, then P^T; row j - j0
    float *o; // [d]  O^T, not yet divided by l

    vfloat m[VECTORS];     // largest score so far
    vfloat l[VECTORS];     // sum of e^(scale (s - m)) so far
    vfloat alpha[VECTORS]; // e^(scale (m before this tile of keys - m))
} tile;

static float *score_at(const tile *t, int j, int v) { // LANES scores of key j
    return t->s + (size_t)(j - t->j0) * BLOCK_QUERIES + v * LANES;
}

// The queries of vector v, and which of them see key j. In lanes beyond the last query: anything.
VECTOR_INLINE vint queries_of(const tile *t, int v) {
    return vector_iota() + (t->i0 + v * LANES);
}
VECTOR_INLINE vint sees(attn_band band, vint i, int j) {
    const vint distance = j - i;
    return (distance >= band.first) & (distance < band.end);
}

static int all_see(const tile *t, int j) {
    return t->seen_by_all.first <= j && j < t->seen_by_all.end;
}

// S^T or P^T, for the steps.
static pairs pairs_of(const tile *t) {
    return (pairs){t->s, t->i0, t->i1, t->j0, t->j1, QUERIES_IN_LANES};
}

// S^T = K Q^T: a row of it for each key, d multiply-adds deep.
VECTOR_NOINLINE void scores(const tile *t) {
    const size_t d = (size_t)t->d, row = t->head.k_row;
    product((size_t)(t->j1 - t->j0), d, t->head.k + (size_t)t->j0 * row, row, 1, t->q, NULL, t->s);
}

// -infinity where a query does not see the key: chosen, not added, for the score may be NaN.
VECTOR_NOINLINE void mask_scores(const tile *t) {
    const attn_band band = t->head.band;
    for (int v = 0; v < VECTORS; v++) {
        const vint i = queries_of(t, v);
        for (int j = t->j0; j < t->j1; j++) {
            if (all_see(t, j)) continue;
            float *s = score_at(t, j, v);
            vector_store(s, vector_select(sees(band, i, j), vector_load(s), vector_of(-INFINITY)));
        }
    }
}

// P^T = e^(scale (S^T - m)) with the new m. l follows it here, O^T in what comes next.
VECTOR_NOINLINE void softmax(tile *t) {
    // Copied out of t, which for all the compiler knows changes with every store through s.
    const float scale = t->scale.log2_scale;
    float *const begin = t->s, *const end = score_at(t, t->j1, 0);

    vfloat m[VECTORS], shift[VECTORS], l[VECTORS];
    VECTOR_UNROLL
    for (int v = 0; v < VECTORS; v++) m[v] = t->m[v];
    for (const float *s = begin; s < end; s += BLOCK_QUERIES) {
        // A NaN is passed over here, and comes back below, as a weight of NaN.
        VECTOR_UNROLL
        for (int v = 0; v < VECTORS; v++) m[v] = vector_max(vector_load(s + v * LANES), m[v]);
    }
    VECTOR_UNROLL
    for (int v = 0; v < VECTORS; v++) {
        // A query that has seen nothing but -infinity: (-inf) - (-inf) would be NaN.
        shift[v] = vector_select(m[v] == -INFINITY, vector_of(0), m[v]);
        t->alpha[v] = vector_exp2((t->m[v] - shift[v]) * scale);
        l[v] = t->l[v] * t->alpha[v];
        t->m[v] = m[v];
    }
    for (float *s = begin; s < end; s += BLOCK_QUERIES) {
        VECTOR_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            const vfloat p = vector_exp2((vector_load(s + v * LANES) - shift[v]) * scale);
            vector_store(s + v * LANES, p);
            l[v] += p;
        }
    }
    VECTOR_UNROLL
    for (int v = 0; v < VECTORS; v++) t->l[v] = l[v];
}

// O^T = O^T alpha + V^T P^T: a row of it for each column of V, as deep as there are keys.
VECTOR_NOINLINE void values(const tile *t) {
    const size_t d = (size_t)t->d, row = t->head.v_row;
    product(d, (size_t)(t->j1 - t->j0), t->head.v + (size_t)t->j0 * row, 1, row, t->s, t->alpha,
            t->o);
}

// A masked key has the weight 0, and 0 times any number is 0: for finite V the plain product selects.
// But 0 times infinity, or NaN, is NaN. Whether such a number stands in a row of V that some query
// does not see is quickly looked up: x * 0 is 0 for every other number.
VECTOR_NOINLINE int product_would_leak(const tile *t) {
    const size_t d = (size_t)t->d;
    vfloat zeros = vector_of(0);
    float zero = 0;
    for (int j = t->j0; j < t->j1; j++) {
        if (all_see(t, j)) continue;
        const float *v = t->head.v + (size_t)j * t->head.v_row;
        size_t c = 0;
        for (; c + LANES <= d; c += LANES) zeros += vector_load(v + c) * 0.0f;
        for (; c < d; c++) zero += v[c] * 0.0f;
    }
    for (int lane = 0; lane < LANES; lane++) zero += zeros[lane];
    return zero != 0; // that is, NaN
}

// Which queries of vector v see key j, by all masks there are.
static vint sees_by_all_masks(const tile *t, int v, int j) {
    vint seen = sees(t->head.band, queries_of(t, v), j);
    for (int lane = 0; t->head.steps.mask && lane < LANES; lane++) {
        const int i = t->i0 + v * LANES + lane;
        if (i < t->i1 && !shows(&t->head.steps, i, j)) seen[lane] = 0;
    }
    return seen;
}

// The same as values(), where it would leak: slow, and hardly ever needed. What is chosen is the
// number of V, not the product, so that each step rounds as it does there: the results are the same
// bits, whatever the masked rows of V hold.
static void values_selected(const tile *t) {
    const size_t d = (size_t)t->d;
    for (int v = 0; v < VECTORS; v++) {
        float *o = t->o + v * LANES;
        for (size_t c = 0; c < d * BLOCK_QUERIES; c += BLOCK_QUERIES)
            vector_store(o + c, vector_load(o + c) * t->alpha[v]);
        for (int j = t->j0; j < t->j1; j++) {
            const vint seen = sees_by_all_masks(t, v, j);
            const vfloat p = vector_load(score_at(t, j, v));
            const float *value = t->head.v + (size_t)j * t->head.v_row;
            for (size_t c = 0; c < d; c++) {
                float *sum = o + c * BLOCK_QUERIES;
                const vfloat x = vector_select(seen, vector_of(value[c]), vector_of(0));
                vector_store(sum, vector_load(sum) + p * x);
            }
        }
    }
}

// Q^T, with zeros in the lanes that have no query; nothing seen, nothing summed.
VECTOR_NOINLINE void start(tile *t) {
    const size_t d = (size_t)t->d, queries = (size_t)(t->i1 - t->i0);
    if (queries < BLOCK_QUERIES) memset(t->q, 0, d * BLOCK_QUERIES * sizeof *t->q);
    transpose(queries, d, t->head.q + (size_t)t->i0 * t->head.q_row, t->head.q_row, t->q,
              BLOCK_QUERIES);
    if (t->scale.of_q != 1)
        for (size_t n = 0; n < d * BLOCK_QUERIES; n++) t->q[n] *= t->scale.of_q;
    memset(t->o, 0, d * BLOCK_QUERIES * sizeof *t->o);
    for (int v = 0; v < VECTORS; v++) t->m[v] = vector_of(-INFINITY), t->l[v] = vector_of(0);
}

// Divides by l, once, and puts O back into rows.
VECTOR_NOINLINE void finish(tile *t) {
    const size_t d = (size_t)t->d, queries = (size_t)(t->i1 - t->i0);
    float factor[BLOCK_QUERIES] = {0};
    for (size_t n = 0; n < queries; n++) {
        const int i = t->i0 + (int)n, v = (int)n / LANES, lane = (int)n % LANES;
        // A query that sees no key has O = 0 here, and 0 * (1 / 0) would be NaN.
        const attn_band band = t->head.band;
        const int sees_a_key =
            shows_a_key(&t->head.steps, i, attn_first_key(band, i), attn_end_key(band, i));
        factor[n] = sees_a_key ? 1 / t->l[v][lane] : 0;
        t->head.lse[i] = t->m[v][lane] * t->scale.scale + logf(t->l[v][lane]);
    }
    for (size_t c = 0; c < d; c++)
        for (int v = 0; v < VECTORS; v++) {
            float *o = t->o + c * BLOCK_QUERIES + v * LANES;
            vector_store(o, vector_load(o) * vector_load(factor + v * LANES));
        }
    transpose(d, queries, t->o, BLOCK_QUERIES, t->head.o + (size_t)t->i0 * t->head.o_row,
              t->head.o_row);
}

static void attend(tile *t, int bc) {
    const score_steps *steps = &t->head.steps;
    const attn_band band = t->head.band;
    start(t);
    const key_range keys = keys_of_tile(band, t->i0, t->i1);
    // As the bounds move up from query to query, the last first key and the first last one count. A mask
    // of bytes may hide any key.
    t->seen_by_all.first = attn_first_key(band, t->i1 - 1);
    t->seen_by_all.end = steps->mask ? t->seen_by_all.first : attn_end_key(band, t->i0);
    for (t->j0 = keys.first; t->j0 < keys.end; t->j0 = t->j1) {
        t->j1 = tile_end(t->j0, bc, keys.end);
        const int edge = t->j0 < t->seen_by_all.first || t->j1 > t->seen_by_all.end;
        const pairs s = pairs_of(t);
        scores(t);
        if (steps->change_scores) change_scores(steps, s, t->scale.of_s, NULL);
        if (edge) mask_scores(t);
        if (steps->mask) hide(steps, s, -INFINITY);
        softmax(t);
        if (steps->drops) drop(steps, s);
        if (edge && product_would_leak(t))
            values_selected(t);
        else
            values(t);
    }
    finish(t);
}

// ---- all tiles ---------------------------------------------------------------------------------------

static int tile_queries(const attn_problem *p) {
    return clamp_tile(p->br > 0 ? p->br : BLOCK_QUERIES, p->q_len);
}
static int tile_keys(const attn_problem *p) {
    return clamp_tile(p->bc > 0 ? p->bc : 128, p->kv_len);
}

static size_t workspace_floats(const attn_problem *p) {
    return (2 * (size_t)p->head_dim + (size_t)tile_keys(p)) * BLOCK_QUERIES;
}

int simd_buffers(const attn_problem *p, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]) {
    if (pass != ATTN_FORWARD) return 0;
    need[0] = (attn_buffer){
        .name = "workspace",
        .bytes = sizeof(float) * (uint64_t)workspace_floats(p) * (uint64_t)workspaces(),
    };
    return 1;
}

attn_status simd_supports(const attn_problem *p) {
    if (p->br > BLOCK_QUERIES)
        return attn_error(ATTN_UNSUPPORTED,
                          "br is %lld, but online-simd keeps a tile of queries in the lanes of %d "
                          "vectors: br may be 1 to %d, or 0 for that",
                          (long long)p->br, VECTORS, BLOCK_QUERIES);
    return attn_ok();
}

attn_status simd_forward(const attn_problem *p, const attn_tensors *tensors, void *const *buffer) {
    const int br = tile_queries(p), bc = tile_keys(p);
    // Tiles are of unequal length under a causal mask, the last one sees most: each thread takes the
    // next one when it is free, and the long ones of a head come first.
#pragma omp parallel num_threads(team())
    for (int64_t s = 0; s < sequences_of(p); s++) {
        const int q_len = (int)attn_sequence_of(p, s).q_len;
        const int64_t tiles = (q_len + br - 1) / br, work = p->batch * p->heads * tiles;
#pragma omp for schedule(dynamic) nowait
        for (int64_t n = 0; n < work; n++) {
            tile t = {.head = part_of(p, tensors, s, n / tiles), .d = (int)p->head_dim};
            t.scale = scaling_of(p->scale, t.head.steps.change_scores);
            t.i0 = (int)(tiles - 1 - n % tiles) * br;
            t.i1 = tile_end(t.i0, br, q_len);
            t.q = (float *)buffer[0] + (size_t)thread() * workspace_floats(p);
            t.o = t.q + (size_t)p->head_dim * BLOCK_QUERIES;
            t.s = t.o + (size_t)p->head_dim * BLOCK_QUERIES;
            attend(&t, bc);
        }
    }
    return attn_ok();
}

void simd_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    (void)pass;
    const uint64_t heads = (uint64_t)(p->batch * p->heads);
    const uint64_t pairs = heads * read_together(p, tile_queries(p)).pairs;
    tiled_model(p, tile_queries(p), traffic);
    if (p->bias_heads != 0) attn_traffic_add(traffic, "bias", 4 * pairs, 0);
    if (p->mask_heads != 0) attn_traffic_add(traffic, "mask", pairs, 0);
}

double simd_flops(const attn_problem *p, attn_pass pass) {
    (void)pass;
    return 4.0 * (double)(p->batch * p->heads) * (double)read_together(p, tile_queries(p)).keys *
           BLOCK_QUERIES * (double)p->head_dim;
}
