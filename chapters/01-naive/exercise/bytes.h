// bytes.h -- what exercise 1 gives: the bytes of naive's forward pass on the GPU, by tensor.
#ifndef EXERCISE1_BYTES_H
#define EXERCISE1_BYTES_H

#include "cpu/stage.h"

void exercise_bytes(const attn_problem *p, attn_traffic *traffic);

#endif
