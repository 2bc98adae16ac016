// fma_probe.h -- how many fp32 operations a second this machine does, for fractions of it.
//
// A datasheet's peak is at a clock that a shared, hot or throttled machine does not have. This
// measures the rate now, so that a kernel timed just before or after can be held against it.
#ifndef ATTN_FMA_PROBE_H
#define ATTN_FMA_PROBE_H

#ifdef __cplusplus
extern "C" {
#endif

// GFLOP/s of independent multiply-adds (2 FLOPs a lane) on `threads` threads together, on the widest
// vectors of the compiler's target; without OpenMP, always on one. Takes some hundredths of a second.
double attn_fma_probe(int threads);

// Whether two probes, one before and one after something that was timed, are within 20 % of each other. If
// not, another program had a part of the machine, and no fraction of a peak means anything.
int attn_probes_agree(double before, double after);

#ifdef __cplusplus
}
#endif
#endif
