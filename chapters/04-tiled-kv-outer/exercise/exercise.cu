// Exercise 4: the merge of slices.
//
// The keys were cut into SLICES slices, and each slice has been attended to by itself. It left, for each row,
//
//   o_part   O_s = sum_j e^(s_j - L_s) v_j       over its own keys: divided, its weights sum to 1
//   lse_part L_s = log sum_j e^s_j               natural logarithm
//
// Make of them O and L of all keys. What is the weight of a slice, if slices are to the merge what keys are to
// the softmax? L_s may be 100 or -100, where e^L_s is more than an fp32 number holds. A slice without keys has
// L_s = -infinity and O_s = 0; the first slices may be such, and with kv_len = 0 all are: then O = 0.
//
// Device bytes: read 4 * SLICES * rows * (d + 1), written 4 * rows * (d + 1).
#include "chapters/04-tiled-kv-outer/exercise/exercise.cuh"

enum { THREADS = 64 };

// A block a row; its threads have columns threadIdx.x, threadIdx.x + THREADS ...
__global__ void merge(const float *o_part, const float *lse_part, float *o, float *lse, size_t rows,
                      int d) {
    GPU_SHARED(float, lse_of, [SLICES]);
    const size_t row = blockIdx.x;
    if (threadIdx.x < SLICES) lse_of[threadIdx.x] = hbm_load(&lse_part[threadIdx.x * rows + row]);
    __syncthreads(); // all threads see L_s of all slices

    // Yours (1): what all columns need: the weight of each slice, before it is divided, and the weights' sum.
    float weight[SLICES], l = 0;
    //<answer>
    float m = -INFINITY;
    for (int s = 0; s < SLICES; s++) m = fmaxf(m, lse_of[s]);
    const float shift = m == -INFINITY ? 0 : m; // (-inf) - (-inf) is NaN
    for (int s = 0; s < SLICES; s++) {
        weight[s] = expf(lse_of[s] - shift);
        l += weight[s];
    }
    //<stub> for (int s = 0; s < SLICES; s++) weight[s] = 0;
    //</answer>

    for (int c = threadIdx.x; c < d; c += THREADS) {
        float sum = 0;
        for (int s = 0; s < SLICES; s++) {
            const float part = hbm_load(&o_part[(s * rows + row) * d + c]);
            // Yours (2).
            //<answer>
            sum += weight[s] * part;
            //<stub> sum += weight[s] + 0 * part;
            //</answer>
        }
        // Yours (3).
        //<answer>
        const float value = l == 0 ? 0 : sum / l; // NaN stays NaN
        //<stub> const float value = sum;
        //</answer>
        hbm_store(&o[row * d + c], value);
    }
    // Yours (4): L of all keys.
    //<answer>
    const float all = m + logf(l);
    //<stub> const float all = l;
    //</answer>
    if (threadIdx.x == 0) hbm_store(&lse[row], all);
}

attn_status exercise_merge(const float *o_part, const float *lse_part, float *o, float *lse,
                           size_t rows, int d) {
    return GPU_LAUNCH(merge, rows, THREADS, 0, o_part, lse_part, o, lse, rows, d);
}
