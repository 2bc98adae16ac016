// growth.c -- see growth.h.
//
// One doubling tells little: a causal mask's N^2 has a linear part that is as large at N = 1024, and
// kv-split halves its slices when the queries double. So the law is that of a far doubling, and it is
// said only where the polynomial a + b N + c N^2 through far lengths is right for the first ones, too.
#include "cpu/growth.h"
#include "cpu/memory.h"

#include <math.h>

enum {
    WHOLE_TILES = 1024, // a multiple of every tile: lengths of whole tiles lie on the polynomial
    FARTHEST = 64,      // the far doubling is from 64 to 128 times the length,
    NEAREST = 8,        // or nearer, where the stage cannot do that much
};
static const double TOLERANCE =
    0.05; // of the first lengths' bytes; the last tile may be half empty
static const int64_t LONGEST = (int64_t)1 << 24; // closed forms may walk along the rows

double attn_amount_of(const attn_stage *stage, const attn_problem *problem, attn_pass pass,
                      attn_amount what) {
    if (what == ATTN_EXTRA_BYTES) return (double)attn_extra_bytes(stage, problem, pass, NULL);
    const attn_traffic traffic = attn_model_bytes(stage, problem, pass);
    return (double)attn_traffic_total(&traffic).read;
}

static attn_problem longer(const attn_problem *p, int64_t times) {
    attn_problem result = *p;
    result.q_len *= times, result.kv_len *= times;
    return result;
}

static int is_done(const attn_stage *stage, const attn_problem *p, attn_pass pass) {
    return p->q_len <= LONGEST && p->kv_len <= LONGEST && attn_problem_check(p).code == ATTN_OK &&
           attn_stage_supports(stage, p, pass).code == ATTN_OK;
}

// Whole tiles, and rows longer than the window: before that even a window's bytes grow with N^2.
static int64_t first_length(int64_t length, const attn_problem *p) {
    const int64_t sides[] = {p->window_left, p->window_right};
    for (int i = 0; i < 2; i++)
        if (sides[i] < LONGEST && sides[i] > length) length = sides[i];
    return (length + WHOLE_TILES - 1) / WHOLE_TILES * WHOLE_TILES;
}

static attn_growth law_of(double ratio) {
    const double power = log2(ratio);
    if (fabs(power - 2) < 0.25) return ATTN_GROWTH_SQUARE;
    if (fabs(power - 1) < 0.25) return ATTN_GROWTH_LINEAR;
    return fabs(power) < 0.25 ? ATTN_GROWTH_NONE : ATTN_GROWTH_UNKNOWN;
}

attn_growth attn_growth_of(const attn_stage *stage, const attn_problem *problem, attn_pass pass,
                           attn_amount what) {
    attn_problem first = *problem;
    if (first.q_len <= 0 || first.kv_len <= 0 || first.q_len > LONGEST || first.kv_len > LONGEST)
        return ATTN_GROWTH_UNKNOWN;
    first.q_len = first_length(first.q_len, problem);
    first.kv_len = first_length(first.kv_len, problem);
    int64_t far = FARTHEST;
    for (; far >= NEAREST; far /= 2) {
        const attn_problem farthest = longer(&first, 2 * far);
        if (is_done(stage, &farthest, pass)) break;
    }
    if (far < NEAREST) return ATTN_GROWTH_UNKNOWN;

    const int64_t times[] = {far / 2, far, 2 * far, 1, 2};
    double f[5];
    for (int i = 0; i < 5; i++) {
        const attn_problem p = longer(&first, times[i]);
        f[i] = attn_amount_of(stage, &p, pass, what);
    }
    // Through the first three, in units of times[0].
    const double c = ((f[2] - f[1]) / 2 - (f[1] - f[0])) / 3, b = f[1] - f[0] - 3 * c;
    const double a = f[0] - b - c;
    for (int i = 3; i < 5; i++) {
        const double x = (double)times[i] / (double)times[0], said = a + b * x + c * x * x;
        if (f[i] <= 0 || fabs(said - f[i]) > TOLERANCE * f[i]) return ATTN_GROWTH_UNKNOWN;
    }
    return law_of(f[2] / f[1]);
}
