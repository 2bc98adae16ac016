// online.c -- form (a): online softmax, one query row at a time, one pass over the keys.
//
// Naive attention reads a row of scores three times: for its maximum, for its sum, for the output.
// Here the three run together. When a larger score turns up, what was summed so far is multiplied
// by e^(old maximum - new maximum), and stands as if the new one had been the maximum all along.
// For l this is Milakov and Gimelshein, arXiv 1805.02867, Algorithm 3; that O may be carried along
// in the same way is Rabe and Staats, arXiv 2112.05682, section 2.
//
//   loops         each query i; within it each key j that it sees, once
//   extra memory  none: m and l are two numbers, O grows in its own place
//   bytes         q, o: rows * d * 4 each;  lse: rows * 4;  k, v: pairs * d * 4 each, since every
//                 query reads every key it sees again
//   FLOPs         4 * pairs * d           rows: of queries, over all heads; pairs: that see each other
#include "chapters/02-online-softmax/stages.h"
#include "cpu/trace/hooks.h"

#include <math.h>

// q [d], k and v [keys][d]: only the keys that the query sees.
static void online_row(const float *q, const float *k, const float *v, int keys, int d, float scale,
                       float *o, float *lse) {
    float m = -INFINITY, l = 0;
    for (int c = 0; c < d; c++) o[c] = 0;

    for (int j = 0; j < keys; j++, k += d, v += d) {
        TRACE_KEY(j);
        float s = 0;
        for (int c = 0; c < d; c++) s += q[c] * k[c];
        s *= scale;

        const float m_new = s > m ? s : m;
        // As long as all scores are -infinity, so is m_new, and (-inf) - (-inf) would be NaN.
        const float shift = m_new == -INFINITY ? 0 : m_new;
        const float alpha = expf(m - shift); // 1 unless s is a new maximum; 0 for the first key
        const float p = expf(s - shift);
        TRACE_ROW(0, &s, 1, m, m_new, alpha, l, o);
        l = l * alpha + p;
        for (int c = 0; c < d; c++) o[c] = o[c] * alpha + p * v[c];
        TRACE_DONE(&p, 1, &l, o, d);
        m = m_new;
    }

    // Dividing once, at the end. A query that saw no key keeps O = 0 and gets L = -inf + log 0 = -inf.
    for (int c = 0; c < d && keys > 0; c++) o[c] /= l;
    *lse = m + logf(l);
}

attn_status online_forward(const attn_problem *p, const attn_tensors *t, void *const *buffer) {
    (void)buffer;
    const attn_band band = attn_band_of(p);
    const int d = (int)p->head_dim;
    for (int64_t n = 0; n < p->batch * p->heads; n++) {
        const head_view head = head_of(p, t, n);
        for (int i = 0; i < band.q_len; i++) {
            TRACE_QUERIES_STAY(i, 1);
            const key_range keys = keys_of_tile(band, i, i + 1);
            const int count = keys.end > keys.first ? keys.end - keys.first : 0;
            const int64_t row = (int64_t)i * d, skip = count ? (int64_t)keys.first * d : 0;
            online_row(head.q + row, head.k + skip, head.v + skip, count, d, p->scale, head.o + row,
                       head.lse + i);
        }
    }
    return attn_ok();
}

void online_bytes(const attn_problem *p, attn_pass pass, attn_traffic *traffic) {
    (void)pass;
    tiled_model(p, 1, traffic);
}

double online_flops(const attn_problem *p, attn_pass pass) {
    (void)pass;
    return 4.0 * (double)(p->batch * p->heads) * (double)attn_visible_pairs(p) *
           (double)p->head_dim;
}
