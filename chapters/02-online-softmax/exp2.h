// exp2.h -- 2^x for a vector of x <= 0, in a dozen instructions.
//
// Promises, for every float x <= 0: within 2.4 ulp of 2^x; exactly 1 at 0; exactly 0 below -126, where
// floats thin out into denormals (so also at -infinity); NaN for NaN, whatever bits the NaN has.
#ifndef ATTN_EXP2_H
#define ATTN_EXP2_H

#include "cpu/vector.h"

VECTOR_INLINE vfloat vector_exp2(vfloat x) {
    // x = n + f, n the nearest integer. Floats from 2^23 to 2^24 are the integers there, so adding
    // 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the sum; the further 127,
    // the bias of a float's exponent, makes those bits n + 127, what the exponent field holds.
    const float to_integer = 12582912.0f + 127.0f;
    vfloat sum = x + to_integer;
    vfloat f = x - (sum - to_integer);

    // 2^f on [-1/2, 1/2]: the polynomial of degree 5 with constant term 1 and the least largest
    // relative error (Remez' algorithm), 9.2e-8; its coefficients are near ln(2)^k / k!.
    vfloat p = f * 1.3264727e-3f + 9.6715126e-3f;
    p = p * f + 5.5507337e-2f;
    p = p * f + 2.4022242e-1f;
    p = p * f + 6.9314698e-1f;
    p = p * f + 1.0f;

    // 2^n, by shifting n + 127 into place. Multiplied, not added to the exponent of p as integers:
    // added to the bits of a NaN, it could make a number of it.
    vfloat power = (vfloat)((vuint)sum << 23);
    // Below -126 those bits mean nothing. x < -126 is false for NaN, which therefore stays.
    return (vfloat)((vint)(p * power) & ~(x < -126.0f));
}

#endif
