// register_block.h -- the one product that form (c) spends its time in, with queries in the lanes.
//
//   out[r][i] = out[r][i] * factor[i] + sum_k a(r, k) b[k][i]      r < rows, k < depth
//
// i runs over the BLOCK_QUERIES queries of a tile, which lie side by side in VECTORS registers; b
// and out are [.][BLOCK_QUERIES], and a(r, k) is a[r * a_row + k * a_k], one number for all queries,
// broadcast from memory. With this layout both products of attention are the same routine, no sum
// ever runs across lanes, and the softmax between them is lane by lane too:
//
//   S^T = K Q^T               a = K: a key a row,        depth = d
//   O^T = O^T alpha + V^T P^T a = V: a column a row,     depth = keys of the tile
#ifndef ATTN_REGISTER_BLOCK_H
#define ATTN_REGISTER_BLOCK_H

#include "cpu/vector.h"

#include <stddef.h>

// The block of out that stays in registers while k runs: VECTORS x BLOCK_ROWS sums. Each takes one
// multiply-add a step, which must wait some 4 cycles for the one before; so there have to be many,
// or the units idle. Nor would a block one vector wide do: a step loads VECTORS + BLOCK_ROWS operands
// for VECTORS * BLOCK_ROWS multiply-adds. And it all has to fit, with the step's vectors of b and
// a broadcast: 2 * 8 + 2 + 1 of 32 registers, or 3 * 4 + 3 + 1 of 16. (3 * 8 would fit into 32, too,
// but the wider a tile is, the more lanes idle where lengths end and causal masks cut across.)
enum { VECTORS = VECTOR_REGISTERS >= 32 ? 2 : 3, BLOCK_ROWS = VECTOR_REGISTERS >= 32 ? 8 : 4 };
enum { BLOCK_QUERIES = VECTORS * LANES };

// `count` rows of out, a constant at each call.
VECTOR_INLINE void register_block(const int count, size_t depth, const float *a, size_t a_row,
                                  size_t a_k, const float *b, const vfloat *factor, float *out) {
    vfloat sum[BLOCK_ROWS][VECTORS];
    VECTOR_UNROLL
    for (int r = 0; r < count; r++) {
        VECTOR_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            sum[r][v] = vector_of(0);
            if (factor) sum[r][v] = factor[v] * vector_load(out + r * BLOCK_QUERIES + v * LANES);
        }
    }
    for (size_t k = 0; k < depth; k++) {
        vfloat x[VECTORS];
        VECTOR_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            vfloat loaded = vector_load(b + v * LANES);
            VECTOR_PIN(loaded);
            x[v] = loaded;
        }
        VECTOR_UNROLL
        for (int r = 0; r < count; r++) {
            vfloat broadcast = vector_of(a[r * a_row]);
            VECTOR_UNROLL
            for (int v = 0; v < VECTORS; v++) sum[r][v] += broadcast * x[v];
        }
        a += a_k;
        b += BLOCK_QUERIES;
    }
    VECTOR_UNROLL
    for (int r = 0; r < count; r++) {
        VECTOR_UNROLL
        for (int v = 0; v < VECTORS; v++)
            vector_store(out + r * BLOCK_QUERIES + v * LANES, sum[r][v]);
    }
}

// All of out; factor NULL: out starts at 0. What is left after the full blocks goes row by row.
VECTOR_INLINE void product(size_t rows, size_t depth, const float *a, size_t a_row, size_t a_k,
                           const float *b, const vfloat *factor, float *out) {
    size_t r = 0;
    for (; r + BLOCK_ROWS <= rows; r += BLOCK_ROWS)
        register_block(BLOCK_ROWS, depth, a + r * a_row, a_row, a_k, b, factor,
                       out + r * BLOCK_QUERIES);
    for (; r < rows; r++)
        register_block(1, depth, a + r * a_row, a_row, a_k, b, factor, out + r * BLOCK_QUERIES);
}

#endif
