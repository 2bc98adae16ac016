// variants_shape.cu -- a problem as variants' kernels get it.
#include "chapters/06-masks/variants.cuh"

static int64_t members_of(const attn_problem *p) {
    return p->sequences != 0 ? p->sequences : p->batch;
}

static uint64_t most_tiles(const attn_problem *p, int tile, bool keys) {
    int64_t longest = 0;
    for (int64_t s = 0; s < (p->sequences != 0 ? p->sequences : 1); s++) {
        const attn_sequence rows = attn_sequence_of(p, s);
        const int64_t length = keys ? rows.kv_len : rows.q_len;
        if (length > longest) longest = length;
    }
    return (uint64_t)((longest + tile - 1) / tile);
}
uint64_t variant_query_tiles(const attn_problem *p, int br) {
    return most_tiles(p, br, false);
}
uint64_t variant_key_tiles(const attn_problem *p, int bc) {
    return most_tiles(p, bc, true);
}

static bool fours(attn_stride stride) { // every row begins at a multiple of 4 elements
    return (stride.batch | stride.head | stride.row) % 4 == 0;
}

static variant_pairs pairs_stride(const attn_problem *p, int64_t batch, int64_t heads) {
    const int64_t matrix = p->q_len * p->kv_len; // one for all: every head's is the first
    const variant_pairs stride = {batch == 1 ? 0 : heads * matrix, heads == 1 ? 0 : matrix};
    return stride;
}

variant_shape variant_shape_of(const attn_problem *p, const attn_tensors *t, unsigned heads,
                               uint64_t tiles) {
    variant_shape shape;
    shape.q_len = (int)p->q_len, shape.kv_len = (int)p->kv_len, shape.d = (int)p->head_dim;
    shape.heads = (int)p->heads, shape.group = (int)(p->heads / p->kv_heads);
    shape.members = (unsigned)members_of(p);
    shape.heads_in_all = shape.members * heads;
    shape.tiles = (unsigned)tiles;
    shape.together = masked_heads_together(shape.heads_in_all, tiles);
    shape.q_cumulative = p->sequences != 0 ? t->q_cumulative : NULL;
    shape.kv_cumulative = p->sequences != 0 ? t->kv_cumulative : NULL;
    shape.stride = attn_layout_of(p);
    shape.rule = attn_band_rule_of(p);
    shape.banded = masked_has_mask(p);
    const attn_layout l = shape.stride;
    shape.vectors = tile_vectors(p->head_dim, t->q, t->k, t->v, t->o) &&
                    tile_vectors(p->head_dim, t->dq, t->dk, t->dv, t->d_o) && fours(l.q) &&
                    fours(l.k) && fours(l.v) && fours(l.o);

    shape.scale = p->scale, shape.softcap = p->softcap;
    shape.alibi = p->alibi != 0, shape.drops = p->dropout != 0;
    shape.bias = p->bias_heads != 0 ? t->bias : NULL;
    shape.mask = p->mask_heads != 0 ? t->mask : NULL;
    shape.bias_stride = pairs_stride(p, p->bias_batch, p->bias_heads);
    shape.mask_stride = pairs_stride(p, p->mask_batch, p->mask_heads);
    shape.drop = attn_dropout_of(p);
    return shape;
}
