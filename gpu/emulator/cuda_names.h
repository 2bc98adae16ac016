// cuda_names.h -- the parts of CUDA's language and headers that kernels here use, in plain C++.
#ifndef GPU_EMULATOR_CUDA_NAMES_H
#define GPU_EMULATOR_CUDA_NAMES_H

#include "gpu/emulator/interface.h"

#include <math.h>
#include <string.h>

#define __global__
#define __host__
#define __device__      __attribute__((unused))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// __shared__ stays undefined on purpose: write GPU_SHARED, so that the array has a name and a limit.

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return {x, y, z}; }
};

#define threadIdx (emu_here->thread)
#define blockIdx  (emu_here->block)
#define blockDim  (emu_here->block_dim)
#define gridDim   (emu_here->grid_dim)
#define warpSize  32

// ---- vector types, aligned as on the GPU: 16 bytes travel in one request ----
#define EMU_VECTORS(scalar, name)                                                  \
    struct __align__(2 * sizeof(scalar)) name##2 {                                 \
        scalar x, y;                                                               \
    };                                                                             \
    struct __align__(4 * sizeof(scalar)) name##4 {                                 \
        scalar x, y, z, w;                                                         \
    };                                                                             \
    static inline name##2 make_##name##2(scalar x, scalar y) {                     \
        return {x, y};                                                             \
    }                                                                              \
    static inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { \
        return {x, y, z, w};                                                       \
    }
EMU_VECTORS(float, float)
EMU_VECTORS(int, int)
EMU_VECTORS(unsigned, uint)
EMU_VECTORS(unsigned short, ushort)

// ---- arithmetic that math.h does not have under CUDA's names ----
// The fast variants (__expf ...) are less exact on the GPU; here they are the exact functions.
// (Macros, because glibc has its own use for some of these names.)
#define __expf(x)  expf(x)
#define __logf(x)  logf(x)
#define __log2f(x) log2f(x)
static inline float __fdividef(float x, float y) {
    return x / y;
}
static inline float rsqrtf(float x) {
    return 1 / sqrtf(x);
}
static inline float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}
static inline float __fmul_rn(float x, float y) {
    return x * y;
}
static inline float __fadd_rn(float x, float y) {
    return x + y;
}
static inline int __float_as_int(float x) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __int_as_float(int bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int min(int a, int b) {
    return b < a ? b : a;
}
static inline int max(int a, int b) {
    return a < b ? b : a;
}
static inline unsigned min(unsigned a, unsigned b) {
    return b < a ? b : a;
}
static inline unsigned max(unsigned a, unsigned b) {
    return a < b ? b : a;
}
static inline int64_t min(int64_t a, int64_t b) {
    return b < a ? b : a;
}
static inline int64_t max(int64_t a, int64_t b) {
    return a < b ? b : a;
}
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}
static inline void __threadfence(void) {}

#endif
