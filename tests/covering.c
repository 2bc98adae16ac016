// covering.c -- see covering.h. Greedy: each new combination is the best of a few random ones that hold
// a pair that none has yet.
#include "tests/covering.h"
#include "cpu/random.h"

#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 40 };

covering *covering_begin(int factors, const int *levels) {
    covering *c = calloc(1, sizeof *c);
    if (!c) abort();
    c->factors = factors;
    memcpy(c->levels, levels, (size_t)factors * sizeof *levels);
    return c;
}

static int new_pairs(covering *c, const int *at, int mark) {
    int count = 0;
    for (int a = 0; a < c->factors; a++)
        for (int b = a + 1; b < c->factors; b++) {
            unsigned char *pair = &c->covered[a][at[a]][b][at[b]];
            count += !*pair;
            if (mark) *pair = 1;
        }
    return count;
}

// The first pair that no combination has; 0 when there is none left.
static int first_uncovered(const covering *c, int pair[4]) {
    for (int a = 0; a < c->factors; a++)
        for (int x = 0; x < c->levels[a]; x++)
            for (int b = a + 1; b < c->factors; b++)
                for (int y = 0; y < c->levels[b]; y++)
                    if (!c->covered[a][x][b][y])
                        return pair[0] = a, pair[1] = x, pair[2] = b, pair[3] = y, 1;
    return 0;
}

int covering_next(covering *c, int *at) {
    int pair[4], best_pairs = -1;
    if (!first_uncovered(c, pair)) return 0;
    for (int candidate = 0; candidate < CANDIDATES; candidate++) {
        int trial[MAX_FACTORS] = {0};
        for (int f = 0; f < c->factors; f++) {
            uint32_t word[4];
            attn_philox(2024, 0, c->draw++, word);
            trial[f] = (int)(word[0] % (uint32_t)c->levels[f]);
        }
        trial[pair[0]] = pair[1], trial[pair[2]] = pair[3];
        const int pairs = new_pairs(c, trial, 0);
        if (pairs > best_pairs) best_pairs = pairs, memcpy(at, trial, sizeof trial);
    }
    new_pairs(c, at, 1);
    return 1;
}
