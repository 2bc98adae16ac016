// transpose.h -- rows to columns, four by four: how Q comes into the lanes, and O out of them.
//
// Element by element, the two together take several percent of form (c)'s time at N = 1024: they do
// no arithmetic, but need a load and a store for each number. Here one instruction moves four.
#ifndef ATTN_TRANSPOSE_H
#define ATTN_TRANSPOSE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Four floats, a vector on every target.
typedef float quad __attribute__((vector_size(16)));

// Four of the eight elements of a and b: 0 to 3 are those of a, 4 to 7 those of b.
#if defined(__clang__)
#define QUAD_OF(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define QUAD_OF(a, b, i, j, k, l) \
    __builtin_shuffle(a, b, (int32_t __attribute__((vector_size(16)))){i, j, k, l})
#endif

static inline void transpose_4x4(const float *from, size_t from_row, float *to, size_t to_row) {
    quad r[4];
    for (int i = 0; i < 4; i++) memcpy(&r[i], from + (size_t)i * from_row, sizeof r[i]);
    // Rows 0 and 1, and 2 and 3, are interleaved: a0 b0 a1 b1, a2 b2 a3 b3; then halves of those.
    const quad ab01 = QUAD_OF(r[0], r[1], 0, 4, 1, 5), ab23 = QUAD_OF(r[0], r[1], 2, 6, 3, 7);
    const quad cd01 = QUAD_OF(r[2], r[3], 0, 4, 1, 5), cd23 = QUAD_OF(r[2], r[3], 2, 6, 3, 7);
    r[0] = QUAD_OF(ab01, cd01, 0, 1, 4, 5), r[1] = QUAD_OF(ab01, cd01, 2, 3, 6, 7);
    r[2] = QUAD_OF(ab23, cd23, 0, 1, 4, 5), r[3] = QUAD_OF(ab23, cd23, 2, 3, 6, 7);
    for (int i = 0; i < 4; i++) memcpy(to + (size_t)i * to_row, &r[i], sizeof r[i]);
}

// to[j * to_row + i] = from[i * from_row + j]   for i < rows, j < columns
static inline void transpose(size_t rows, size_t columns, const float *from, size_t from_row,
                             float *to, size_t to_row) {
    const size_t quad_rows = rows / 4 * 4, quad_columns = columns / 4 * 4;
    for (size_t i = 0; i < quad_rows; i += 4)
        for (size_t j = 0; j < quad_columns; j += 4)
            transpose_4x4(from + i * from_row + j, from_row, to + j * to_row + i, to_row);
    for (size_t i = 0; i < rows; i++) // what the fours leave: the last columns, the last rows
        for (size_t j = i < quad_rows ? quad_columns : 0; j < columns; j++)
            to[j * to_row + i] = from[i * from_row + j];
}

#endif
