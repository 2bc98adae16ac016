// recompute_simd.c -- the same pass with SIMD (simd_tile.h), and OpenMP also where heads are few.
//
//   loops         each key head, and each slab of its key tiles, spread over the threads; within it
//                 each tile of keys; within that each query head of the group, and each tile of its
//                 queries that sees one of the keys. A mask is applied only where its edge crosses a
//                 tile.
//   dQ            is what threads would have to share. Instead each slab sums up a dQ of its own,
//                 without atomics, and these are added at the end, always in the same order. How
//                 many slabs there are goes by the heads and by this machine's processors, not by the
//                 threads in use: so all results are the same bits, run for run and for any number of
//                 threads.
//   tiles         bc: 1 ... TILE_KEYS, the lanes of a register block (32 with AVX-512, 24 with AVX2,
//                 12 with SSE2, 8 with NEON), which is also what it is when not asked for; br: any,
//                 64 when not asked for
//   extra memory  "d": D, 4 bytes a row of queries
//                 "partial_dq": for each slab 4 bytes an element of dQ, its rows filled up to whole
//                 blocks of columns
//                 "workspace", for each processor, whatever the lengths: K^T, V^T, dK^T, dV^T, K, P
//                 and dS of a tile, about 4 (5 d + 2 br) TILE_KEYS bytes
//   bytes         as recompute.c has them, but that dQ is summed in partial_dq, and written once
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
    const float *k = t->head.k + (size_t)t->j0 * d, *v = t->head.v + (size_t)t->j0 * d;
    float *k_rows = t->k_rows;
    transpose(keys, d, k, d, t->k, TILE_KEYS);
    transpose(keys, d, v, d, t->v, TILE_KEYS);
    for (size_t c = 0; c < d; c += COLUMNS, k_rows += TILE_KEYS * COLUMNS)
        for (size_t j = 0; j < keys; j++)
            memcpy(k_rows + j * COLUMNS, k + j * d + c,
                   sizeof *k * (d - c < COLUMNS ? d - c : COLUMNS));
    memset(t->dk, 0, d * TILE_KEYS * sizeof *t->dk);
    memset(t->dv, 0, d * TILE_KEYS * sizeof *t->dv);
}

VECTOR_NOINLINE void finish(const tile *t) {
    const size_t d = (size_t)t->d, keys = (size_t)(t->j1 - t->j0);
    transpose(d, keys, t->dk, TILE_KEYS, t->head.dk + (size_t)t->j0 * d, d);
    transpose(d, keys, t->dv, TILE_KEYS, t->head.dv + (size_t)t->j0 * d, d);
}

// dq: of the group's first query head, [group][columns / COLUMNS][q_len][COLUMNS].
static void key_tile(tile *t, const attn_problem *p, int br, float *dq, size_t dq_head) {
    const query_range seeing = queries_of_tile(t->band, t->j0, t->j1);
    const int group = (int)(p->heads / p->kv_heads);
    start(t);
    for (int g = 0; g < group; g++)
        for (t->i0 = seeing.first; t->i0 < seeing.end; t->i0 = t->i1) {
            const size_t row = (size_t)g * (size_t)p->q_len + (size_t)t->i0, d = (size_t)t->d;
            t->i1 = tile_end(t->i0, br, seeing.end);
            t->q = t->head.q + row * d, t->d_o = t->head.d_o + row * d;
            t->lse = t->head.lse + row, t->sum = t->head.sum + row;
            t->dq = dq + (size_t)g * dq_head + (size_t)t->i0 * COLUMNS;
            tile_gradients(t);
        }
    finish(t);
}

// ---- all tiles -----------------------------------------------------------------------------------

static int tile_queries(const attn_problem *p) {
    return clamp_tile(p->br > 0 ? p->br : 64, p->q_len);
}
static int tile_keys(const attn_problem *p) {
    return clamp_tile(p->bc > 0 ? p->bc : TILE_KEYS, p->kv_len);
}

