// memory.c -- see memory.h.
#include "cpu/memory.h"

#include <stdio.h>
#include <string.h>

// ---- the tensors -----------------------------------------------------------------------------------------
int attn_run_has_tensor(const attn_problem *problem, attn_run_tensor tensor, int backward) {
    switch (tensor) {
    case ATTN_TENSOR_BIAS:
        return problem->bias_heads != 0;
    case ATTN_TENSOR_MASK:
        return problem->mask_heads != 0;
    case ATTN_TENSOR_Q_CUMULATIVE:
    case ATTN_TENSOR_KV_CUMULATIVE:
        return problem->sequences != 0;
    case ATTN_TENSOR_DBIAS:
        return backward && problem->bias_gradient;
    default:
        return backward || tensor < ATTN_TENSOR_D_O;
    }
}

size_t attn_run_tensor_bytes(const attn_problem *problem, attn_run_tensor tensor) {
    const attn_layout layout = attn_layout_of(problem);
    switch (tensor) {
    case ATTN_TENSOR_Q:
    case ATTN_TENSOR_DQ:
        return sizeof(float) * attn_q_extent(problem, layout.q);
    case ATTN_TENSOR_K:
    case ATTN_TENSOR_DK:
        return sizeof(float) * attn_kv_extent(problem, layout.k);
    case ATTN_TENSOR_V:
    case ATTN_TENSOR_DV:
        return sizeof(float) * attn_kv_extent(problem, layout.v);
    case ATTN_TENSOR_O:
    case ATTN_TENSOR_D_O:
        return sizeof(float) * attn_q_extent(problem, layout.o);
    case ATTN_TENSOR_LSE:
        return sizeof(float) * attn_rows(problem);
    case ATTN_TENSOR_BIAS:
    case ATTN_TENSOR_DBIAS:
        return sizeof(float) * attn_bias_elements(problem);
    case ATTN_TENSOR_MASK:
        return attn_mask_elements(problem);
    case ATTN_TENSOR_Q_CUMULATIVE:
    case ATTN_TENSOR_KV_CUMULATIVE:
        return sizeof(int32_t) * (size_t)(problem->sequences + 1);
    }
    return 0;
}

// ---- the buffers, and all together -----------------------------------------------------------------------
static int buffers_of(const attn_stage *stage, const attn_problem *problem, attn_pass pass,
                      attn_buffer need[ATTN_MAX_BUFFERS]) {
    return stage->buffers ? stage->buffers(problem, pass, need) : 0;
}

uint64_t attn_extra_bytes(const attn_stage *stage, const attn_problem *problem, attn_pass pass,
                          uint64_t *kept) {
    attn_buffer need[ATTN_MAX_BUFFERS];
    const int count = buffers_of(stage, problem, pass, need);
    uint64_t total = 0;
    if (kept) *kept = 0;
    for (int i = 0; i < count; i++) {
        if (need[i].bytes > UINT64_MAX - total) return UINT64_MAX;
        total += need[i].bytes;
        if (kept && need[i].kept) *kept += need[i].bytes;
    }
    return total;
}

static void add_name(char *names, size_t size, const char *name) {
    const size_t used = names ? strlen(names) : 0;
    if (names) snprintf(names + used, size - used, "%s%s", used ? ", " : "", name);
}

uint64_t attn_kept_bytes(const attn_stage *stage, const attn_problem *problem, char *names,
                         size_t size) {
    attn_buffer need[ATTN_MAX_BUFFERS];
    const int count = buffers_of(stage, problem, ATTN_FORWARD, need);
    uint64_t kept = 0;
    attn_extra_bytes(stage, problem, ATTN_FORWARD, &kept);
    if (names) names[0] = 0;
    for (int i = 0; i < count; i++)
        if (need[i].kept) add_name(names, size, need[i].name);
    if (!stage->backward) return kept;
    const attn_traffic backward = attn_model_bytes(stage, problem, ATTN_BACKWARD);
    if (attn_traffic_of(&backward, "lse").read > 0) {
        kept += 4 * attn_rows(problem);
        add_name(names, size, "lse");
    }
    return kept;
}

attn_memory attn_run_memory(const attn_stage *stage, const attn_problem *problem, int backward) {
    attn_memory memory = {0, 0};
    for (int i = 0; i < ATTN_RUN_TENSORS; i++)
        if (attn_run_has_tensor(problem, (attn_run_tensor)i, backward))
            memory.tensors += (double)attn_run_tensor_bytes(problem, (attn_run_tensor)i);
    for (int pass = 0; pass <= (backward ? ATTN_BACKWARD : ATTN_FORWARD); pass++)
        memory.buffers += (double)attn_extra_bytes(stage, problem, (attn_pass)pass, NULL);
    return memory;
}

int attn_tensor_copies(const attn_device *device) {
    return strcmp(device->kind, "gpu") == 0 || strcmp(device->kind, "count") == 0 ? 1 : 2;
}

attn_status attn_run_fits(const attn_loaded_stage *row, const attn_problem *problem, int backward) {
    const attn_device *device = row->module->device;
    const attn_memory need = attn_run_memory(row->stage, problem, backward);
    const double tensors = attn_tensor_copies(device) * need.tensors;
    const uint64_t free_bytes = device->free_bytes();
    if (free_bytes == 0 || tensors + need.buffers <= (double)free_bytes) return attn_ok();
    char all_tensors[32], besides[32], available[32];
    attn_bytes_text(tensors, all_tensors, sizeof all_tensors);
    attn_bytes_text(need.buffers, besides, sizeof besides);
    attn_bytes_text((double)free_bytes, available, sizeof available);
    return attn_error(ATTN_NO_MEMORY,
                      "%s needs %s for the tensors and %s besides, but %s are free; %s",
                      row->stage->name, all_tensors, besides, available,
                      row->stage->too_large ? row->stage->too_large
                                            : "try fewer queries, keys, heads or a smaller batch");
}

int64_t attn_longest_that_fits(const attn_stage *stage, const attn_problem *problem, int backward,
                               double bytes, int copies) {
    int64_t fits = 0, beyond = (int64_t)ATTN_LONGEST + 1;
    attn_problem between = *problem;
    memset(&between.q_stride, 0, sizeof between.q_stride); // strides are of one length
    memset(&between.k_stride, 0, sizeof between.k_stride);
    memset(&between.v_stride, 0, sizeof between.v_stride);
    memset(&between.o_stride, 0, sizeof between.o_stride);
    while (beyond - fits > 1 && problem->sequences == 0) {
        between.q_len = between.kv_len = fits + (beyond - fits) / 2;
        int fit = attn_problem_check(&between).code == ATTN_OK;
        if (fit) {
            const attn_memory need = attn_run_memory(stage, &between, backward);
            fit = copies * need.tensors + need.buffers <= bytes;
        }
        if (fit)
            fits = between.q_len;
        else
            beyond = between.q_len;
    }
    return fits;
}
