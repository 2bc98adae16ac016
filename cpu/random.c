// random.c -- see random.h.
#include "cpu/random.h"

#include "cpu/philox.h"

#include <string.h>

void attn_philox(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t block[4]) {
    const attn_philox_block place = {
        {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    const attn_philox_block bits = attn_philox_of(seed, place);
    memcpy(block, bits.word, sizeof bits.word);
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
