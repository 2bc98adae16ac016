// slices.h -- exercise 4's slices of the keys: how many, and which keys each has.
#ifndef EXERCISE4_SLICES_H
#define EXERCISE4_SLICES_H

enum { EXERCISE4_SLICES = 4, EXERCISE4_SLICE_MULTIPLE = 16 };

// Slices are cut from the last key backwards, so where keys are few the first slices have none: slice s has
// the keys from first_of_slice(s) to first_of_slice(s + 1).
#define EXERCISE4_SLICE_KEYS(kv_len)                                \
    (((kv_len) + EXERCISE4_SLICES * EXERCISE4_SLICE_MULTIPLE - 1) / \
     (EXERCISE4_SLICES * EXERCISE4_SLICE_MULTIPLE) * EXERCISE4_SLICE_MULTIPLE)
#define EXERCISE4_FIRST_OF_SLICE(s, kv_len)                                   \
    ((kv_len) - (EXERCISE4_SLICES - (s)) * EXERCISE4_SLICE_KEYS(kv_len) > 0   \
         ? (kv_len) - (EXERCISE4_SLICES - (s)) * EXERCISE4_SLICE_KEYS(kv_len) \
         : 0)

#endif
