// vector.h -- SIMD by the vector extensions of gcc and clang: one code for every instruction set.
//
// A vfloat is as many floats as the compiler's target has in one register. Arithmetic and
// comparisons are the plain operators, lane by lane; a comparison gives a vint whose lanes are all
// ones where it holds and all zeros where it does not. What the operators cannot say stands below.
// Nothing here may be compiled with -ffast-math: NaN and infinity must keep their meaning.
#ifndef ATTN_VECTOR_H
#define ATTN_VECTOR_H

#include <stdint.h>
#include <string.h>

// VECTOR_REGISTERS: how many the target has, for those who size a register block.
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, VECTOR_REGISTERS = 32 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, VECTOR_REGISTERS = 16 };
#elif defined(__aarch64__)
enum { VECTOR_BYTES = 16, VECTOR_REGISTERS = 32 };
#else // SSE2 and NEON of 32 bits; elsewhere the compiler splits a vector into what there is
enum { VECTOR_BYTES = 16, VECTOR_REGISTERS = 16 };
#endif

enum { LANES = VECTOR_BYTES / 4 };

typedef float vfloat __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef int32_t vint __attribute__((vector_size(VECTOR_BYTES), may_alias));
// Unsigned, so that shifting a bit out at the top is defined.
typedef uint32_t vuint __attribute__((vector_size(VECTOR_BYTES), may_alias));

// These must be inlined: vectors as arguments have no common calling convention, and a register
// block only stays in registers within one function. The attribute does it at -O0 too.
#define VECTOR_INLINE static inline __attribute__((always_inline, unused))

// A function that holds a hot loop, kept apart from its caller: inlined there, the loop would compete
// for registers with all that lives around it, and lose.
#define VECTOR_NOINLINE static __attribute__((noinline))

// A loop over a register block, unrolled so that each of its elements can become a register.
#if defined(__clang__)
#define VECTOR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VECTOR_UNROLL _Pragma("GCC unroll 32")
#endif

// An empty assembly statement that claims to change x: x then has to be in a register, here and
// until it is next used. Without it gcc forgets that a value was loaded, and loads it again for each
// of its uses. Give it a variable, not an element of an array, which gcc would put into memory.
#if defined(__AVX512F__)
#define VECTOR_PIN(x) __asm__("" : "+v"(x)) // any of the 32 registers
#elif defined(__SSE2__)
#define VECTOR_PIN(x) __asm__("" : "+x"(x)) // any of the 16
#elif defined(__aarch64__)
#define VECTOR_PIN(x) __asm__("" : "+w"(x))
#else
#define VECTOR_PIN(x) ((void)0)
#endif

// x in every lane. Of a scalar and a vector the operators make a vector; x - 0 is x for every x (as
// 0 + x is not: it turns -0 into +0), so that compilers leave only the broadcast.
VECTOR_INLINE vfloat vector_of(float x) {
    return x - (vfloat){0};
}

// Without an alignment, unlike *(vfloat *)p. As fast where p happens to be aligned.
VECTOR_INLINE vfloat vector_load(const float *p) {
    vfloat x;
    memcpy(&x, p, sizeof x);
    return x;
}
VECTOR_INLINE void vector_store(float *p, vfloat x) {
    memcpy(p, &x, sizeof x);
}

// Lane by lane: where ? a : b, by bits, so that what is not chosen leaves no trace, NaN or not.
VECTOR_INLINE vfloat vector_select(vint where, vfloat a, vfloat b) {
    return (vfloat)(((vint)a & where) | ((vint)b & ~where));
}

// The larger of a and b; b where either is NaN.
VECTOR_INLINE vfloat vector_max(vfloat a, vfloat b) {
    return vector_select(a > b, a, b);
}

VECTOR_INLINE vfloat vector_abs(vfloat x) {
    return (vfloat)((vuint)x & 0x7fffffffu);
}

VECTOR_INLINE vfloat vector_to_float(vint x) {
    return __builtin_convertvector(x, vfloat);
}

// 0, 1, 2, ...
VECTOR_INLINE vint vector_iota(void) {
    vint x = {0};
    for (int lane = 1; lane < LANES; lane++) x[lane] = lane;
    return x;
}

#endif
