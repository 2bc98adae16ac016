// rows.cu -- what make trace4 traces: kv-outer, compiled with its hooks and in tiles of 8 x 8, a thread each.
#include "chapters/03-tiled-q-outer/trace/small.cuh"

#include "chapters/04-tiled-kv-outer/merge.cu"
#include "chapters/04-tiled-kv-outer/plan.cu"
#include "chapters/04-tiled-kv-outer/tiled_kv_outer.cu"

static kv_plan small_plan(const attn_problem *p) {
    kv_plan plan = kv_plan_of(p, KV_OUTER);
    plan.dim = SMALL;
    plan.query_tiles = small_tiles(p->q_len);
    plan.key_tiles = plan.slice_tiles = small_tiles(p->kv_len);
    return plan;
}

static attn_status traced(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    const kv_plan plan = small_plan(p);
    trace_begin(p, TILE_LN_2, emu_bytes_so_far);
    const attn_status status =
        launch<SMALL>(p, t, &plan, (float *)t->o, t->lse, (float *)buffer[0], (float *)buffer[1]);
    small_trace_end();
    return status;
}

static int buffers(const attn_problem *p, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]) {
    const attn_buffer m = {"m", 4 * attn_rows(p), 0};
    if (pass != ATTN_FORWARD) return 0;
    need[0] = need[1] = m;
    need[1].name = "l";
    return 2;
}

// As the chapter's rows.cu has it: Q and O with each tile of keys, O, m and l between two of them.
static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    const uint64_t tiles = small_tiles(p->kv_len), between = tiles - 1;
    const uint64_t q = 4 * attn_q_elements(p), rows = 4 * attn_rows(p);
    if (pass != ATTN_FORWARD) return;
    attn_traffic_add(traffic, "q", tiles * q, 0);
    attn_traffic_add(traffic, "k", 4 * attn_kv_elements(p), 0);
    attn_traffic_add(traffic, "v", 4 * attn_kv_elements(p), 0);
    attn_traffic_add(traffic, "m", between * rows, between * rows);
    attn_traffic_add(traffic, "l", between * rows, between * rows);
    attn_traffic_add(traffic, "o", between * q, tiles * q);
    attn_traffic_add(traffic, "lse", 0, rows);
}

static const attn_stage stages[] = {
    {"kv-outer", "KV outer, Q inner; between two tiles of keys O is in memory, divided by l", 0, 0,
     NULL, small_supports, buffers, traced, NULL, bytes, NULL, NULL, NULL},
};

ATTN_MODULE(4, "KV outer, Q inner", "make trace3   (the same steps in the other order)",
            gpu_device(), stages)
