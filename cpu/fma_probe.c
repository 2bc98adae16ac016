// fma_probe.c -- see fma_probe.h.
#include "cpu/fma_probe.h"
#include "cpu/vector.h"

#include <time.h>

// Enough sums that none waits for itself: machines start up to 4 multiply-adds a cycle and take 4
// cycles for each. They, x and y must all stay in registers.
enum { SUMS = VECTOR_REGISTERS == 32 ? 24 : 12 };

static void multiply_add(long rounds) {
    // sum = sum * x + y tends to 1, far from infinity and from denormals, which may be slower.
    vfloat x = vector_of(0.999f), y = vector_of(0.001f), sum[SUMS];
    VECTOR_PIN(x); // x and y are no longer constants to the compiler
    VECTOR_PIN(y);
    VECTOR_UNROLL
    for (int i = 0; i < SUMS; i++) sum[i] = y;
    for (long n = 0; n < rounds; n++) {
        VECTOR_UNROLL
        for (int i = 0; i < SUMS; i++) {
            vfloat next = sum[i] * x + y;
            VECTOR_PIN(next); // all sums are the same: it must not find that out
            sum[i] = next;
        }
    }
    // The sums are worth nothing, but what is never used is never computed: claim to use them.
    vfloat total = sum[0];
    for (int i = 1; i < SUMS; i++) total += sum[i];
    float used = total[0];
    __asm__ volatile("" : : "m"(used));
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double attn_fma_probe(int threads) {
#ifndef _OPENMP
    threads = 1;
#endif
    // Twice as many rounds each time until it takes long enough: the clock is then exact, and starting
    // the threads costs nothing in comparison.
    for (long rounds = 1L << 16;; rounds *= 2) {
        double start = seconds();
#pragma omp parallel num_threads(threads)
        multiply_add(rounds);
        double taken = seconds() - start;
        if (taken >= 0.01) return 2e-9 * LANES * SUMS * (double)rounds * (double)threads / taken;
    }
}

int attn_probes_agree(double before, double after) {
    const double less = before < after ? before : after, more = before < after ? after : before;
    return less >= 0.8 * more;
}
