// merge.cu -- makes one result of slices: O = sum over slices of e^(L_s - L) O_s, L = log of the sum of
// e^(L_s). Flash-Decoding's reduction.
//
// It is the online softmax once more, with slices for keys: L_s is the score of a slice and O_s its value.
// A slice in which a row has seen nothing has L_s = -infinity and O_s = 0: its weight is 0.
//
// Grid: ceil(rows / 8) blocks of 8 warps, a warp a row.
// Device bytes: read 4 * slices * rows * (d + 1), written 4 * rows * (d + 1).
#include "chapters/04-tiled-kv-outer/tiled_kv_outer.cuh"

enum { MERGE_WARPS = 8, COLUMNS = 256 / 32 }; // columns a lane, for the largest head dimension

// o_part [slices][rows][d], lse_part [slices][rows]; o [rows][d], lse [rows]; all -infinity: O = 0/0.
__global__ void merge(const float *o_part, const float *lse_part, float *o, float *lse, size_t rows,
                      int slices, int d) {
    const int lane = threadIdx.x % 32;
    const size_t row = (size_t)blockIdx.x * MERGE_WARPS + threadIdx.x / 32;
    if (row >= rows) return; // the whole warp leaves together

    float m = -INFINITY, l = 0, sum[COLUMNS] = {};
    for (int first = 0; first < slices; first += 32) { // a slice a lane
        const int slice = first + lane;
        const float score = slice < slices ? hbm_load(&lse_part[slice * rows + row]) : -INFINITY;
        float largest = fmaxf(m, score), weights;
        for (int w = 16; w > 0; w /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, w));
        // As long as no slice has seen anything, there is no maximum: (-inf) - (-inf) is NaN.
        const float shift = largest == -INFINITY ? 0 : largest;
        const float alpha = expf(m - shift), weight = expf(score - shift);
        weights = weight;
        for (int w = 16; w > 0; w /= 2) weights += __shfl_xor_sync(0xffffffffu, weights, w);
        m = largest;
        l = l * alpha + weights;
        for (int n = 0; n < COLUMNS; n++) sum[n] *= alpha;
        const int here = slices - first < 32 ? slices - first : 32;
#pragma unroll 4
        for (int s = 0; s < here; s++) {
            const float *from = o_part + ((size_t)(first + s) * rows + row) * d;
            const float factor = __shfl_sync(0xffffffffu, weight, s);
#pragma unroll
            for (int n = 0; n < COLUMNS; n++)
                if (lane + 32 * n < d) sum[n] += factor * hbm_load(&from[lane + 32 * n]);
        }
    }
#pragma unroll
    for (int n = 0; n < COLUMNS; n++)
        if (lane + 32 * n < d) hbm_store(&o[row * d + lane + 32 * n], sum[n] / l);
    if (lane == 0) hbm_store(&lse[row], m + logf(l));
}

attn_status kv_merge(const float *o_part, const float *lse_part, float *o, float *lse, size_t rows,
                     int slices, int d) {
    return GPU_LAUNCH(merge, (rows + MERGE_WARPS - 1) / MERGE_WARPS, 32 * MERGE_WARPS, 0, o_part,
                      lse_part, o, lse, rows, slices, d);
}
