// variants_model.cu -- what `variants` can do, and the closed forms of what it moves and computes: masked's,
// added up over the sequences, and what each step reads besides.
#include "chapters/06-masks/places.cuh"
#include "chapters/06-masks/visited.cuh"
#include "cpu/mask.h"

static attn_status stride_fits(const char *tensor, attn_stride stride) {
    const int64_t most = 1 << 25; // 32 rows ahead is still an int
    if (stride.row > most)
        return attn_error(ATTN_UNSUPPORTED,
                          "variants: rows of %s lie %lld elements apart, and it steps at most %lld",
                          tensor, (long long)stride.row, (long long)most);
    return attn_ok();
}

static attn_status blocks_fit(uint64_t heads, uint64_t tiles) {
    if (tiles > 0 && heads > INT32_MAX / tiles)
        return attn_error(
            ATTN_UNSUPPORTED,
            "variants: %llu tiles for each of %llu heads of all members or sequences, "
            "and a grid has at most %d blocks; the longest sequence decides",
            (unsigned long long)tiles, (unsigned long long)heads, INT32_MAX);
    return attn_ok();
}

attn_status variants_supports(const attn_problem *p) {
    ATTN_TRY(backward_supports(p));
    const backward_plan plan = backward_plan_of(p);
    const attn_layout layout = attn_layout_of(p);
    const uint64_t members = (uint64_t)(p->sequences != 0 ? p->sequences : p->batch);
    ATTN_TRY(
        q_outer_shared_fits(p, "the backward pass", plan.shared_bytes + sizeof(variant_place)));
    ATTN_TRY(stride_fits("q", layout.q));
    ATTN_TRY(stride_fits("k", layout.k));
    ATTN_TRY(stride_fits("v", layout.v));
    ATTN_TRY(stride_fits("o", layout.o));
    ATTN_TRY(blocks_fit(members * (uint64_t)p->heads, variant_query_tiles(p, q_outer_br(p))));
    ATTN_TRY(blocks_fit(members * (uint64_t)p->kv_heads, variant_key_tiles(p, plan.bc)));
    if (plan.dim > 128 && !plan.large)
        return attn_error(
            ATTN_UNSUPPORTED,
            "variants: above head_dim 128 its backward pass is compiled only for GPUs "
            "that give a block %zu bytes of shared memory (naive does any)",
            sizeof(float) * backward_256_large::FLOATS + sizeof(variant_place));
    if (p->softcap != 0 && p->softcap < 1e-37f)
        return attn_error(ATTN_UNSUPPORTED,
                          "variants: softcap is %g; below 1e-37 its inverse is no number",
                          (double)p->softcap);
    if (p->softcap > 2e38f)
        return attn_error(ATTN_UNSUPPORTED,
                          "variants: softcap is %g; above 2e38 a score times log2(e) is no number",
                          (double)p->softcap);
    const backward_plan bias = bias_gradient_plan(p);
    return p->bias_gradient
               ? blocks_fit((uint64_t)(p->bias_batch * p->bias_heads),
                            variant_query_tiles(p, bias.br) * variant_key_tiles(p, bias.bc))
               : attn_ok();
}

static visited of_all_sequences(const attn_problem *p, attn_pass pass) {
    visited sum = {0, 0, 0};
    for (int64_t s = 0; s < (p->sequences != 0 ? p->sequences : 1); s++) {
        const attn_problem alone = attn_problem_of_sequence(p, s);
        const visited v = visited_of(&alone, pass);
        sum.owned += v.owned, sum.passed += v.passed, sum.pairs += v.pairs;
    }
    return sum;
}

// P is computed twice in the backward pass.
static bool twice(const attn_problem *p) {
    return p->dropout != 0 || p->softcap != 0;
}

// What the steps read of the pairs that see each other by the band, `times` times; and where each block's
// sequence begins and ends.
static void add_steps(const attn_problem *p, uint64_t bias_times, uint64_t mask_times,
                      uint64_t blocks, attn_traffic *traffic) {
    const uint64_t pairs = (uint64_t)(p->batch * p->heads) * attn_visible_pairs(p);
    if (p->bias_heads != 0) attn_traffic_add(traffic, "bias", 4 * bias_times * pairs, 0);
    if (p->mask_heads != 0) attn_traffic_add(traffic, "mask", mask_times * pairs, 0);
    if (p->sequences == 0) return;
    attn_traffic_add(traffic, "q_cumulative", 8 * blocks, 0);
    attn_traffic_add(traffic, "kv_cumulative", 8 * blocks, 0);
}

// The tiles of a bias that some query of the tile sees a key of: rows and keys that they have, and pairs.
typedef struct bias_tiles {
    uint64_t queries, keys, pairs;
} bias_tiles;

