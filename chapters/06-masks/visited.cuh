// visited.cuh -- what the tiles that are visited have, added up over a head: for closed forms.
#ifndef VISITED_CUH
#define VISITED_CUH

#include "chapters/06-masks/masked.cuh"

typedef struct visited {
    uint64_t owned;  // rows of the outer tiles that visit any
    uint64_t passed; // rows of the inner loop: K and V forward, Q and dO backward
    uint64_t pairs;
} visited;

// Of one sequence. (With dropout the forward pass begins at a multiple of 4 keys.)
static inline visited visited_of(const attn_problem *p, attn_pass pass) {
    const attn_band band = attn_band_of(p);
    const int outer = pass == ATTN_FORWARD ? band.q_len : band.kv_len;
    const int step = pass == ATTN_FORWARD ? q_outer_br(p) : backward_plan_of(p).bc;
    visited sum = {0, 0, 0};
    for (int first = 0; first < outer; first += step) {
        const int end = outer - first < step ? outer : first + step;
        band_range range =
            pass == ATTN_FORWARD ? band_keys(band, first, end) : band_queries(band, first, end);
        if (pass == ATTN_FORWARD && p->dropout != 0) range.begin -= range.begin % 4;
        if (range.begin >= range.end) continue;
        const uint64_t inner = (uint64_t)(range.end - range.begin);
        sum.owned += (uint64_t)(end - first);
        sum.passed += inner;
        sum.pairs += inner * (uint64_t)(end - first);
    }
    return sum;
}

#endif
