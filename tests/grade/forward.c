// forward.c -- the usual mistakes of an online softmax (exercises 2, 3 and 6), each computed.
//
// Scores are double here; exponentials and sums are fp32, for some mistakes show in their overflow and
// underflow alone.
#include "tests/grade/grader.h"

#include <math.h>
#include <stdlib.h>

enum {
    O_NOT_RESCALED,
    L_NOT_RESCALED,
    NOTHING_RESCALED,
    FACTOR_INVERTED,
    FACTOR_INVERTED_AND_NAN_HIDDEN,
    FACTOR_INVERTED_BUT_FIRST,
    DIVIDED_EVERY_TIME,
    DIVIDED_EVERY_TIME_BUT_THE_LAST,
    NOT_DIVIDED,
    M_STARTS_AT_0,
    WEIGHT_OF_OLD_M,
    LSE_WITHOUT_M,
    LSE_BINARY,
    TAIL_SCORED_0,
    SCALE_MISSING,
    SCALE_TWICE,
    RESET_EVERY_TILE,
    TOP_LEFT,
    ONE_KEY_MORE,
    ONE_KEY_LESS,
    TILE_NOT_MASKED,
    TILE_MASKED_AT_ITS_END,
    MASKED_SCORED_0,
    REST_LOST,
    LAST_TILE_LOST,
    FIRST_QUERY_FOR_ALL,
    EMPTY_ROW_NAN,
    EMPTY_ROW_NAN_IN_VISITED,
    NAN_HIDDEN,
    MINUS_INFINITY_NAN,
};

#define O   (1u << ATTN_RESULT_O)
#define LSE (1u << ATTN_RESULT_LSE)

// Infinite weights, those taken with the m before the first key, cannot be told from infinite factors.
#define INVERTED                                                                                \
    "a factor or a weight is infinite, and infinity times 0 is NaN. m_old is -infinity before " \
    "the first "                                                                                \
    "key: the factor may be inverted (it is e^(m_old - m_new), at most 1), or a weight taken "  \
    "with the "                                                                                 \
    "old maximum (it is e^(s - m_new))"
#define EMPTY                                                                                  \
    "a query that sees no key gives NaN. Its maximum stays -infinity, and (-inf) - (-inf) is " \
    "NaN; its l is 0, and 0/0 is NaN. By definition its O is 0 and its L -infinity"
#define HIDDEN                                                                                   \
    "a NaN in the input is hidden: it makes l NaN, and l > 0 is false for NaN, too, so the row " \
    "becomes 0, like one without keys. Ask whether l is 0: NaN must stay NaN"
#define NO_SHIFT                                                                               \
    "as long as all scores of a row are -infinity, so is its maximum, and (-inf) - (-inf) is " \
    "NaN, for ever. Subtract 0 then, and not the maximum: e^-infinity is 0, as it should be"

// The first that agrees is taken. What says nothing of L or of O leaves it alone: the answer may have made
// either of both.
#define RESCALING                                                                                \
    {O_NOT_RESCALED, O,                                                                          \
     "O is not rescaled: what was summed under the old maximum must be multiplied by alpha = "   \
     "e^(m_old - m_new) when the maximum rises, O as well as l"},                                \
        {L_NOT_RESCALED, O | LSE,                                                                \
         "l is not rescaled: it was summed under the old maximum, as O was, and both need the "  \
         "factor "                                                                               \
         "alpha = e^(m_old - m_new)"},                                                           \
        {NOTHING_RESCALED, O | LSE,                                                              \
         "neither l nor O is rescaled: both were summed under the old maximum, and must be "     \
         "multiplied "                                                                           \
         "by alpha = e^(m_old - m_new) when it rises"},                                          \
        {FACTOR_INVERTED_BUT_FIRST, O,                                                           \
         "the factor is inverted: it is e^(m_old - m_new), at most 1"},                          \
        {FACTOR_INVERTED, O, INVERTED}, {FACTOR_INVERTED_AND_NAN_HIDDEN, O, INVERTED},           \
        {DIVIDED_EVERY_TIME, O,                                                                  \
         "O is divided by l again and again; while the sum grows it stays undivided, and is "    \
         "divided "                                                                              \
         "once, at the end"},                                                                    \
        {DIVIDED_EVERY_TIME_BUT_THE_LAST, O,                                                     \
         "O is divided by l each time something is added; while the sum grows it stays "         \
         "undivided, and "                                                                       \
         "is divided once, at the end"},                                                         \
        {NOT_DIVIDED, O, "O is not divided by l at the end: weights sum to l, not to 1"},        \
        {WEIGHT_OF_OLD_M, O,                                                                     \
         "the weights are e^(s - m) with the old maximum; what is added now needs the new one"}, \
        {NAN_HIDDEN, O, HIDDEN}, {MINUS_INFINITY_NAN, O, NO_SHIFT},                              \
        {M_STARTS_AT_0, LSE,                                                                     \
         "m starts at 0: that is the maximum of nothing only if no score lies far below it. "    \
         "Where all "                                                                            \
         "do, every weight is 0 and O is 0/0. It starts at -infinity"},                          \
        {LSE_WITHOUT_M, LSE,                                                                     \
         "L is log l alone; the sum was taken of e^(s - m), so L = m + log l"},                  \
    {                                                                                            \
        LSE_BINARY, LSE, "L has the binary logarithm of l; it is natural: m + logf(l)"           \
    }

