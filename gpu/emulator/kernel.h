// kernel.h -- gpu.h for g++ and clang++: every mark in a kernel becomes a call into the emulator.
#ifndef GPU_EMULATOR_KERNEL_H
#define GPU_EMULATOR_KERNEL_H

#if !defined(__cplusplus)
#error "a .cu file is compiled as C++: g++ -x c++ -std=c++17"
#endif

#include "gpu/emulator/cuda_names.h"
#include "gpu/emulator/interface.h"

#define EMU_TEXT_OF(x) #x
#define EMU_TEXT(x)    EMU_TEXT_OF(x)
#define EMU_SITE       (__FILE__ ":" EMU_TEXT(__LINE__))

// Keeps a function's parameter out of template deduction: it converts to T as in a plain call.
template <class T> struct emu_plain { typedef T type; };

// ---- launch: a lambda carries the arguments, evaluated and converted once, as under <<<>>> ----
template <class Body> static void emu_thread_main(const void *body) {
    (*(const Body *)body)();
}
template <class... P>
static attn_status emu_launch_kernel(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                                     size_t dynamic_shared_bytes,
                                     typename emu_plain<P>::type... arguments) {
    auto body = [=] { kernel(arguments...); };
    return emu_launch(name, grid, block, dynamic_shared_bytes, emu_thread_main<decltype(body)>,
                      &body);
}
#define GPU_LAUNCH(kernel, grid, block, dynamic_shared_bytes, ...) \
    emu_launch_kernel(#kernel, (kernel), (grid), (block), (dynamic_shared_bytes), ##__VA_ARGS__)

// ---- device memory ----
template <class T> static inline T emu_load(const T *p, const char *site) {
    return *(const T *)emu_hbm(p, sizeof(T), EMU_READ, site);
}
template <class T>
static inline void emu_store(T *p, typename emu_plain<T>::type value, const char *site) {
    *(T *)emu_hbm(p, sizeof(T), EMU_WRITE, site) = value;
}
#define hbm_load(p)           emu_load((p), EMU_SITE)
#define hbm_store(p, v)       emu_store((p), (v), EMU_SITE)
#define hbm_atomic_add(p, v)  emu_atomic_add((p), (v), 1, EMU_SITE)
#define hbm_atomic_add4(p, v) emu_atomic_add4((p), (v), EMU_SITE)

// ---- shared memory: a reference to an array, so that sizeof and -fsanitize=bounds see its type ----
#define GPU_SHARED(type, name, dims)                                                               \
    typedef type name##_array dims;                                                                \
    static const emu_shared_array name##_declaration = {#name, sizeof(name##_array), 0, EMU_SITE}; \
    name##_array &name = *(name##_array *)emu_shared(&name##_declaration)
#define GPU_DYNAMIC_SHARED(type, name)                                          \
    static const emu_shared_array name##_declaration = {#name, 0, 1, EMU_SITE}; \
    type *name = (type *)emu_shared(&name##_declaration)
#if defined( \
    ATTN_CHECK) // behind a call, so that the compiler does not announce the access once more
static inline float4 emu_shared_load4(const float *p, const char *site) {
    float4 value;
    emu_shared_load16(&value, p, site);
    return value;
}
static inline void emu_shared_store4(float *p, float4 value, const char *site) {
    emu_shared_store16(p, &value, site);
}
#else
static inline float4 emu_shared_load4(const float *p, const char *site) {
    if (__builtin_expect((uintptr_t)p % 16 != 0, 0)) emu_shared_wide(p, 16, EMU_READ, site);
    return *(const float4 *)p;
}
static inline void emu_shared_store4(float *p, float4 value, const char *site) {
    if (__builtin_expect((uintptr_t)p % 16 != 0, 0)) emu_shared_wide(p, 16, EMU_WRITE, site);
    *(float4 *)p = value;
}
#endif
#define shared_load4(p)     emu_shared_load4((p), EMU_SITE)
#define shared_store4(p, v) emu_shared_store4((p), (v), EMU_SITE)

// ---- atomics ----
static inline float emu_atomic_add(float *p, float v, int device, const char *site) {
    return emu_atomic_add_float(p, v, device, site);
}
static inline double emu_atomic_add(double *p, double v, int device, const char *site) {
    return emu_atomic_add_double(p, v, device, site);
}
static inline int emu_atomic_add(int *p, int v, int device, const char *site) {
    return (int)emu_atomic_add_32((uint32_t *)p, (uint32_t)v, device, site);
}
static inline unsigned emu_atomic_add(unsigned *p, unsigned v, int device, const char *site) {
    return emu_atomic_add_32(p, v, device, site);
}
static inline unsigned long long emu_atomic_add(unsigned long long *p, unsigned long long v,
                                                int device, const char *site) {
    return emu_atomic_add_64((uint64_t *)p, v, device, site);
}
static inline void emu_atomic_add4(float *p, float4 v, const char *site) {
    const float value[4] = {v.x, v.y, v.z, v.w};
    emu_atomic_add_float4(p, value, site);
}
#define atomicAdd(p, v) emu_atomic_add((p), (v), 0, EMU_SITE)

// ---- barriers and collectives ----
struct emu_syncwarp {
    const char *site;
    void wait(unsigned mask = ~0u) const { emu_warp_barrier(mask, site); }
};
template <class T>
static inline T emu_shuffle_value(const char *site, emu_shuffle_kind kind, unsigned mask, T value,
                                  int argument, int width = warpSize) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emu_shuffle(kind, mask, bits, argument, width, site);
    memcpy(&value, &bits, sizeof value);
    return value;
}
#define __syncthreads()                emu_block_barrier(EMU_SITE)
#define __syncwarp(...)                emu_syncwarp{EMU_SITE}.wait(__VA_ARGS__)
#define __shfl_sync(...)               emu_shuffle_value(EMU_SITE, EMU_INDEXED, __VA_ARGS__)
#define __shfl_up_sync(...)            emu_shuffle_value(EMU_SITE, EMU_UP, __VA_ARGS__)
#define __shfl_down_sync(...)          emu_shuffle_value(EMU_SITE, EMU_DOWN, __VA_ARGS__)
#define __shfl_xor_sync(...)           emu_shuffle_value(EMU_SITE, EMU_XOR, __VA_ARGS__)
#define __ballot_sync(mask, predicate) emu_ballot((mask), !!(predicate), EMU_SITE)
#define __any_sync(mask, predicate)    (emu_ballot((mask), !!(predicate), EMU_SITE) != 0)
#define __all_sync(mask, predicate)    (emu_ballot((mask), !(predicate), EMU_SITE) == 0)

// ---- asynchronous copies ----
#define cp_async4(shared, device)  emu_async_copy((shared), (device), 4, EMU_SITE)
#define cp_async16(shared, device) emu_async_copy((shared), (device), 16, EMU_SITE)
#define cp_async_commit()          emu_async_commit()
template <int groups_left> static inline void cp_async_wait() {
    emu_async_wait(groups_left);
}

#endif
