// tanh.h -- tanh(x) for a vector, for scores that are capped (score_steps.h).
//
// Promises, for every float x: within 2.4 ulp of tanh(x); never beyond 1 or -1; NaN for NaN.
#ifndef ATTN_TANH_H
#define ATTN_TANH_H

#include "chapters/02-online-softmax/exp2.h"

VECTOR_INLINE vfloat vector_tanh(vfloat x) {
    const vfloat size = vector_abs(x);
    const vuint sign = (vuint)x & 0x80000000u;

    // (1 - e^(-2|x|)) / (1 + e^(-2|x|)): good where e^(-2|x|) is well below 1.
    const vfloat e = vector_exp2(size * (-2 * 1.44269504f));
    const vfloat far = (vfloat)((vuint)((1.0f - e) / (1.0f + e)) | sign);

    // Near 0 that difference would have lost its digits: x + x^3 p(x^2), of the form that tanh's series
    // has, with the least largest relative error for |x| < 0.55 (Remez' algorithm), 3.7e-8.
    const vfloat square = x * x;
    vfloat p = square * 1.6437588e-2f - 5.2671816e-2f;
    p = p * square + 1.3320725e-1f;
    p = p * square - 3.3332947e-1f;
    const vfloat near = x + x * square * p;

    return vector_select(size < 0.55f, near, far); // NaN is far
}

#endif
