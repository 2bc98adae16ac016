// row_sums.cu -- D = rowsum(dO o O), one number a query row (FlashAttention-2, Algorithm 2, line 4).
//
//   dP_ij = dO_i . V_j, and the softmax's gradient wants sum_j P_ij dP_ij = dO_i . sum_j P_ij V_j = dO_i . O_i
//
// So a sum over N keys, which naive takes of stored P and dP, is one over d columns of what is there anyway.
//
// Grid: a warp a row. Device bytes: read 4 * 2 * rows * d, written 4 * rows.
#include "chapters/05-backward/backward.cuh"

enum { WARPS = 8 };

// o, d_o [rows][d]; row_sum [rows]
__global__ void row_sums(const float *o, const float *d_o, float *row_sum, size_t rows, int d) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return; // the whole warp
    float sum = 0;
    for (int c = lane; c < d; c += 32)
        sum = fmaf(hbm_load(&o[row * d + c]), hbm_load(&d_o[row * d + c]), sum);
    for (int w = 16; w > 0; w /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, w);
    if (lane == 0) hbm_store(&row_sum[row], sum);
}

attn_status backward_row_sums(const float *o, const float *d_o, float *row_sum, size_t rows,
                              int d) {
    if (rows == 0) return attn_ok();
    return GPU_LAUNCH(row_sums, (unsigned)((rows + WARPS - 1) / WARPS), 32 * WARPS, 0, o, d_o,
                      row_sum, rows, d);
}
