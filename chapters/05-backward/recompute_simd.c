// recompute_simd.c -- the same pass with SIMD (simd_tile.h), and OpenMP also where heads are few.
//
//   loops         each sequence; each key head of it, and each slab of its key tiles, spread over the
//                 threads; within it each tile of keys; within that each query head of the group, and
//                 each tile of its queries that sees one of the keys. A mask is applied only where its
//                 edge crosses a tile, a step of chapter 2's score_steps.h only where it is asked for.
//   dQ            is what threads would have to share. Instead each slab sums up a dQ of its own,
//                 without atomics, and these are added at the end, always in the same order. How
//                 many slabs there are goes by the heads and by this machine's processors, not by the
//                 threads in use: so all results are the same bits, run for run and for any number of
//                 threads.
//   dbias         would be shared as well, by the heads that share a bias: these are then one thread's,
//                 one after the other, which has only their slabs to spread.
//   tiles         bc: 1 ... TILE_KEYS, the lanes of a register block (32 with AVX-512, 24 with AVX2,
//                 12 with SSE2, 8 with NEON), which is also what it is when not asked for; br: 1
//                 to the same, or 64 when not asked for
//   extra memory  "d": D, 4 bytes a row of queries
//                 "partial_dq": for each slab 4 bytes an element of dQ, its rows filled up to whole
//                 blocks of columns; slabs are counted for each sequence
//                 "workspace", for each processor, whatever the lengths: K^T, V^T, dK^T, dV^T, K, P
//                 and dS of a tile, about 4 (5 d + 2 br) TILE_KEYS bytes; with a softcap 3 br
//   bytes         as recompute.c has them, but that dQ is summed in partial_dq, and written once;
//                 bias, mask: 4 and 1 for each pair of a key tile and the queries that see one of its
//                 keys, once a head; dbias: cleared, then 4 read and written for each such pair
//   FLOPs         10 * d * TILE_KEYS * the sum over key tiles of the queries that see a key of the
//                 tile: idle and masked lanes work, too
#include "chapters/02-online-softmax/transpose.h"
#include "chapters/02-online-softmax/workspaces.h"
#include "chapters/05-backward/simd_tile.h"

#include <string.h>

// ---- a tile of keys, and all queries that see one of them ----------------------------------------

// K and V into place. Lanes without a key and columns beyond d are left as they are: whatever they
// hold stays in its lane or column, and is never read from there.
VECTOR_NOINLINE void start(const tile *t) {
    const size_t d = (size_t)t->d, keys = (size_t)(t->j1 - t->j0);
    const size_t k_row = t->head.k_row, v_row = t->head.v_row;
    const float *k = t->head.k + (size_t)t->j0 * k_row, *v = t->head.v + (size_t)t->j0 * v_row;
    float *k_rows = t->k_rows;
    transpose(keys, d, k, k_row, t->k, TILE_KEYS);
    transpose(keys, d, v, v_row, t->v, TILE_KEYS);
    for (size_t c = 0; c < d; c += COLUMNS, k_rows += TILE_KEYS * COLUMNS)
        for (size_t j = 0; j < keys; j++)
            memcpy(k_rows + j * COLUMNS, k + j * k_row + c,
                   sizeof *k * (d - c < COLUMNS ? d - c : COLUMNS));
    memset(t->dk, 0, d * TILE_KEYS * sizeof *t->dk);
    memset(t->dv, 0, d * TILE_KEYS * sizeof *t->dv);
}

// dk, dv: the head's first rows, which lie as K's and V's do.
VECTOR_NOINLINE void finish(const tile *t, float *dk, float *dv) {
    const size_t d = (size_t)t->d, keys = (size_t)(t->j1 - t->j0);
    const size_t k_row = t->head.k_row, v_row = t->head.v_row;
    transpose(d, keys, t->dk, TILE_KEYS, dk + (size_t)t->j0 * k_row, k_row);
    transpose(d, keys, t->dv, TILE_KEYS, dv + (size_t)t->j0 * v_row, v_row);
}

