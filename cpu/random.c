// random.c -- see random.h.
#include "cpu/random.h"

void attn_philox(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t block[4]) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);

    for (int round = 0; round < 10; round++) {
        // Multipliers and key increments: the paper's section 3.3 and Random123's philox.h.
        uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)product0;
        key0 += 0x9E3779B9u; // the golden ratio's fraction
        key1 += 0xBB67AE85u; // that of sqrt(3)
    }
    block[0] = c0, block[1] = c1, block[2] = c2, block[3] = c3;
}

float attn_uniform(uint64_t seed, uint64_t stream, uint64_t counter) {
    uint32_t block[4];
    attn_philox(seed, stream, counter, block);
    return (float)(block[0] >> 8) * 0x1p-24f; // 24 bits fit a float: both steps are exact
}

int32_t attn_normal_steps(uint64_t seed, uint64_t stream, uint64_t counter) {
    uint32_t block[4];
    attn_philox(seed, stream, counter, block);
    uint32_t sum = 0;
    for (int word = 0; word < 4; word++) sum += (block[word] & 0xffff) + (block[word] >> 16);
    return (int32_t)sum - 4 * 0xffff; // eight pieces of mean 0xffff / 2
}

float attn_normal(uint64_t seed, uint64_t stream, uint64_t counter) {
    return (float)attn_normal_steps(seed, stream, counter) * ATTN_NORMAL_STEP;
}
