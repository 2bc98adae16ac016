// npy.h -- float32 arrays in NumPy's .npy files, the form in which all tensors come and go.
//
// Format: numpy.lib.format, NumPy's documentation. Reads versions 1, 2 and 3 of the header, little-
// and big-endian float32 in C order, up to four dimensions; everything else is refused with a
// sentence that says how to convert it. A header is never believed before it agrees with the file's
// size. Writes version 1.0, '<f4', C order.
#ifndef ATTN_NPY_H
#define ATTN_NPY_H

#include "cpu/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTN_NPY_MAX_DIMS = 4 };

typedef struct attn_array {
    int dims; // 0 (a single number) to 4
    int64_t shape[ATTN_NPY_MAX_DIMS];
    float *data; // malloc'ed, never NULL after a successful read; the product of shape elements
} attn_array;

// Reads the file into fresh memory, which attn_array_free gives back. On any error *array is empty.
// ATTN_IO: missing, a folder, unreadable. ATTN_BAD_INPUT: not such a file, or one cut short or too
// long. ATTN_NO_MEMORY.
attn_status attn_npy_read(const char *path, attn_array *array);
void attn_array_free(attn_array *array); // also fine on a zeroed or an already freed array

// "[1][8][65][64]"; for messages.
void attn_shape_text(int dims, const int64_t *shape, char *text, size_t size);

// One array to be written: `data` has the product of shape[0..dims-1] elements; it may be
// NULL when that is 0.
typedef struct attn_npy_output {
    const char *path;
    int dims;
    int64_t shape[ATTN_NPY_MAX_DIMS];
    const float *data;
} attn_npy_output;

// Writes all of the files or none: each goes to a temporary file beside its destination, and only
// once all of these are complete do they take their names (rename replaces a file that was there,
// in one step). ATTN_IO with the path and the system's reason when that fails; the temporary files
// are then gone and, unless a rename itself failed halfway through, the old files untouched.
attn_status attn_npy_write_all(const attn_npy_output *outputs, int count);
attn_status attn_npy_write(const char *path, int dims, const int64_t *shape, const float *data);

#ifdef __cplusplus
}
#endif
#endif