// A call, and what of it is being computed.
typedef struct call {
    const attn_problem *problem;
    const attn_tensors *tensors;
    const float *d; // D, a number a row of lse
    int64_t sequence;
    attn_problem alone; // the sequence
} call;

// The queries of head t->head. dq: of the head, [columns / COLUMNS][q_len][COLUMNS].
static void query_head(tile *t, const call *c, int br, float *dq) {
    const attn_tensors *x = c->tensors;
    const query_range seeing = queries_of_tile(t->head.band, t->j0, t->j1);
    const float *d_o = (const float *)x->d_o + (t->head.o - (float *)x->o);
    const float *sum = c->d + (t->head.lse - x->lse);
    t->dbias = c->problem->bias_gradient ? x->dbias + (t->head.steps.bias - x->bias) : NULL;
    for (t->i0 = seeing.first; t->i0 < seeing.end; t->i0 = t->i1) {
        const size_t row = (size_t)t->i0;
        t->i1 = tile_end(t->i0, br, seeing.end);
        t->q = t->head.q + row * t->head.q_row, t->d_o = d_o + row * t->head.o_row;
        t->lse = t->head.lse + row, t->sum = sum + row;
        t->dq = dq + row * COLUMNS;
        tile_gradients(t);
    }
}

// dq: of the group's first query head. kv_head: of batch * kv_heads.
static void key_tile(tile *t, const call *c, int64_t kv_head, int br, float *dq, size_t dq_head) {
    const attn_tensors *x = c->tensors;
    const int64_t group = c->problem->heads / c->problem->kv_heads;
    t->head = part_of(c->problem, x, c->sequence, kv_head * group);
    start(t);
    for (int64_t g = 0; g < group; g++) {
        if (g > 0) t->head = part_of(c->problem, x, c->sequence, kv_head * group + g);
        query_head(t, c, br, dq + (size_t)g * dq_head);
    }
    finish(t, (float *)x->dk + (t->head.k - (const float *)x->k),
           (float *)x->dv + (t->head.v - (const float *)x->v));
}

// ---- all tiles -----------------------------------------------------------------------------------

static int tile_queries(const attn_problem *p) {
    return clamp_tile(p->br > 0 ? p->br : 64, p->q_len);
}
static int tile_keys(const attn_problem *p) {
    return clamp_tile(p->bc > 0 ? p->bc : TILE_KEYS, p->kv_len);
}

// Key heads that add to the same dbias, since their query heads share a bias: without one each head is a
// set by itself. Member m of set n is key head member_of(..) of batch * kv_heads.
typedef struct sharing {
    int64_t batches, heads, sets; // a set has `heads` heads of `batches` batches
} sharing;

static sharing sharing_of(const attn_problem *p) {
    sharing x = {1, 1, 0};
    if (p->bias_gradient && p->bias_batch == 1 && p->batch > 0) x.batches = p->batch;
    if (p->bias_gradient && p->bias_heads == 1) x.heads = p->kv_heads;
    x.sets = p->batch / x.batches * (p->kv_heads / x.heads);
    return x;
}
static int64_t member_of(const attn_problem *p, sharing x, int64_t set, int64_t m) {
    const int64_t across = p->kv_heads / x.heads; // sets of a batch
    return (set / across * x.batches + m / x.heads) * p->kv_heads + set % across * x.heads +
           m % x.heads;
}

// Tiles of one key head are dealt out to its slabs in turn, so that under a causal mask they get about
// the same work. There are as many slabs as it takes for all processors to get equally many, or for
// four or more each.
static int slabs(const attn_problem *p) {
    const int64_t heads = sharing_of(p).sets, processors = workspaces();
    const int64_t tiles = (p->kv_len + tile_keys(p) - 1) / tile_keys(p);
    int64_t count = 1;
    while (count < tiles && heads * count % processors != 0 && heads * count < 4 * processors)
        count++;
    return (int)count;
}