const mistake online_mistakes[] = {RESCALING, {EMPTY_ROW_NAN, O, EMPTY}, {0, 0, NULL}};

const mistake tile_mistakes[] = {
    {SCALE_MISSING, O, "the scores have no scale: s = scale * q . k"},
    {SCALE_TWICE, O, "the scale is applied twice: to q and to the product, perhaps"},
    {TAIL_SCORED_0, O,
     "keys beyond the last one have a score of 0, and with it a weight like any other; a key that "
     "does not exist has the score -infinity, whose weight is 0"},
    {RESET_EVERY_TILE, O,
     "m and l begin anew in every tile, so what is left is the last tile's softmax; they are set "
     "once, before the first tile"},
    RESCALING,
    {EMPTY_ROW_NAN, O, EMPTY},
    {0, 0, NULL},
};

#define NOT_MASKED                                                                              \
    "within the last tiles all keys are taken: a tile is visited when some query of the block " \
    "sees "                                                                                     \
    "a key of it, and each other pair in it must get the score -infinity"
const mistake band_mistakes[] = {
    {TOP_LEFT, O,
     "the diagonal begins in the top left corner (j <= i); here it ends in the bottom right one: "
     "query i sees key j when j <= i + kv_len - q_len"},
    {ONE_KEY_MORE, O,
     "off by one: each query sees one key too many. The last that query i sees is "
     "i + kv_len - q_len itself, so the end of its keys is that + 1"},
    {ONE_KEY_LESS, O,
     "off by one: each query misses its last key, number i + kv_len - q_len: j <= it, not j < it"},
    {REST_LOST, O,
     "the last tile is lost when it is not full: the number of tiles is rounded down; it is "
     "(end + BC - 1) / BC"},
    {LAST_TILE_LOST, O, "the last tile of keys is lost: the loop ends one tile too early"},
    {FIRST_QUERY_FOR_ALL, O,
     "the bound is that of the block's first query, and the later ones see more keys: it must be "
     "that of the last query that exists"},
    {TILE_MASKED_AT_ITS_END, O, NOT_MASKED},
    {TILE_NOT_MASKED, O, NOT_MASKED},
    {MASKED_SCORED_0, O,
     "pairs that do not see each other have a score of 0, and with it a weight; it is -infinity"},
    {EMPTY_ROW_NAN, O, EMPTY},
    {EMPTY_ROW_NAN_IN_VISITED, O, EMPTY},
    RESCALING,
    {0, 0, NULL},
};

// ---- one row ----
typedef struct softmax {
    const exercise *e;
    int mistake;
    const attn_problem *p;
    const float *q, *k, *v; // the row of q; the head of k and v
    double *s;              // its scores, of all keys, and room up to a whole tile
    int i;
} softmax;

static void score(softmax *x) {
    const attn_problem *p = x->p;
    for (int64_t j = 0; j < p->kv_len; j++) {
        double sum = 0;
        for (int64_t c = 0; c < p->head_dim; c++)
            sum += (double)x->q[c] * x->k[j * p->head_dim + c];
        double scale = p->scale;
        if (x->mistake == SCALE_MISSING) scale = 1;
        if (x->mistake == SCALE_TWICE) scale *= scale;
        x->s[j] = scale * sum;
    }
}

// Keys [0, end) that a row takes into account, by the mistake.
static int end_of_row(const softmax *x, int i) {
    const attn_problem *p = x->p;
    int shift = (int)(p->kv_len - p->q_len), end;
    if (!p->causal) return (int)p->kv_len;
    if (x->mistake == TOP_LEFT) shift = 0;
    if (x->mistake == ONE_KEY_MORE) shift++;
    if (x->mistake == ONE_KEY_LESS) shift--;
    end = i + shift + 1;
    return end < 0 ? 0 : end > p->kv_len ? (int)p->kv_len : end;
}

