// variants_row_sums.cu -- D = rowsum(dO o O) for rows that lie anywhere, and zeros in the same rows of dQ.
//
// Chapter 5 clears dQ as one piece of memory. A view's rows may have a neighbour's between them, so here
// they are cleared one by one. With dropout D is still dO . O: the weights that are left out of O are
// left out of sum_j P_ij dP_ij as well.
//
// Grid: a warp a row. Block: 8 warps; no shared memory. Device bytes: read 4 * 2 * rows * d, written 4 * rows * (d + 1).
#include "chapters/06-masks/variants.cuh"

enum { WARPS = 8 };

// o, d_o, dq: strides in shape; row_sum [B][H][q_len]
__global__ void variants_row_sums_kernel(const float *o, const float *d_o, float *dq,
                                         float *row_sum, size_t rows, variant_shape shape) {
    const size_t row = (size_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return; // the whole warp
    const int64_t i = row % shape.q_len, head = row / shape.q_len % shape.heads;
    const int64_t batch = row / shape.q_len / shape.heads;
    const attn_stride by_o = shape.stride.o, by_q = shape.stride.q;
    const size_t o_at = batch * by_o.batch + head * by_o.head + i * by_o.row;
    const size_t q_at = batch * by_q.batch + head * by_q.head + i * by_q.row;
    float sum = 0;
    for (int c = lane; c < shape.d; c += 32) {
        sum = fmaf(hbm_load(&o[o_at + c]), hbm_load(&d_o[o_at + c]), sum);
        hbm_store(&dq[q_at + c], 0.0f);
    }
    for (int w = 16; w > 0; w /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, w);
    if (lane == 0) hbm_store(&row_sum[row], sum);
}

attn_status variants_row_sums(const attn_problem *p, const attn_tensors *t, float *row_sum) {
    const size_t rows = attn_rows(p);
    if (rows == 0) return attn_ok();
    return GPU_LAUNCH(variants_row_sums_kernel, (unsigned)((rows + WARPS - 1) / WARPS), 32 * WARPS,
                      0, (const float *)t->o, (const float *)t->d_o, (float *)t->dq, row_sum, rows,
                      variant_shape_of(p, t, 1, 1));
}
