// places.cuh -- where the rows of a head lie in device memory.
//
// Strides: row i of head h of batch b begins at b * batch + h * head + i * row. A kernel needs no more than
// the first row's address and the distance to the next, its pitch; columns lie side by side.
//
// Variable lengths: the rows of all sequences lie one after the other, without padding, and two short
// tables say where each begins. A sequence takes the place of a batch's member: blocks are given out as if
// all were as long as the longest, and those that find nothing return.
#ifndef PLACES_CUH
#define PLACES_CUH

#include "chapters/06-masks/variants.cuh"

// One member of the batch, or one sequence.
typedef struct variant_place {
    attn_band band;        // its lengths, and which keys a query sees
    int shift;             // the key position that query 0 stands at
    int q_first, kv_first; // its first rows
    int64_t batch;         // all sequences lie in the one member of the batch
} variant_place;

// Every thread of the block must call this: with variable lengths four of them read where the sequence
// begins and ends, and all get it.
__device__ __forceinline__ variant_place variant_place_of(const variant_shape &shape,
                                                          unsigned member) {
    variant_place place = {{0, 0, 0, 0}, 0, 0, 0, member};
    int q_len = shape.q_len, kv_len = shape.kv_len;
    if (shape.q_cumulative) {
        GPU_SHARED(int, bounds, [4]);
        if (threadIdx.x < 4) {
            const int32_t *table = threadIdx.x < 2 ? shape.q_cumulative : shape.kv_cumulative;
            bounds[threadIdx.x] = hbm_load(&table[member + threadIdx.x % 2]);
        }
        __syncthreads(); // the bounds are there
        place.q_first = bounds[0], place.kv_first = bounds[2], place.batch = 0;
        q_len = bounds[1] - bounds[0], kv_len = bounds[3] - bounds[2];
    }
    place.band = attn_band_of_lengths(shape.rule, q_len, kv_len);
    place.shift = attn_band_shift(shape.rule, q_len, kv_len);
    return place;
}

// Where the place's first row of a head lies in q and dq, or o and dO; in k and dk, or v and dv; in lse.
__device__ __forceinline__ size_t variant_q_at(attn_stride stride, const variant_place &place,
                                               unsigned head) {
    return (size_t)(place.batch * stride.batch + head * stride.head + place.q_first * stride.row);
}
__device__ __forceinline__ size_t variant_kv_at(attn_stride stride, const variant_place &place,
                                                unsigned kv_head) {
    return (size_t)(place.batch * stride.batch + kv_head * stride.head +
                    place.kv_first * stride.row);
}
__device__ __forceinline__ size_t variant_row_at(const variant_shape &shape,
                                                 const variant_place &place, unsigned head) {
    return (size_t)(place.batch * shape.heads + head) * shape.q_len + place.q_first;
}

#endif