static size_t padded_columns(const attn_problem *p) {
    return ((size_t)p->head_dim + COLUMNS - 1) / COLUMNS * COLUMNS;
}
static size_t workspace_floats(const attn_problem *p) {
    const size_t tiles = p->softcap != 0 ? 3 : 2; // P, dS, and the cap's slope
    return (4 * (size_t)p->head_dim + padded_columns(p) + tiles * (size_t)tile_queries(p)) *
           TILE_KEYS;
}
// Of partial_dq; p is a sequence alone.
static size_t slab_floats(const attn_problem *p) {
    return attn_rows(p) * padded_columns(p);
}
static uint64_t all_slabs_floats(const attn_problem *p) {
    uint64_t sum = 0;
    for (int64_t s = 0; s < sequences_of(p); s++) {
        const attn_problem alone = attn_problem_of_sequence(p, s);
        sum += slab_floats(&alone) * (uint64_t)slabs(&alone);
    }
    return sum;
}

int recompute_simd_backward_buffers(const attn_problem *p, attn_buffer need[ATTN_MAX_BUFFERS]) {
    const uint64_t dq = all_slabs_floats(p);
    const uint64_t workspace = workspace_floats(p) * (uint64_t)workspaces();
    need[0] = (attn_buffer){.name = "d", .bytes = sizeof(float) * (uint64_t)attn_rows(p)};
    need[1] = (attn_buffer){.name = "partial_dq", .bytes = sizeof(float) * dq};
    need[2] = (attn_buffer){.name = "workspace", .bytes = sizeof(float) * workspace};
    return 3;
}

attn_status recompute_simd_supports(const attn_problem *p) {
    if (p->br > BLOCK_QUERIES || p->bc > TILE_KEYS)
        return attn_error(
            ATTN_UNSUPPORTED,
            "br is %lld and bc %lld, but recompute-simd keeps a tile of queries in the "
            "lanes of %d vectors, and a tile of keys in its backward pass: each may be "
            "1 to %d, or 0 for that",
            (long long)p->br, (long long)p->bc, VECTORS, TILE_KEYS);
    return attn_ok();
}

static void use_workspace(tile *t, const attn_problem *p, float *memory) {
    const size_t size = (size_t)p->head_dim * TILE_KEYS;
    t->k = memory, t->v = t->k + size, t->dk = t->v + size, t->dv = t->dk + size;
    t->k_rows = t->dv + size;
    t->p = t->k_rows + padded_columns(p) * TILE_KEYS;
    t->ds = t->p + (size_t)tile_queries(p) * TILE_KEYS;
    t->cap_slope = p->softcap != 0 ? t->ds + (size_t)tile_queries(p) * TILE_KEYS : NULL;
}

// dQ of a sequence is the sum of its slabs', in the order of their numbers. In a parallel region.
static void add_slabs(const call *c, const float *partial) {
    const attn_problem *p = &c->alone;
    const int count = slabs(p), d = (int)p->head_dim;
    const int64_t q_len = p->q_len;
    const size_t panel = (size_t)q_len * COLUMNS, slab = slab_floats(p);
    const size_t dq_head = padded_columns(p) * (size_t)q_len;
    const attn_layout at = attn_layout_of(c->problem);
    const int64_t first = attn_sequence_of(c->problem, c->sequence).q_first;
#pragma omp for schedule(static) nowait
    for (int64_t row = 0; row < (int64_t)attn_rows(p); row++) {
        const int64_t head = row / q_len, i = row % q_len;
        const float *from = partial + (size_t)head * dq_head + (size_t)i * COLUMNS;
        float *dq =
            (float *)c->tensors->dq + element_of(at.q, head / p->heads, head % p->heads, first + i);
        for (int c0 = 0; c0 < d; c0 += COLUMNS, from += panel) {
            float sum[COLUMNS];
            memcpy(sum, from, sizeof sum);
            for (int s = 1; s < count; s++)
                for (int n = 0; n < COLUMNS; n++) sum[n] += from[(size_t)s * slab + n];
            memcpy(dq + c0, sum, sizeof(float) * (size_t)(tile_end(c0, COLUMNS, d) - c0));
        }
    }
}

