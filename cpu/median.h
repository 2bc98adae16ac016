// median.h -- the middle of a few measurements, which one slow round does not move.
#ifndef ATTN_MEDIAN_H
#define ATTN_MEDIAN_H

// The median of value[0..count-1], count >= 1; sorts them.
static inline __attribute__((unused)) double attn_median(double *value, int count) {
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && value[j - 1] > value[j]; j--) {
            const double larger = value[j - 1];
            value[j - 1] = value[j], value[j] = larger;
        }
    return count % 2 ? value[count / 2] : (value[count / 2 - 1] + value[count / 2]) / 2;
}

#endif
