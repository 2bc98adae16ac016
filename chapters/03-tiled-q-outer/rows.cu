// rows.cu -- chapter 3's rows of the stage table, and their closed forms.
#include "chapters/03-tiled-q-outer/tiled_q_outer.cuh"
#include "chapters/03-tiled-q-outer/title.h"

#define PLAIN_TILES "BR and BC each 16, 32, 64 or 128, as shared memory allows"

// The most that any GPU this course knows gives a block (H100, H200: 227 KB).
enum { MOST_SHARED_BYTES = 227 * 1024 };

static int is_compiled(int64_t tile) {
    return tile == 0 || tile == 16 || tile == 32 || tile == 64 || tile == 128;
}

static uint64_t q_outer_plain_query_tiles(const attn_problem *p) {
    const uint64_t br = q_outer_plain_tile(p, p->br);
    return ((uint64_t)p->q_len + br - 1) / br;
}

static attn_status q_outer_plain_supports(const attn_problem *p) {
    ATTN_TRY(q_outer_fits(p, "q-outer-plain", q_outer_plain_query_tiles(p)));
    if (!is_compiled(p->br) || !is_compiled(p->bc))
        return attn_error(ATTN_UNSUPPORTED, "q-outer-plain: tiles of %lld x %lld; there are %s",
                          (long long)p->br, (long long)p->bc, PLAIN_TILES);
    const uint64_t needs = q_outer_plain_shared_bytes(p);
    if (needs > MOST_SHARED_BYTES)
        return attn_error(
            ATTN_UNSUPPORTED,
            "q-outer-plain: tiles of %d x %d at head_dim %lld need %llu bytes of shared "
            "memory, and no GPU gives a block more than %d; there are %s",
            q_outer_plain_tile(p, p->br), q_outer_plain_tile(p, p->bc), (long long)p->head_dim,
            (unsigned long long)needs, MOST_SHARED_BYTES, PLAIN_TILES);
    const uint64_t gives = gpu_shared_bytes(); // 0: a CUDA module without a GPU
    if (gives > 0 && needs > gives)
        return attn_error(
            ATTN_UNSUPPORTED,
            "q-outer-plain: tiles of %d x %d at head_dim %lld need %llu bytes of shared memory, "
            "and this GPU gives a block %llu; take a smaller BR or BC (make tiles shows them)",
            q_outer_plain_tile(p, p->br), q_outer_plain_tile(p, p->bc), (long long)p->head_dim,
            (unsigned long long)needs, (unsigned long long)gives);
    return attn_ok();
}

static void q_outer_plain_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    if (pass == ATTN_FORWARD) q_outer_add_bytes(p, q_outer_plain_query_tiles(p), traffic);
}

// Both products, 2d FLOPs a pair each. What idle rows and columns of a tile multiply is not counted.
static double q_outer_flops(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? 4 * (double)p->head_dim * (double)attn_score_elements(p) : 0;
}

static uint64_t plain_shared_bytes(const attn_problem *p, attn_pass pass) {
    (void)pass;
    return q_outer_plain_shared_bytes(p);
}

static const attn_stage stages[] = {
    {
        "q-outer-plain",
        "Q outer, KV inner; a kernel of a page, 4 rows a thread",
        ATTN_HAS_GROUPED_HEADS | ATTN_HAS_TILE_SIZES,
        0,
        PLAIN_TILES,
        q_outer_plain_supports,
        NULL, // no buffers: S and P stay on the chip
        q_outer_plain_forward,
        NULL, // chapter 5
        q_outer_plain_bytes,
        q_outer_flops,
        NULL,
        plain_shared_bytes,
    },
    {
        "q-outer",
        "the same loops; 8x8 register tiles, copies under way while it multiplies",
        ATTN_HAS_GROUPED_HEADS,
        0,
        "8192/D x D, D = 32, 64, 128 or 256, the next that d fits in",
        q_outer_supports,
        NULL,
        q_outer_forward,
        NULL,
        q_outer_bytes,
        q_outer_flops,
        NULL,
        q_outer_shared_bytes,
    },
};

ATTN_MODULE(3, CHAPTER_TITLE, CHAPTER_PREDICT, gpu_device(), stages)
