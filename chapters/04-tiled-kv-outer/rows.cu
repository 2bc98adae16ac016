// rows.cu -- chapter 4's rows of the stage table, and their closed forms.
#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"
#include "chapters/04-tiled-kv-outer/tiled_kv_outer.cuh"
#include "chapters/04-tiled-kv-outer/title.h"

static const char *const name_of[] = {"kv-outer", "kv-grid", "kv-split"};

#define SLICES "BC: keys a slice, rounded up to whole tiles of 64 or 32"

static attn_status fits(const attn_problem *p, kv_order order) {
    const char *stage = name_of[order];
    if (p->head_dim > 256)
        return attn_error(ATTN_UNSUPPORTED,
                          "%s: head_dim is %lld; it is compiled for at most 256 (naive does any)",
                          stage, (long long)p->head_dim);
    const kv_plan plan = kv_plan_of(p, order);
    if (p->br > 0)
        return attn_error(ATTN_UNSUPPORTED, "%s: tiles of BR=%lld; there is no BR, but %s", stage,
                          (long long)p->br, SLICES);
    ATTN_TRY(q_outer_shared_fits(p, stage, kv_tile_shared_bytes(plan.dim)));
    if (plan.rows > INT32_MAX - 8192)
        return attn_error(ATTN_UNSUPPORTED,
                          "%s: %llu rows of Q read each head of K; it counts at most %d", stage,
                          (unsigned long long)plan.rows, INT32_MAX - 8192);
    if (plan.blocks > INT32_MAX)
        return attn_error(ATTN_UNSUPPORTED, "%s: %llu blocks, and a grid has at most %d", stage,
                          (unsigned long long)plan.blocks, INT32_MAX);
    return attn_ok();
}

static attn_status kv_outer_supports(const attn_problem *p) {
    return fits(p, KV_OUTER);
}
static attn_status kv_grid_supports(const attn_problem *p) {
    return fits(p, KV_GRID);
}
static attn_status kv_split_supports(const attn_problem *p) {
    return fits(p, KV_SPLIT);
}

// ---- extra memory ----
static int add_parts(const attn_problem *p, const kv_plan *plan, attn_buffer *need) {
    const uint64_t parts =
        plan->slices > 1 ? plan->slices : 0; // one slice writes O and L themselves
    const attn_buffer o = {"o_part", 4 * parts * attn_q_elements(p), 0};
    const attn_buffer lse = {"lse_part", 4 * parts * attn_rows(p), 0};
    need[0] = o, need[1] = lse;
    return 2;
}

static int add_state(const attn_problem *p, const kv_plan *plan, attn_buffer *need) {
    const attn_buffer m = {"m", 4 * plan->slices * attn_rows(p), 0};
    need[0] = need[1] = m;
    need[1].name = "l";
    return 2;
}

static int kv_outer_buffers(const attn_problem *p, attn_pass pass,
                            attn_buffer need[ATTN_MAX_BUFFERS]) {
    const kv_plan plan = kv_plan_of(p, KV_OUTER);
    return pass == ATTN_FORWARD ? add_state(p, &plan, need) : 0;
}
static int kv_grid_buffers(const attn_problem *p, attn_pass pass,
                           attn_buffer need[ATTN_MAX_BUFFERS]) {
    const kv_plan plan = kv_plan_of(p, KV_GRID);
    if (pass != ATTN_FORWARD) return 0;
    return add_state(p, &plan, need) + add_parts(p, &plan, need + 2);
}
static int kv_split_buffers(const attn_problem *p, attn_pass pass,
                            attn_buffer need[ATTN_MAX_BUFFERS]) {
    const kv_plan plan = kv_plan_of(p, KV_SPLIT);
    return pass == ATTN_FORWARD ? add_parts(p, &plan, need) : 0;
}

