// inline.h -- what C and CUDA C share: a function in a header that both can call.
#ifndef ATTN_INLINE_H
#define ATTN_INLINE_H

#if defined(__CUDACC__)
#define ATTN_INLINE __host__ __device__ static inline
#else
#define ATTN_INLINE static inline __attribute__((unused))
#endif

#endif
