// plan.cu -- how chapter 5 cuts a backward pass into tiles: the largest that this GPU has the memory for.
#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"
#include "chapters/05-backward/backward.cuh"

static uint64_t tiles_of(uint64_t length, int tile) {
    return (length + (uint64_t)tile - 1) / (uint64_t)tile;
}

template <class shape> static backward_plan tiles_plan(int large) {
    const backward_plan plan = {
        shape::D, shape::BR, shape::BC, large, sizeof(float) * shape::FLOATS, 0, 0, 0, 0};
    return plan;
}

static backward_plan plan_with(int64_t d, int large) {
    const backward_plan size = {d <= 64 ? 64 : d <= 128 ? 128 : 256, 0, 0, large, 0, 0, 0, 0, 0};
    return BACKWARD_CALL(&size, tiles_plan, large);
}

backward_plan backward_plan_of(const attn_problem *p) {
    backward_plan plan = plan_with(p->head_dim, 1);
    if (plan.shared_bytes > gpu_shared_bytes()) plan = plan_with(p->head_dim, 0);
    plan.heads = (uint64_t)(p->batch * p->kv_heads);
    plan.rows = (uint64_t)(p->heads / p->kv_heads * p->q_len);
    plan.query_tiles = tiles_of(plan.rows, plan.br);
    plan.key_tiles = tiles_of((uint64_t)p->kv_len, plan.bc);
    return plan;
}

backward_sizes backward_sizes_of(const attn_problem *p, const backward_plan *plan,
                                 const attn_tensors *t) {
    const bool vectors = tile_vectors(p->head_dim, t->q, t->k, t->v, t->d_o) &&
                         tile_vectors(p->head_dim, t->dq, t->dk, t->dv, NULL);
    const backward_sizes sizes = {(int)plan->rows, (int)p->kv_len, (int)p->head_dim, p->scale,
                                  vectors};
    return sizes;
}

attn_status backward_supports(const attn_problem *p) {
    ATTN_TRY(q_outer_fits(p, "the forward pass", q_outer_query_tiles(p)));
    ATTN_TRY(q_outer_shared_fits(p, "the forward pass", q_outer_shared_bytes(p, ATTN_FORWARD)));
    const backward_plan plan = backward_plan_of(p);
    const uint64_t blocks =
        plan.heads * (plan.key_tiles > plan.query_tiles ? plan.key_tiles : plan.query_tiles);
    ATTN_TRY(q_outer_shared_fits(p, "the backward pass", plan.shared_bytes));
    const uint64_t most_rows = INT32_MAX - 256;
    if (plan.rows > most_rows)
        return attn_error(
            ATTN_UNSUPPORTED,
            "%llu rows of Q read each head of K; the backward pass counts at most %llu",
            (unsigned long long)plan.rows, (unsigned long long)most_rows);
    if (blocks > INT32_MAX || attn_rows(p) / 8 >= INT32_MAX)
        return attn_error(ATTN_UNSUPPORTED,
                          "the backward pass would have %llu blocks, and a grid has at most %d",
                          (unsigned long long)blocks, INT32_MAX);
    return attn_ok();
}