// ---- bytes ----
// Every slice writes its O `times` times, and reads it one time less; at the end the slices are merged.
static void add_outputs(const attn_problem *p, const kv_plan *plan, uint64_t written, uint64_t read,
                        attn_traffic *traffic) {
    const uint64_t o = 4 * attn_q_elements(p), lse = 4 * attn_rows(p), slices = plan->slices;
    const int merged = slices > 1;
    attn_traffic_add(traffic, merged ? "o_part" : "o", read * o, written * o);
    attn_traffic_add(traffic, merged ? "lse_part" : "lse", 0, slices * lse);
    if (!merged) return;
    attn_traffic_add(traffic, "o_part", slices * o, 0);
    attn_traffic_add(traffic, "lse_part", slices * lse, 0);
    attn_traffic_add(traffic, "o", 0, o);
    attn_traffic_add(traffic, "lse", 0, lse);
}

// kv-outer and kv-grid: K and V once; Q for each tile of keys; O, m and l between two tiles of a slice.
static void add_kv_outer_bytes(const attn_problem *p, kv_order order, attn_traffic *traffic) {
    if (attn_rows(p) == 0) return;
    const kv_plan plan = kv_plan_of(p, order);
    const uint64_t between = plan.key_tiles - plan.slices;
    attn_traffic_add(traffic, "q", plan.key_tiles * 4 * attn_q_elements(p), 0);
    attn_traffic_add(traffic, "k", 4 * attn_kv_elements(p), 0);
    attn_traffic_add(traffic, "v", 4 * attn_kv_elements(p), 0);
    attn_traffic_add(traffic, "m", between * 4 * attn_rows(p), between * 4 * attn_rows(p));
    attn_traffic_add(traffic, "l", between * 4 * attn_rows(p), between * 4 * attn_rows(p));
    add_outputs(p, &plan, plan.key_tiles, between, traffic);
}

static void kv_outer_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) add_kv_outer_bytes(p, KV_OUTER, traffic);
}
static void kv_grid_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) add_kv_outer_bytes(p, KV_GRID, traffic);
}

// Q once for each slice; K and V once for each tile of queries.
static void kv_split_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass != ATTN_FORWARD || attn_rows(p) == 0) return;
    const kv_plan plan = kv_plan_of(p, KV_SPLIT);
    attn_traffic_add(traffic, "q", plan.slices * 4 * attn_q_elements(p), 0);
    attn_traffic_add(traffic, "k", plan.query_tiles * 4 * attn_kv_elements(p), 0);
    attn_traffic_add(traffic, "v", plan.query_tiles * 4 * attn_kv_elements(p), 0);
    add_outputs(p, &plan, plan.slices, 0, traffic);
}

// Both products, 2d FLOPs a pair each. What idle rows and columns of a tile multiply is not counted.
static double kv_flops(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? 4 * (double)p->head_dim * (double)attn_score_elements(p) : 0;
}

static const attn_stage stages[] = {
    {
        "kv-outer",
        "KV outer, Q inner, a block a head; O, m, l in device memory: slower",
        ATTN_HAS_GROUPED_HEADS,
        0,
        NULL,
        kv_outer_supports,
        kv_outer_buffers,
        kv_outer_forward,
        NULL, // chapter 5
        kv_outer_bytes,
        kv_flops,
        NULL,
        NULL,
    },
    {
        "kv-grid",
        "the same loops, slices of the keys on the grid, then a merge",
        ATTN_HAS_GROUPED_HEADS | ATTN_HAS_TILE_SIZES,
        0,
        SLICES,
        kv_grid_supports,
        kv_grid_buffers,
        kv_grid_forward,
        NULL,
        kv_grid_bytes,
        kv_flops,
        NULL,
        NULL,
    },
    {
        "kv-split",
        "slices of the keys on the grid, Q outer inside, then a merge (Flash-Decoding)",
        ATTN_HAS_GROUPED_HEADS | ATTN_HAS_TILE_SIZES,
        0,
        SLICES,
        kv_split_supports,
        kv_split_buffers,
        kv_split_forward,
        NULL,
        kv_split_bytes,
        kv_flops,
        NULL,
        NULL,
    },
};

ATTN_MODULE(4, CHAPTER_TITLE, CHAPTER_PREDICT, gpu_device(), stages)
