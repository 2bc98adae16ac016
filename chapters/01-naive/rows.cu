// rows.cu -- chapter 1's row of the stage table on the GPU and the emulator, and its closed forms.
#include "chapters/01-naive/naive.cuh"
#include "chapters/01-naive/title.h"

static int naive_gpu_buffers(const attn_problem *problem, attn_pass pass,
                             attn_buffer need[ATTN_MAX_BUFFERS]) {
    const uint64_t scores = attn_score_elements(problem);
    const uint64_t bytes = scores > UINT64_MAX / 4 ? UINT64_MAX : 4 * scores;
    const attn_buffer forward[2] = {{"s", bytes, 0}, {"p", bytes, 1}};
    const attn_buffer backward[2] = {{"dp", bytes, 0}, {"ds", bytes, 0}};
    for (int i = 0; i < 2; i++) need[i] = pass == ATTN_FORWARD ? forward[i] : backward[i];
    return 2;
}

// A grid has at most 2^31 - 1 blocks; softmax_rows has one for each row, the products have one for each tile.
static attn_status naive_gpu_supports(const attn_problem *problem) {
    const double heads = (double)problem->batch * (double)problem->heads;
    const double q_tiles = heads * (double)naive_tiles(problem->q_len);
    const double k_tiles = (double)naive_tiles(problem->kv_len);
    const double columns = (double)naive_column_tiles(problem);
    const double blocks = fmax(fmax((double)attn_rows(problem), q_tiles * k_tiles),
                               fmax(q_tiles, heads * k_tiles) * columns);
    if (blocks <= INT32_MAX) return attn_ok();
    return attn_error(
        ATTN_UNSUPPORTED,
        "naive: it would need %.4g blocks, and a grid has at most %d: fewer heads or queries",
        blocks, INT32_MAX);
}

// naive.cu and naive_backward.cu have the formulas; here they stand by kernel.
void naive_gpu_bytes(const attn_problem *problem, attn_pass pass, attn_traffic *traffic) {
    const uint64_t heads = (uint64_t)(problem->batch * problem->heads);
    const uint64_t d = (uint64_t)problem->head_dim;
    const uint64_t q_len = (uint64_t)problem->q_len, kv_len = (uint64_t)problem->kv_len;
    const uint64_t query_tiles = naive_tiles(problem->q_len),
                   key_tiles = naive_tiles(problem->kv_len);
    const uint64_t scores = 4 * attn_score_elements(problem), columns = naive_column_tiles(problem);
    const uint64_t q = 4 * attn_q_elements(problem), kv = 4 * attn_kv_elements(problem);
    const uint64_t queries_per_key_tile = 4 * heads * q_len * d * key_tiles;   // Q, or dO
    const uint64_t keys_per_query_tile = 4 * heads * kv_len * d * query_tiles; // K, or V
    if (pass == ATTN_FORWARD) {
        attn_traffic_add(traffic, "q", queries_per_key_tile, 0); // score_product
        attn_traffic_add(traffic, "k", keys_per_query_tile, 0);
        attn_traffic_add(traffic, "s", 0, scores);
        attn_traffic_add(traffic, "s", 3 * scores, 0); // softmax_rows
        attn_traffic_add(traffic, "p", 0, scores);
        attn_traffic_add(traffic, "lse", 0, 4 * attn_rows(problem));
        attn_traffic_add(traffic, "p", columns * scores, 0); // weighted_rows
        attn_traffic_add(traffic, "v", keys_per_query_tile, 0);
        attn_traffic_add(traffic, "o", 0, q);
    } else {
        attn_traffic_add(traffic, "p", columns * scores, 0); // dV
        attn_traffic_add(traffic, "do", queries_per_key_tile, 0);
        attn_traffic_add(traffic, "dv", 0, kv);
        attn_traffic_add(traffic, "do", queries_per_key_tile, 0); // dP
        attn_traffic_add(traffic, "v", keys_per_query_tile, 0);
        attn_traffic_add(traffic, "dp", 0, scores);
        attn_traffic_add(traffic, "p", 2 * scores, 0); // dS
        attn_traffic_add(traffic, "dp", 2 * scores, 0);
        attn_traffic_add(traffic, "ds", 0, scores);
        attn_traffic_add(traffic, "ds", columns * scores, 0); // dQ
        attn_traffic_add(traffic, "k", keys_per_query_tile, 0);
        attn_traffic_add(traffic, "dq", 0, q);
        attn_traffic_add(traffic, "ds", columns * scores, 0); // dK
        attn_traffic_add(traffic, "q", queries_per_key_tile, 0);
        attn_traffic_add(traffic, "dk", 0, kv);
    }
}

static double naive_gpu_flops(const attn_problem *problem, attn_pass pass) {
    const double products = pass == ATTN_FORWARD ? 2 : 4; // masked pairs are multiplied as well
    return products * 2 * (double)problem->head_dim * (double)attn_score_elements(problem);
}

static const attn_stage stages[] = {{
    "naive",
    "three kernels, S and P in device memory, tiles of 64x64",
    ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS,
    1, // the yardstick
    "64x64, as chapter 3's",
    naive_gpu_supports,
    naive_gpu_buffers,
    naive_gpu_forward,
    naive_gpu_backward,
    naive_gpu_bytes,
    naive_gpu_flops,
    CHAPTER_TOO_LARGE,
    NULL,
}};

ATTN_MODULE(1, CHAPTER_TITLE, CHAPTER_PREDICT, gpu_device(), stages)
