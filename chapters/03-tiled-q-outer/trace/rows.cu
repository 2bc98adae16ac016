// rows.cu -- what make trace3 traces: the plain kernel, compiled with its hooks and one thread a block, which
// then has a whole tile of 8 queries and 8 keys, and 8 columns of O, more than d.
#include "chapters/03-tiled-q-outer/tiled_q_outer_plain.cu"
#include "chapters/03-tiled-q-outer/trace/small.cuh"

static attn_status forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    (void)buffer;
    const plain_shape shape = {(int)p->q_len, (int)p->kv_len, (int)p->head_dim, 1, SMALL, p->scale};
    const size_t floats = 3 * SMALL * (SMALL + 4) + SMALL * (SMALL + 4); // tiles of Q, K, V, and P
    trace_begin(p, 1, emu_bytes_so_far);
    const attn_status status =
        GPU_LAUNCH((q_outer_plain<SMALL, SMALL>), (unsigned)small_tiles(p->q_len), 1,
                   sizeof(float) * floats, (const float *)t->q, (const float *)t->k,
                   (const float *)t->v, (float *)t->o, t->lse, shape);
    small_trace_end();
    return status;
}

static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) q_outer_add_bytes(p, small_tiles(p->q_len), traffic);
}

static const attn_stage stages[] = {
    {"q-outer-plain", "Q outer, KV inner", 0, 0, NULL, small_supports, NULL, forward, NULL, bytes,
     NULL, NULL, NULL},
};

ATTN_MODULE(3, "Q outer, KV inner", "make trace4   (the same steps in the other order)",
            gpu_device(), stages)
