// stage.h -- what a chapter exports: a table of stages, each one an attention on one device.
//
// Each chapter is built into one shared object a device, build/<device>/<NN>.so, that exports just
// one function, attn_module_get. The program, the tests, the plots and the benchmarks walk the rows
// they find there; nothing outside a chapter names one.
#ifndef ATTN_STAGE_H
#define ATTN_STAGE_H

#include "cpu/problem.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- the tensors of one call, in the memory of the stage's device, laid out as attn_layout_of says ----
typedef struct attn_tensors {
    const void *q, *k, *v; // shapes: problem.h
    void *o;
    float *lse;

    const void *d_o; // gradient of o; this, dq, dk and dv only for the backward pass
    void *dq, *dk, *dv;

    // NULL where the problem has none.
    const float *bias;
    const unsigned char *mask;
    const int32_t *q_cumulative, *kv_cumulative; // the problem's own are on the host
    float *dbias;                                // with bias_gradient, in the backward pass
} attn_tensors;

// ---- extra device memory that a stage asks for ----
enum { ATTN_MAX_BUFFERS = 8 };

typedef struct attn_buffer {
    const char *name; // "s", "p": the name under which its bytes are counted
    uint64_t bytes;
    int kept; // 1: written by the forward pass and read by the backward pass
} attn_buffer;

typedef enum attn_pass { ATTN_FORWARD = 0, ATTN_BACKWARD = 1 } attn_pass;

// ---- bytes, by tensor ----
enum { ATTN_MAX_TENSORS = 24 };

typedef struct attn_tensor_bytes {
    char name[16];
    uint64_t read, written;
} attn_tensor_bytes;

typedef struct attn_traffic {
    int count;
    attn_tensor_bytes tensor[ATTN_MAX_TENSORS];
} attn_traffic;

void attn_traffic_add(attn_traffic *traffic, const char *name, uint64_t read, uint64_t written);
attn_tensor_bytes attn_traffic_total(const attn_traffic *traffic);
attn_tensor_bytes attn_traffic_of(const attn_traffic *traffic,
                                  const char *name);                  // zeros when absent
int attn_traffic_equal(const attn_traffic *a, const attn_traffic *b); // tensor by tensor

// What no stage can do without: each input read once, each output written once.
attn_tensor_bytes attn_compulsory_bytes(const attn_problem *problem, attn_pass pass);

// FLOPs that rates are given of, whatever a stage executes, so that rates compare as times do: 4d a
// pair of query and key that see each other forward, and 10d backward, as the papers count.
double attn_useful_flops(const attn_problem *problem, attn_pass pass);

// "33.5 MB", "68.7 GB" (powers of ten); for messages.
void attn_bytes_text(double bytes, char *text, size_t size);

// ---- a stage ----
typedef struct attn_stage {
    const char *name;  // "naive": the same stage has the same name on every device
    const char *idea;  // one line
    unsigned features; // ATTN_HAS_... it does; a problem with any other is refused for it
    int yardstick;     // 1: the naive version whose error the others' allowance is measured by
    const char *tiles; // what BR and BC may be, for messages; NULL when they are fixed

    // ATTN_UNSUPPORTED with the reason for what `features` cannot say. NULL: does all that is left.
    attn_status (*supports)(const attn_problem *problem);

    // Fills need[] with the buffers the pass wants besides the tensors; returns how many. A
    // backward pass gets the buffers of the forward pass before it first. NULL: none.
    int (*buffers)(const attn_problem *problem, attn_pass pass, attn_buffer need[ATTN_MAX_BUFFERS]);

    // Computes o and lse. `buffer` has what buffers(ATTN_FORWARD) asked for, in order,
    // uninitialised.
    attn_status (*forward)(const attn_problem *problem, const attn_tensors *tensors,
                           void *const *buffer);
    // Computes dq, dk, dv after a forward pass on the same tensors. `buffer`: the forward pass'
    // buffers, then those of buffers(ATTN_BACKWARD). NULL: no backward pass.
    attn_status (*backward)(const attn_problem *problem, const attn_tensors *tensors,
                            void *const *buffer);

    // Closed forms. Bytes: what the pass asks of device memory (counted = model, exactly, on
    // devices that count). FLOPs: what its matrix products execute.
    void (*bytes)(const attn_problem *problem, attn_pass pass, attn_traffic *traffic);
    double (*flops)(const attn_problem *problem, attn_pass pass);

    const char *too_large; // what to try when memory does not suffice; NULL: a smaller problem

    // Bytes of shared memory that a block of the pass has, for the problem's tiles; of several kernels, the
    // most. NULL: no more than the 48 KB that every GPU gives, or none.
    uint64_t (*shared_bytes)(const attn_problem *problem, attn_pass pass);
} attn_stage;