// Tiles of one key head are dealt out to its slabs in turn, so that under a causal mask they get about
// the same work. There are as many slabs as it takes for all processors to get equally many, or for
// four or more each.
static int slabs(const attn_problem *p) {
    const int64_t heads = p->batch * p->kv_heads, processors = workspaces();
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
    return (4 * (size_t)p->head_dim + padded_columns(p) + 2 * (size_t)tile_queries(p)) * TILE_KEYS;
}
static size_t slab_floats(const attn_problem *p) { // of partial_dq
    return attn_rows(p) * padded_columns(p);
}

int recompute_simd_backward_buffers(const attn_problem *p, attn_buffer need[ATTN_MAX_BUFFERS]) {
    const uint64_t dq = slab_floats(p) * (uint64_t)slabs(p);
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
}

// dQ is the sum of the slabs', in the order of their numbers.
static void add_slabs(const attn_problem *p, const float *partial, float *dq) {
    const int count = slabs(p), d = (int)p->head_dim;
    const size_t q_len = (size_t)p->q_len, panel = q_len * COLUMNS, slab = slab_floats(p);
    const size_t dq_head = padded_columns(p) * q_len;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < (int64_t)attn_rows(p); row++) {
        const float *from = partial + (size_t)row / q_len * dq_head + (size_t)row % q_len * COLUMNS;
        for (int c0 = 0; c0 < d; c0 += COLUMNS, from += panel) {
            float sum[COLUMNS];
            memcpy(sum, from, sizeof sum);
            for (int s = 1; s < count; s++)
                for (int c = 0; c < COLUMNS; c++) sum[c] += from[(size_t)s * slab + c];
            memcpy(dq + row * d + c0, sum, sizeof(float) * (size_t)(tile_end(c0, COLUMNS, d) - c0));
        }
    }
}

attn_status recompute_simd_backward(const attn_problem *p, const attn_tensors *tensors,
                                    void *const *buffer) {
    float *d = buffer[1], *partial_dq = buffer[2], *workspace = buffer[3]; // [0]: forward's
    const int br = tile_queries(p), bc = tile_keys(p), count = slabs(p);
    const size_t dq_head = (size_t)p->q_len * padded_columns(p);
    const size_t dq_group = (size_t)(p->heads / p->kv_heads) * dq_head;
    row_sums(p, tensors, d);
#pragma omp parallel for schedule(dynamic) num_threads(team())
    for (int64_t n = 0; n < p->batch * p->kv_heads * count; n++) {
        const int64_t head = n / count, slab = n % count;
        tile t = {.head = key_head_of(p, tensors, d, head), .band = attn_band_of(p)};
        t.d = (int)p->head_dim, t.scale = p->scale, t.dq_panel = (size_t)p->q_len * COLUMNS;
        use_workspace(&t, p, workspace + (size_t)thread() * workspace_floats(p));
        float *dq = partial_dq + (size_t)slab * slab_floats(p) + (size_t)head * dq_group;
        memset(dq, 0, dq_group * sizeof *dq);
        for (int64_t j0 = slab * bc; j0 < p->kv_len; j0 += (int64_t)count * bc) {
            t.j0 = (int)j0, t.j1 = tile_end(t.j0, bc, t.band.kv_len);
            key_tile(&t, p, br, dq, dq_head);
        }
    }
    add_slabs(p, partial_dq, tensors->dq);
    return attn_ok();
}

void recompute_simd_backward_bytes(const attn_problem *p, attn_traffic *traffic) {
    const uint64_t heads = (uint64_t)(p->batch * p->heads), row = 4 * padded_columns(p);
    const uint64_t passing_by = heads * totals_of_tiles(p, tile_keys(p)).queries * row;
    const uint64_t all = (uint64_t)slabs(p) * attn_rows(p) * row;
    backward_model(p, tile_keys(p), traffic);
    attn_traffic_add(traffic, "partial_dq", passing_by + all, all + passing_by);
    attn_traffic_add(traffic, "dq", 0, 4 * attn_q_elements(p));
}

double recompute_simd_backward_flops(const attn_problem *p) {
    const double rows =
        (double)(p->batch * p->heads) * (double)totals_of_tiles(p, tile_keys(p)).queries;
    return 10.0 * rows * TILE_KEYS * (double)p->head_dim;
}
