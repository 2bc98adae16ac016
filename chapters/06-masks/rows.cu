// rows.cu -- chapter 6's row of the stage table on the GPU and the emulator, and its closed forms.
#include "chapters/06-masks/masked.cuh"
#include "chapters/06-masks/title.h"
#include "chapters/06-masks/places.cuh"
#include "chapters/06-masks/visited.cuh"

static int masked_buffers(const attn_problem *p, attn_pass pass,
                          attn_buffer need[ATTN_MAX_BUFFERS]) {
    const attn_buffer d = {"d", 4 * attn_rows(p), 0};
    if (pass == ATTN_FORWARD) return 0;
    need[0] = d;
    return 1;
}

attn_status masked_backward_pass(const attn_problem *p, const attn_tensors *t,
                                 void *const *buffer) {
    float *d = (float *)buffer[0];
    ATTN_TRY(backward_row_sums((const float *)t->o, (const float *)t->d_o, d, attn_rows(p),
                               (int)p->head_dim));
    ATTN_TRY(
        gpu_memset(t->dq, 0, 4 * attn_q_elements(p))); // what is added to; rows that see nothing
    return masked_backward_kv(p, t, d);
}

void masked_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    const uint64_t heads = (uint64_t)(p->batch * p->heads);
    const uint64_t kv_heads = (uint64_t)(p->batch * p->kv_heads);
    const uint64_t row = 4 * (uint64_t)p->head_dim; // bytes of a row
    const uint64_t q = 4 * attn_q_elements(p), kv = 4 * attn_kv_elements(p);
    const uint64_t rows = 4 * attn_rows(p);
    const visited v = visited_of(p, pass);
    if (pass == ATTN_FORWARD && !masked_has_mask(p)) {
        q_outer_bytes(p, pass, traffic);
        return;
    }
    if (pass == ATTN_FORWARD) {
        attn_traffic_add(traffic, "q", heads * v.owned * row, 0);
        attn_traffic_add(traffic, "k", heads * v.passed * row, 0);
        attn_traffic_add(traffic, "v", heads * v.passed * row, 0);
        attn_traffic_add(traffic, "o", 0, q);
        attn_traffic_add(traffic, "lse", 0, rows);
        return;
    }
    attn_traffic_add(traffic, "o", q, 0); // D
    attn_traffic_add(traffic, "do", q, 0);
    attn_traffic_add(traffic, "d", 0, rows);
    attn_traffic_add(traffic, "dq", 0, q); // zeros
    attn_traffic_add(traffic, "k", kv_heads * v.owned * row, 0);
    attn_traffic_add(traffic, "v", kv_heads * v.owned * row, 0);
    attn_traffic_add(traffic, "q", heads * v.passed * row, 0);
    attn_traffic_add(traffic, "do", heads * v.passed * row, 0);
    attn_traffic_add(traffic, "lse", heads * v.passed * 4, 0);
    attn_traffic_add(traffic, "d", heads * v.passed * 4, 0);
    attn_traffic_add(traffic, "dq", heads * v.passed * row, heads * v.passed * row);
    attn_traffic_add(traffic, "dk", 0, kv);
    attn_traffic_add(traffic, "dv", 0, kv);
}

// 2d FLOPs a pair of a visited tile and a product, whether the pair is masked or not.
double masked_flops(const attn_problem *p, attn_pass pass) {
    const int products = pass == ATTN_FORWARD ? 2 : 5;
    return products * 2.0 * (double)p->head_dim * (double)(p->batch * p->heads) *
           (double)visited_of(p, pass).pairs;
}

static uint64_t shared_bytes(const attn_problem *p, attn_pass pass) {
    return pass == ATTN_FORWARD ? q_outer_shared_bytes(p, pass) : backward_plan_of(p).shared_bytes;
}

static uint64_t variants_shared_bytes(const attn_problem *p, attn_pass pass) {
    return shared_bytes(p, pass) + sizeof(variant_place);
}

static const attn_stage stages[] = {
    {
        "masked",
        "chapters 3 and 5, of the tiles only those that the mask leaves; dQ by atomic additions",
        ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS,
        0,
        "as chapter 3's and 5's",
        backward_supports,
        masked_buffers,
        masked_forward_pass,
        masked_backward_pass,
        masked_bytes,
        masked_flops,
        NULL,
        shared_bytes,
    },
    {
        "variants",
        "the same for rows anywhere, with softcap, bias, ALiBi, masks of bytes and dropout",
        ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS | ATTN_HAS_STRIDES |
            ATTN_HAS_VARIABLE_LENGTHS | ATTN_HAS_DROPOUT | ATTN_HAS_SOFTCAP | ATTN_HAS_ALIBI |
            ATTN_HAS_BIAS | ATTN_HAS_BIAS_GRADIENT | ATTN_HAS_MASK,
        0,
        "as chapter 3's and 5's",
        variants_supports,
        masked_buffers,
        variants_forward,
        variants_backward,
        variants_bytes,
        variants_flops,
        NULL,
        variants_shared_bytes,
    },
};

ATTN_MODULE(6, CHAPTER_TITLE, CHAPTER_PREDICT, gpu_device(), stages)
