// count.h -- the counting build's side of a kernel: each access to device memory adds its bytes to a
// counter of the tensor that it lies in.
//
// The counters are in the GPU's own memory, so no profiler is needed, and they count what the emulator
// counts: what the threads ask for. count.cu fills the table of tensors and reads the counters. Lanes
// that ask for the same tensor at once are counted by one atomic addition, and there is a copy of the
// counters for each of a few groups of multiprocessors, so that they rarely wait for each other.
#ifndef GPU_CUDA_COUNT_H
#define GPU_CUDA_COUNT_H

enum { GPU_COUNT_TENSORS = 64, GPU_COUNT_COPIES = 64 };
enum { GPU_COUNT_READ = 1, GPU_COUNT_WRITE = 2 };

typedef struct gpu_counters {
    int tensors;
    unsigned long long begin[GPU_COUNT_TENSORS], end[GPU_COUNT_TENSORS]; // addresses
    // Read, written. The last index: outside of every tensor.
    unsigned long long bytes[GPU_COUNT_COPIES][GPU_COUNT_TENSORS + 1][2];
} gpu_counters;

// One for all .cu files of a module: the counting build is compiled with -rdc=true.
extern __device__ gpu_counters gpu_counters_on_device;

static __device__ __forceinline__ void gpu_count(const void *address, unsigned bytes, int kind) {
    gpu_counters *counters = &gpu_counters_on_device;
    const unsigned long long at = (unsigned long long)address;
    int tensor = 0;
    while (tensor < counters->tensors &&
           !(at >= counters->begin[tensor] && at + bytes <= counters->end[tensor]))
        tensor++;
    if (tensor == counters->tensors) tensor = GPU_COUNT_TENSORS;
    const unsigned same = __match_any_sync(__activemask(), tensor);
    unsigned lane, multiprocessor;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    if (lane != (unsigned)__ffs((int)same) - 1) return;
    unsigned long long *count = counters->bytes[multiprocessor % GPU_COUNT_COPIES][tensor];
    const unsigned long long sum = (unsigned long long)__popc(same) * bytes;
    if (kind & GPU_COUNT_READ) atomicAdd(&count[0], sum);
    if (kind & GPU_COUNT_WRITE) atomicAdd(&count[1], sum);
}

template <class T> static __device__ __forceinline__ T gpu_counted_load(const T *p) {
    gpu_count(p, sizeof(T), GPU_COUNT_READ);
    return *p;
}
template <class T>
static __device__ __forceinline__ void gpu_counted_store(T *p, typename gpu_plain<T>::type value) {
    gpu_count(p, sizeof(T), GPU_COUNT_WRITE);
    *p = value;
}
template <class T>
static __device__ __forceinline__ T gpu_counted_atomic_add(T *p,
                                                           typename gpu_plain<T>::type value) {
    gpu_count(p, sizeof(T), GPU_COUNT_READ | GPU_COUNT_WRITE);
    return atomicAdd(p, value);
}

#endif
