// variation.c -- see variation.h.
#include "cpu/variation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BITS = 32 };

// Numbers in their order, one apart: the bits of a float count up from 0, those of a negative one down.
static int64_t place(uint32_t bits) {
    return bits >> 31 ? -(int64_t)(bits & 0x7fffffffu) : (int64_t)bits;
}

// +0 and -0 have one place, and are told apart all the same.
static uint64_t distance(uint32_t a, uint32_t b) {
    const int64_t apart = place(a) - place(b);
    return a == b ? 0 : apart == 0 ? 1 : (uint64_t)(apart < 0 ? -apart : apart);
}

int attn_distance_bits(uint64_t distance) {
    int bits = 0;
    for (; distance; distance /= 2) bits++;
    return bits;
}

static double value_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double larger(double so_far, double x) {
    return isfinite(x) && fabs(x) > so_far ? fabs(x) : so_far;
}

attn_status attn_variation_add(attn_variation_watch *watch, const float *values, size_t elements) {
    if (watch->runs++ == 0) {
        watch->elements = elements;
        watch->first = malloc(sizeof(float) * elements + 1); // + 1: an empty tensor is not NULL
        watch->bits = calloc(elements + 1, 1);
        if (!watch->first || !watch->bits)
            return attn_error(ATTN_NO_MEMORY, "comparing runs takes %.1f MB more",
                              5e-6 * (double)elements);
        memcpy(watch->first, values, sizeof(float) * elements);
        return attn_ok();
    }
    for (size_t i = 0; i < watch->elements; i++) {
        uint32_t now;
        memcpy(&now, &values[i], sizeof now);
        if (now == watch->first[i]) continue;
        const uint64_t steps = distance(now, watch->first[i]);
        const int bits = attn_distance_bits(steps);
        if (steps > watch->most) watch->most = steps;
        watch->apart = larger(watch->apart, (double)values[i] - value_of(watch->first[i]));
        if (bits > watch->bits[i]) watch->bits[i] = (unsigned char)bits;
    }
    return attn_ok();
}

attn_variation attn_variation_of(const attn_variation_watch *watch) {
    attn_variation v = {watch->runs, watch->elements, 0, watch->most, 0, watch->apart, 0};
    uint64_t with_bits[MOST_BITS + 1] = {0}, so_far = 0;
    for (size_t i = 0; i < watch->elements; i++) {
        with_bits[watch->bits[i]]++;
        v.largest = larger(v.largest, value_of(watch->first[i]));
    }
    v.differing = watch->elements - with_bits[0];
    while (2 * so_far < v.differing) so_far += with_bits[++v.half_bits];
    return v;
}

void attn_variation_free(attn_variation_watch *watch) {
    free(watch->first);
    free(watch->bits);
    memset(watch, 0, sizeof *watch);
}
