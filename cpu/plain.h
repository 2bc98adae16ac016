// plain.h -- attention in fp32 with every feature of problem.h, one loop for one formula.
//
// What chapter 1's naive stage is for the problems that it does, this is for the others: the plain
// version in the same precision, by whose error a stage's allowance is measured (E_naive,
// cpu/compare.h). Chapter 1 stays a first chapter that way.
#ifndef ATTN_PLAIN_H
#define ATTN_PLAIN_H

#include "cpu/stage.h"

// As attn_stage's functions of the same name, for tensors in the host's memory. The backward pass
// does not need the forward pass. ATTN_NO_MEMORY: a row of P does not fit.
attn_status attn_plain_forward(const attn_problem *problem, const attn_tensors *tensors,
                               void *const *buffer);
attn_status attn_plain_backward(const attn_problem *problem, const attn_tensors *tensors,
                                void *const *buffer);

#endif