// Keys [0, end) that the block of row i visits.
static int end_of_block(const softmax *x) {
    const int br = x->e->br, bc = x->e->bc;
    int last = x->i / br * br + br - 1;
    if (x->mistake == FIRST_QUERY_FOR_ALL) last -= br - 1;
    if (last > x->p->q_len - 1) last = (int)x->p->q_len - 1;
    const int end = end_of_row(x, last);
    if (x->mistake == REST_LOST) return end / bc * bc;
    if (x->mistake == LAST_TILE_LOST) return end > 0 ? (end - 1) / bc * bc : 0;
    return end;
}

// o / l only where l > 0.
static int hides_nan(int mistake) {
    return mistake == NAN_HIDDEN || mistake == FACTOR_INVERTED_AND_NAN_HIDDEN;
}

static void attend(softmax *x, double *o, double *lse) {
    const int what = x->mistake, tile = x->e->bc;
    const int64_t d = x->p->head_dim;
    const int seen = end_of_row(x, x->i);
    int visited = (int)x->p->kv_len, end = seen; // keys [0, visited) are there, [0, end) are taken
    if (x->p->causal) visited = end_of_block(x);
    int taken = visited;
    if (what == FIRST_QUERY_FOR_ALL) taken = (visited + tile - 1) / tile * tile; // its rest is 0
    if (end > taken) end = taken;
    if (what == TILE_MASKED_AT_ITS_END) end = visited;
    if (what == TILE_NOT_MASKED || what == MASKED_SCORED_0 || what == TAIL_SCORED_0)
        end = (visited + tile - 1) / tile * tile;
    for (int j = visited; j < end; j++) x->s[j] = 0;
    for (int j = seen; j < end && what == MASKED_SCORED_0; j++) x->s[j] = 0;

    float m = what == M_STARTS_AT_0 ? 0 : -INFINITY;
    float l = 0;
    for (int64_t c = 0; c < d; c++) o[c] = 0;
    for (int first = 0; first < end; first += tile) {
        const int next = end - first < tile ? end : first + tile;
        if (what == RESET_EVERY_TILE) m = -INFINITY, l = 0;
        float m_new = m;
        for (int j = first; j < next; j++) m_new = fmaxf(m_new, (float)x->s[j]);
        const float shift = m_new == -INFINITY && what != MINUS_INFINITY_NAN ? 0 : m_new;
        const int inverted = what == FACTOR_INVERTED || what == FACTOR_INVERTED_AND_NAN_HIDDEN ||
                             (what == FACTOR_INVERTED_BUT_FIRST && m != -INFINITY);
        const float alpha = inverted ? expf(shift - m) : expf(m - shift);
        if (what != L_NOT_RESCALED && what != NOTHING_RESCALED) l *= alpha;
        for (int64_t c = 0; c < d && what != O_NOT_RESCALED && what != NOTHING_RESCALED; c++)
            o[c] = (float)o[c] * alpha;
        for (int j = first; j < next; j++) {
            const int old = what == WEIGHT_OF_OLD_M && m != -INFINITY;
            const float p = expf((float)x->s[j] - (old ? m : shift));
            l += p;
            for (int64_t c = 0; c < d && j < visited; c++) o[c] = (float)o[c] + p * x->v[j * d + c];
        }
        m = m_new;
        if (what == DIVIDED_EVERY_TIME || (what == DIVIDED_EVERY_TIME_BUT_THE_LAST && next < end))
            for (int64_t c = 0; c < d; c++) o[c] = (float)o[c] / l;
    }
    for (int64_t c = 0; c < d && end > 0 && what != NOT_DIVIDED; c++) o[c] /= l;
    for (int64_t c = 0; c < d && hides_nan(what) && isnan(l); c++) o[c] = 0;
    *lse = (what == LSE_WITHOUT_M ? 0 : m) + (what == LSE_BINARY ? log2(l) : log(l));
    if (end == 0 && (what == EMPTY_ROW_NAN || (what == EMPTY_ROW_NAN_IN_VISITED && visited > 0)))
        for (int64_t c = 0; c < d; c++) o[c] = NAN;
}

void imitate_forward(const exercise *e, const attn_trial *trial, int mistake, imitation *out) {
    const attn_problem *p = &trial->problem;
    const int64_t d = p->head_dim, group = p->heads / p->kv_heads;
    double *s = calloc((size_t)(p->kv_len + e->bc), sizeof *s);
    if (!s) return;
    for (int64_t row = 0; row < (int64_t)attn_rows(p); row++) {
        const int64_t head = row / p->q_len / group;
        softmax x = {e,
                     mistake,
                     p,
                     trial->inputs.q + row * d,
                     trial->inputs.k + head * p->kv_len * d,
                     trial->inputs.v + head * p->kv_len * d,
                     s,
                     (int)(row % p->q_len)};
        score(&x);
        attend(&x, out->result[ATTN_RESULT_O] + row * d, &out->result[ATTN_RESULT_LSE][row]);
    }
    free(s);
}