// Slab `slab` of a key head. dq: the slab's, of all heads.
static void head_slab(const call *c, int64_t kv_head, int64_t slab, float *dq, float *workspace) {
    const attn_problem *p = &c->alone;
    const int br = tile_queries(p), bc = tile_keys(p), count = slabs(p);
    const size_t dq_head = (size_t)p->q_len * padded_columns(p);
    const size_t dq_group = (size_t)(p->heads / p->kv_heads) * dq_head;
    tile t = {.d = (int)p->head_dim, .scale = p->scale, .dq_panel = (size_t)p->q_len * COLUMNS};
    use_workspace(&t, p, workspace);
    dq += (size_t)kv_head * dq_group;
    memset(dq, 0, dq_group * sizeof *dq);
    for (int64_t j0 = slab * bc; j0 < p->kv_len; j0 += (int64_t)count * bc) {
        t.j0 = (int)j0, t.j1 = tile_end(t.j0, bc, (int)p->kv_len);
        key_tile(&t, c, kv_head, br, dq, dq_head);
    }
}

attn_status recompute_simd_backward(const attn_problem *p, const attn_tensors *tensors,
                                    void *const *buffer) {
    float *d = buffer[1], *partial_dq = buffer[2], *workspace = buffer[3]; // [0]: forward's
    const sharing together = sharing_of(p);
    row_sums(p, tensors, d);
    if (p->bias_gradient) memset(tensors->dbias, 0, sizeof(float) * attn_bias_elements(p));
#pragma omp parallel num_threads(team())
    {
        float *dq = partial_dq, *own = workspace + (size_t)thread() * workspace_floats(p);
        for (int64_t s = 0; s < sequences_of(p); s++) {
            const call c = {p, tensors, d, s, attn_problem_of_sequence(p, s)};
            const int64_t count = slabs(&c.alone);
#pragma omp for schedule(dynamic) nowait
            for (int64_t n = 0; n < together.sets * count; n++)
                for (int64_t m = 0; m < together.batches * together.heads; m++)
                    head_slab(&c, member_of(p, together, n / count, m), n % count,
                              dq + (size_t)(n % count) * slab_floats(&c.alone), own);
            dq += slab_floats(&c.alone) * (size_t)count;
        }
#pragma omp barrier
        dq = partial_dq;
        for (int64_t s = 0; s < sequences_of(p); s++) {
            const call c = {p, tensors, d, s, attn_problem_of_sequence(p, s)};
            add_slabs(&c, dq);
            dq += slab_floats(&c.alone) * (size_t)slabs(&c.alone);
        }
    }
    return attn_ok();
}

void recompute_simd_backward_bytes(const attn_problem *p, attn_traffic *traffic) {
    const tile_totals tiles = totals_of_tiles(p, tile_keys(p));
    const uint64_t heads = (uint64_t)(p->batch * p->heads), row = 4 * padded_columns(p);
    const uint64_t passing_by = heads * tiles.queries * row, pairs = heads * tiles.pairs;
    const uint64_t all = 4 * all_slabs_floats(p);
    backward_model(p, tile_keys(p), traffic);
    attn_traffic_add(traffic, "partial_dq", passing_by + all, all + passing_by);
    attn_traffic_add(traffic, "dq", 0, 4 * attn_q_elements(p));
    if (p->bias_heads != 0) attn_traffic_add(traffic, "bias", 4 * pairs, 0);
    if (p->mask_heads != 0) attn_traffic_add(traffic, "mask", pairs, 0);
    if (p->bias_gradient)
        attn_traffic_add(traffic, "dbias", 4 * pairs, 4 * attn_bias_elements(p) + 4 * pairs);
}

double recompute_simd_backward_flops(const attn_problem *p) {
    const double rows =
        (double)(p->batch * p->heads) * (double)totals_of_tiles(p, tile_keys(p)).queries;
    return 10.0 * rows * TILE_KEYS * (double)p->head_dim;
}
