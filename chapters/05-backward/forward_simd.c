// forward_simd.c -- the forward pass of the stage recompute-simd: chapter 2's form (c), as it stands
// there.
#include "chapters/02-online-softmax/online_simd.c"
