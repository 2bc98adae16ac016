// philox.h -- Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1,
// 2, 3" (SC 2011), for C and for kernels: a keyed bijection of a 128-bit counter. There is no state,
// so any thread can ask for any number, in any order, and all get the same bits.
#ifndef ATTN_PHILOX_H
#define ATTN_PHILOX_H

#include "cpu/inline.h"

#include <stdint.h>

typedef struct attn_philox_block {
    uint32_t word[4];
} attn_philox_block;

// The block of `counter`, low word first, under the key `seed`.
ATTN_INLINE attn_philox_block attn_philox_of(uint64_t seed, attn_philox_block counter) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = counter.word[0], c1 = counter.word[1];
    uint32_t c2 = counter.word[2], c3 = counter.word[3];

    for (int round = 0; round < 10; round++) {
        // Multipliers and key increments: the paper's section 3.3 and Random123's philox.h.
        const uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)product0;
        key0 += 0x9E3779B9u; // the golden ratio's fraction
        key1 += 0xBB67AE85u; // that of sqrt(3)
    }
    const attn_philox_block block = {{c0, c1, c2, c3}};
    return block;
}

#endif
