// stage.c -- see stage.h: byte counts by tensor, and what a stage supports.
#include "cpu/stage.h"
#include "cpu/mask.h"

#include <stdio.h>
#include <string.h>

static attn_tensor_bytes *row_of(attn_traffic *traffic, const char *name) {
    for (int i = 0; i < traffic->count; i++)
        if (strcmp(traffic->tensor[i].name, name) == 0) return &traffic->tensor[i];
    if (traffic->count == ATTN_MAX_TENSORS) return &traffic->tensor[ATTN_MAX_TENSORS - 1];
    attn_tensor_bytes *row = &traffic->tensor[traffic->count++];
    memset(row, 0, sizeof *row);
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

void attn_traffic_add(attn_traffic *traffic, const char *name, uint64_t read, uint64_t written) {
    attn_tensor_bytes *row = row_of(traffic, name);
    row->read += read, row->written += written;
}

attn_tensor_bytes attn_traffic_total(const attn_traffic *traffic) {
    attn_tensor_bytes total = {"total", 0, 0};
    for (int i = 0; i < traffic->count; i++) {
        total.read += traffic->tensor[i].read;
        total.written += traffic->tensor[i].written;
    }
    return total;
}

attn_tensor_bytes attn_traffic_of(const attn_traffic *traffic, const char *name) {
    attn_tensor_bytes none = {"", 0, 0};
    for (int i = 0; i < traffic->count; i++)
        if (strcmp(traffic->tensor[i].name, name) == 0) return traffic->tensor[i];
    return none;
}

attn_tensor_bytes attn_compulsory_bytes(const attn_problem *problem, attn_pass pass) {
    const uint64_t q = 4 * attn_q_elements(problem), kv = 4 * attn_kv_elements(problem);
    const uint64_t bias = 4 * attn_bias_elements(problem), mask = attn_mask_elements(problem);
    attn_tensor_bytes all = {"compulsory", q + 2 * kv, q + 4 * attn_rows(problem)};
    if (pass == ATTN_BACKWARD) all.read = 2 * q + 2 * kv, all.written = q + 2 * kv; // with dO
    if (pass == ATTN_BACKWARD && problem->bias_gradient) all.written += bias;
    all.read += bias + mask;
    return all;
}

double attn_useful_flops(const attn_problem *problem, attn_pass pass) {
    const double pairs =
        (double)(problem->batch * problem->heads) * (double)attn_visible_pairs(problem);
    return (pass == ATTN_FORWARD ? 4 : 10) * (double)problem->head_dim * pairs;
}

attn_traffic attn_model_bytes(const attn_stage *stage, const attn_problem *problem,
                              attn_pass pass) {
    attn_traffic model;
    memset(&model, 0, sizeof model);
    stage->bytes(problem, pass, &model);
    return model;
}

void attn_bytes_text(double bytes, char *text, size_t size) {
    static const char *const units[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
    int unit = 0;
    bytes /= 1e3;
    while (bytes >= 1e3 && unit < 5) bytes /= 1e3, unit++;
    snprintf(text, size, "%.3g %s", bytes, units[unit]);
}

static int covers(const attn_traffic *a, const attn_traffic *b) {
    for (int i = 0; i < a->count; i++) {
        attn_tensor_bytes other = attn_traffic_of(b, a->tensor[i].name);
        if (other.read != a->tensor[i].read || other.written != a->tensor[i].written) return 0;
    }
    return 1;
}

int attn_traffic_equal(const attn_traffic *a, const attn_traffic *b) {
    return covers(a, b) && covers(b, a); // a tensor that one of them lacks counts as zero bytes
}

attn_status attn_stage_supports(const attn_stage *stage, const attn_problem *problem,
                                attn_pass pass) {
    ATTN_TRY(attn_problem_check(problem));
    if (pass == ATTN_BACKWARD && !stage->backward)
        return attn_error(ATTN_UNSUPPORTED, "%s has no backward pass", stage->name);
    unsigned missing = attn_problem_features(problem) & ~stage->features;
    if (pass == ATTN_FORWARD) missing &= ~(unsigned)ATTN_HAS_BIAS_GRADIENT;
    if (missing == ATTN_HAS_TILE_SIZES && stage->tiles)
        return attn_error(ATTN_UNSUPPORTED, "%s has fixed tiles: %s", stage->name, stage->tiles);
    if (missing) {
        unsigned lowest = missing & (~missing + 1);
        return attn_error(ATTN_UNSUPPORTED, "%s does not do %s", stage->name,
                          attn_feature_name(lowest));
    }
    return stage->supports ? stage->supports(problem) : attn_ok();
}