// The stage's closed form of its bytes, by itself.
attn_traffic attn_model_bytes(const attn_stage *stage, const attn_problem *problem, attn_pass pass);

// ATTN_OK, or ATTN_UNSUPPORTED / ATTN_BAD_INPUT with the sentence that says why not.
attn_status attn_stage_supports(const attn_stage *stage, const attn_problem *problem,
                                attn_pass pass);

// ---- the device that a module's stages run on ----

// What crossed between the L2 cache and the DRAM behind it, from an empty L2 on.
typedef struct attn_dram {
    uint64_t read, written; // bytes
    uint64_t left;          // dirty bytes still in the L2: written, but not yet to DRAM
} attn_dram;

typedef struct attn_device {
    const char *kind;          // "host", "emulator", "check", "gpu", "count"
    attn_status (*open)(void); // ATTN_OK when there is one to run on, else the reason
    void (*describe)(char *text, size_t size); // "NVIDIA H200, compute capability 9.0, CUDA 13.0"

    // Named memory: the name is the tensor's in byte counts and in error messages. Fresh memory
    // holds NaN bytes (0xff), never zeros, so that what was not written shows. bytes may be 0.
    attn_status (*allocate)(const char *name, size_t bytes, void **memory);
    void (*release)(void *memory);
    attn_status (*upload)(void *to_device, const void *from_host, size_t bytes);
    attn_status (*download)(void *to_host, const void *from_device, size_t bytes);
    attn_status (*synchronize)(void); // waits; reports what failed in kernels since the last call
    uint64_t (*free_bytes)(void);     // memory still to be had, 0 when unknown

    // Bytes asked of device memory by kernels and by gpu_memset since the last reset; NULL: not
    // counted.
    void (*reset_traffic)(void);
    void (*traffic)(attn_traffic *traffic);

    // Seconds between the two, on the device's own clock; NULL on the emulator, whose time means
    // nothing.
    void (*timer_start)(void);
    double (*timer_stop)(void);

    // What the device has noticed that is no error: warnings, and the check build's statistics of bank
    // conflicts and sectors, of all launches so far. NULL: notices nothing.
    void (*report)(FILE *file);

    // Makes what follows start with an empty L2 cache, and from there on models the cache where the
    // device can: dram() ends that and tells what reached DRAM. The emulator has both; the GPU has
    // empty_l2 alone, since only a profiler may read its counters; elsewhere both are NULL.
    attn_status (*empty_l2)(void);
    void (*dram)(attn_dram *bytes);

    // The GPUs that the device can stand for: the name of number `index`, from 0 on, and the bytes of
    // shared memory that it gives a block; NULL after the last one. NULL: stands for none but itself.
    const char *(*known_gpu)(int index, uint64_t *shared_bytes);
} attn_device;

// ---- a module: one chapter on one device ----
enum { ATTN_MODULE_ABI = 5 };

typedef struct attn_module {
    int abi;
    int chapter;         // 1
    const char *title;   // "Naive attention, three passes"
    const char *predict; // what to try next, ends in a command: "make chapter1 N=2048"
    const attn_device *device;
    const attn_stage *stages;
    int stage_count;
} attn_module;

typedef const attn_module *attn_module_function(void);

// Defines the one symbol that a module exports. Every chapter has one use for its host stages (in a
// .c file) and one for its device stages (in a .cu file), if it has them.
#if defined(__cplusplus)
#define ATTN_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define ATTN_EXPORT __attribute__((visibility("default")))
#endif
#define ATTN_MODULE(chapter_, title_, predict_, device_, stages_)                       \
    ATTN_EXPORT const attn_module *attn_module_get(void);                               \
    const attn_module *attn_module_get(void) {                                          \
        static attn_module module;                                                      \
        module.abi = ATTN_MODULE_ABI, module.chapter = chapter_, module.title = title_; \
        module.predict = predict_, module.device = device_, module.stages = stages_;    \
        module.stage_count = (int)(sizeof(stages_) / sizeof(stages_)[0]);               \
        return &module;                                                                 \
    }

// The device of the stages that run on the CPU as plain C (cpu/host_device.c).
const attn_device *attn_host_device(void);

#ifdef __cplusplus
}
#endif
#endif
