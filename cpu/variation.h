// variation.h -- how much the same computation differs from run to run, bit by bit.
//
// Sums whose order is not fixed, as those of atomic additions, round differently in every run. Each run
// is compared with the first one; besides that one, a byte an element is kept, whatever the number of
// runs.
#ifndef ATTN_VARIATION_H
#define ATTN_VARIATION_H

#include "cpu/status.h"

#include <stddef.h>
#include <stdint.h>

// Of one tensor. A distance counts the fp32 numbers between two: 1 is a unit in the last place. It has k
// bits when it is at least 2^(k-1): it changes about the last k bits of a number.
typedef struct attn_variation {
    int runs; // the first included; 0: not compared
    uint64_t elements;
    uint64_t differing; // elements that differed from the first run's in any run
    uint64_t most;      // the largest distance from the first run
    int half_bits;      // the largest distance of half of the differing elements has no more bits
    double apart;       // the largest |difference| from the first run; NaN and infinity left out
    double largest;     // the largest |element| of the first run, to see that beside
} attn_variation;

// The tensor as the runs come in.
typedef struct attn_variation_watch {
    int runs;
    size_t elements;
    uint32_t *first;     // the first run's bits
    unsigned char *bits; // by element: of its largest distance so far
    uint64_t most;
    double apart;
} attn_variation_watch;

// Begins with a watch of zeros. ATTN_NO_MEMORY, on the first run alone.
attn_status attn_variation_add(attn_variation_watch *watch, const float *values, size_t elements);
attn_variation attn_variation_of(const attn_variation_watch *watch);
void attn_variation_free(attn_variation_watch *watch);

int attn_distance_bits(uint64_t distance); // 0 of 0, 1 of 1, 2 of 2 and 3, 3 of 4 to 7

#endif
