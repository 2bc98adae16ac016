// rows.cu -- what make trace6 traces: masked's forward kernel, compiled with its hooks and in tiles of 8 x 8,
// a thread each.
#include "chapters/03-tiled-q-outer/trace/small.cuh"

#include "chapters/06-masks/masked_forward.cu"

static attn_status forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    (void)buffer;
    const uint64_t tiles = small_tiles(p->q_len);
    const masked_shape shape = masked_shape_of(p, 1, tiles, false);
    trace_begin(p, TILE_LN_2, emu_bytes_so_far);
    const attn_status status =
        GPU_LAUNCH((masked_forward<SMALL>), (unsigned)tiles, 1, chunk_shared_bytes<SMALL>(),
                   (const float *)t->q, (const float *)t->k, (const float *)t->v, (float *)t->o,
                   t->lse, shape);
    small_trace_end();
    return status;
}

// As the chapter's rows.cu has it: only tiles whose queries see a key read them, and no other keys.
static void bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    const attn_band band = attn_band_of(p);
    const uint64_t row = 4 * (uint64_t)p->head_dim;
    if (pass != ATTN_FORWARD) return;
    for (int first = 0; first < band.q_len; first += SMALL) {
        const int end = first + SMALL < band.q_len ? first + SMALL : band.q_len;
        const band_range keys = band_keys(band, first, end);
        if (keys.begin >= keys.end) continue;
        attn_traffic_add(traffic, "q", row * (uint64_t)(end - first), 0);
        attn_traffic_add(traffic, "k", row * (uint64_t)(keys.end - keys.begin), 0);
        attn_traffic_add(traffic, "v", row * (uint64_t)(keys.end - keys.begin), 0);
    }
    attn_traffic_add(traffic, "o", 0, 4 * attn_q_elements(p));
    attn_traffic_add(traffic, "lse", 0, 4 * attn_rows(p));
}

static const attn_stage stages[] = {
    {"masked", "Q outer; tiles that no query sees are not visited, those on an edge are masked",
     ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW, 0, NULL, small_supports, NULL, forward, NULL, bytes, NULL,
     NULL, NULL},
};

ATTN_MODULE(6, "Masks", "make trace6 QLEN=12 KVLEN=4   (the first queries see no key)",
            gpu_device(), stages)
