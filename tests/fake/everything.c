// everything.c -- a chapter for tests of what the program does with features: it does all, as cpu/plain.c.
// It claims to skip all pairs that do not see each other.
#include "cpu/plain.h"

static void bytes(const attn_problem *problem, attn_pass pass, attn_traffic *traffic) {
    const attn_tensor_bytes all = attn_compulsory_bytes(problem, pass);
    attn_traffic_add(traffic, "q", all.read, all.written);
}

static const attn_stage stages[] = {{
    .name = "everything",
    .idea = "every feature, one loop for one formula",
    .features = 2 * ATTN_LAST_FEATURE - 1,
    .forward = attn_plain_forward,
    .backward = attn_plain_backward,
    .bytes = bytes,
    .flops = attn_useful_flops,
}};

ATTN_MODULE(10, "A chapter that does all", "make test", attn_host_device(), stages)
