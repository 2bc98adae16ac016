// memory.h -- how much memory a stage's passes ask for, what is kept between them, and how long a
// sequence may be before they no longer fit.
#ifndef ATTN_MEMORY_H
#define ATTN_MEMORY_H

#include "cpu/modules.h"

// The tensors of a run, in the order in which they are allocated; from D_O on, of the backward pass.
typedef enum attn_run_tensor {
    ATTN_TENSOR_Q = 0,
    ATTN_TENSOR_K,
    ATTN_TENSOR_V,
    ATTN_TENSOR_O,
    ATTN_TENSOR_LSE,
    ATTN_TENSOR_BIAS,
    ATTN_TENSOR_MASK,
    ATTN_TENSOR_Q_CUMULATIVE,
    ATTN_TENSOR_KV_CUMULATIVE,
    ATTN_TENSOR_D_O,
    ATTN_TENSOR_DQ,
    ATTN_TENSOR_DK,
    ATTN_TENSOR_DV,
    ATTN_TENSOR_DBIAS,
} attn_run_tensor;
enum { ATTN_RUN_TENSORS = ATTN_TENSOR_DBIAS + 1 };

// Whether a run has the tensor, and its bytes on the device: with what lies between the elements of a
// strided one. An empty tensor has 0 of them.
int attn_run_has_tensor(const attn_problem *problem, attn_run_tensor tensor, int backward);
size_t attn_run_tensor_bytes(const attn_problem *problem, attn_run_tensor tensor);

// Bytes that a stage asks for besides the tensors, by its own declaration; UINT64_MAX when too many.
// `kept`, unless NULL: those of them that the backward pass reads again.
uint64_t attn_extra_bytes(const attn_stage *stage, const attn_problem *problem, attn_pass pass,
                          uint64_t *kept);

// Bytes that the forward pass leaves to the backward pass besides q, k, v and o: the buffers declared as
// kept, and lse where the backward pass reads it. Says which in `names`, "p" or "lse", unless NULL.
uint64_t attn_kept_bytes(const attn_stage *stage, const attn_problem *problem, char *names,
                         size_t size);

// What a run holds at once: the tensors of the forward pass or, with `backward`, of both passes, and all
// buffers. Sums of doubles, since they may pass 2^64.
typedef struct attn_memory {
    double tensors, buffers; // bytes
} attn_memory;
attn_memory attn_run_memory(const attn_stage *stage, const attn_problem *problem, int backward);

// ATTN_OK when a run fits into what is free on the device now; else ATTN_NO_MEMORY. Where the device's
// memory is the host's, every tensor lies in it twice.
attn_status attn_run_fits(const attn_loaded_stage *row, const attn_problem *problem, int backward);
int attn_tensor_copies(const attn_device *device); // 2 where the memory is the host's, else 1

// The longest N = q_len = kv_len whose run fits into `bytes` with so many copies of the tensors, all else
// as in `problem`, but contiguous; 0 when not even one query and key fit. No problem is longer than
// ATTN_LONGEST. Of variable lengths N alone says nothing: 0.
enum { ATTN_LONGEST = (1 << 30) - 1 };
int64_t attn_longest_that_fits(const attn_stage *stage, const attn_problem *problem, int backward,
                               double bytes, int copies);

#endif