static bias_tiles bias_tiles_of(const attn_problem *p) {
    const backward_plan plan = bias_gradient_plan(p);
    const attn_band band = attn_band_of(p);
    bias_tiles sum = {0, 0, 0};
    for (int query = 0; query < band.q_len; query += plan.br) {
        const int end = band.q_len - query < plan.br ? band.q_len : query + plan.br;
        const band_range range = band_keys(band, query, end);
        for (int key = 0; key < band.kv_len; key += plan.bc) {
            if (range.begin >= key + plan.bc || range.end <= key) continue;
            const int keys = band.kv_len - key < plan.bc ? band.kv_len - key : plan.bc;
            sum.queries += (uint64_t)(end - query), sum.keys += (uint64_t)keys;
            sum.pairs += (uint64_t)(end - query) * (uint64_t)keys;
        }
    }
    return sum;
}

static void forward_bytes(const attn_problem *p, attn_traffic *traffic) {
    const uint64_t heads = (uint64_t)(p->batch * p->heads);
    const uint64_t row = 4 * (uint64_t)p->head_dim; // bytes of a row
    const uint64_t blocks =
        (uint64_t)(p->sequences * p->heads) * variant_query_tiles(p, q_outer_br(p));
    const visited v = of_all_sequences(p, ATTN_FORWARD);
    attn_traffic_add(traffic, "q", heads * v.owned * row, 0);
    attn_traffic_add(traffic, "k", heads * v.passed * row, 0);
    attn_traffic_add(traffic, "v", heads * v.passed * row, 0);
    attn_traffic_add(traffic, "o", 0, 4 * attn_q_elements(p));
    attn_traffic_add(traffic, "lse", 0, 4 * attn_rows(p));
    add_steps(p, 1, 1, blocks, traffic);
}

static void backward_bytes(const attn_problem *p, attn_traffic *traffic) {
    const uint64_t heads = (uint64_t)(p->batch * p->heads);
    const uint64_t kv_heads = (uint64_t)(p->batch * p->kv_heads);
    const uint64_t row = 4 * (uint64_t)p->head_dim;
    const uint64_t q = 4 * attn_q_elements(p), kv = 4 * attn_kv_elements(p);
    const uint64_t blocks =
        (uint64_t)(p->sequences * p->kv_heads) * variant_key_tiles(p, backward_plan_of(p).bc);
    const visited v = of_all_sequences(p, ATTN_BACKWARD);
    attn_traffic_add(traffic, "o", q, 0); // D
    attn_traffic_add(traffic, "do", q + heads * v.passed * row, 0);
    attn_traffic_add(traffic, "d", heads * v.passed * 4, 4 * attn_rows(p));
    attn_traffic_add(traffic, "dq", heads * v.passed * row,
                     q + heads * v.passed * row); // and zeros
    attn_traffic_add(traffic, "k", kv_heads * v.owned * row, 0);
    attn_traffic_add(traffic, "v", kv_heads * v.owned * row, 0);
    attn_traffic_add(traffic, "q", heads * v.passed * row, 0);
    attn_traffic_add(traffic, "lse", heads * v.passed * 4, 0);
    attn_traffic_add(traffic, "dk", 0, kv);
    attn_traffic_add(traffic, "dv", 0, kv);
    add_steps(p, twice(p) ? 2 : 1, 1, blocks, traffic);
    if (!p->bias_gradient) return;
    const bias_tiles tiles = bias_tiles_of(p);
    attn_traffic_add(traffic, "q", heads * tiles.queries * row, 0);
    attn_traffic_add(traffic, "do", heads * tiles.queries * row, 0);
    attn_traffic_add(traffic, "k", heads * tiles.keys * row, 0);
    attn_traffic_add(traffic, "v", heads * tiles.keys * row, 0);
    attn_traffic_add(traffic, "lse", heads * tiles.queries * 4, 0);
    attn_traffic_add(traffic, "d", heads * tiles.queries * 4, 0);
    attn_traffic_add(traffic, "dbias", 0, 4 * attn_bias_elements(p));
    add_steps(p, 1, 1, 0, traffic);
}

void variants_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (!has_variants(p))
        masked_bytes(p, pass, traffic);
    else if (pass == ATTN_FORWARD)
        forward_bytes(p, traffic);
    else
        backward_bytes(p, traffic);
}

double variants_flops(const attn_problem *p, attn_pass pass) {
    if (!has_variants(p)) return masked_flops(p, pass);
    const double a_product = 2.0 * (double)p->head_dim * (double)(p->batch * p->heads);
    const double pairs = (double)of_all_sequences(p, pass).pairs;
    if (pass == ATTN_FORWARD) return 2 * a_product * pairs;
    const double of_bias = p->bias_gradient ? 2 * (double)bias_tiles_of(p).pairs : 0;
    return a_product * ((twice(p) ? 6 : 5) * pairs + of_bias);
}
