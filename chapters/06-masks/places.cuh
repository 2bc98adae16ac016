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
    attn_band band;    // its lengths, and which keys a query sees
    int shift;         // the key position that query 0 stands at
    int q_first;       // its first row in q, o and lse
    size_t k_at, v_at; // where its first row lies in k and dk, in v and dv, for one key head
    unsigned member;   // of the batch, or which sequence
    int64_t batch;     // all sequences lie in the one member of the batch
} variant_place;

// The block's place, in shared memory: it is asked for now and then, and registers are short. Every thread of
// the block must call this.
__device__ __forceinline__ const variant_place &
variant_place_of(const variant_shape &shape, unsigned member, unsigned kv_head) {
    GPU_SHARED(variant_place, place, [1]);
    __syncthreads(); // nobody reads the place before any more
    if (threadIdx.x == 0) {
        int q_len = shape.q_len, kv_len = shape.kv_len;
        place->member = member, place->batch = member;
        place->q_first = 0;
        int kv_first = 0;
        if (shape.q_cumulative) {
            place->batch = 0;
            place->q_first = hbm_load(&shape.q_cumulative[member]);
            kv_first = hbm_load(&shape.kv_cumulative[member]);
            q_len = hbm_load(&shape.q_cumulative[member + 1]) - place->q_first;
            kv_len = hbm_load(&shape.kv_cumulative[member + 1]) - kv_first;
        }
        place->band = attn_band_of_lengths(shape.rule, q_len, kv_len);
        place->shift = attn_band_shift(shape.rule, q_len, kv_len);
        const attn_stride k = shape.stride.k, v = shape.stride.v;
        place->k_at = place->batch * k.batch + kv_head * k.head + kv_first * k.row;
        place->v_at = place->batch * v.batch + kv_head * v.head + kv_first * v.row;
    }
    __syncthreads(); // it is there
    return place[0];
}

// Where the place's first row of a query head lies in q and dq, or in o and dO; and in lse.
__device__ __forceinline__ size_t variant_q_at(attn_stride stride, const variant_place &place,
                                               unsigned head) {
    return (size_t)(place.batch * stride.batch + head * stride.head + place.q_first * stride.row);
}
__device__ __forceinline__ size_t variant_row_at(const variant_shape &shape,
                                                 const variant_place &place, unsigned head) {
    return (size_t)(place.batch * shape.heads + head) * shape.q_len + place.q_first;
}

#endif
