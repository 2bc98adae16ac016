// hooks.h -- what `make traceN` sees of a kernel while it runs.
//
// A chapter's code has a hook, one short line, at each step worth a look. In every build but the trace
// build (ATTN_TRACE, build/trace/NN.so) a hook is nothing at all. There it shows numbers that the code has
// in its hands, and changes none; steps.c and gradients.c print them. TRACE_BUILD is 1 there, for sizes that
// a trace needs to be smaller.
//
//   TRACE_QUERIES_STAY(first, count)   the outer loop takes these queries: all keys will pass by
//   TRACE_KEYS_STAY(first, count)      the outer loop takes these keys: all queries will pass by
//   TRACE_TILE(query, key, keys)       a tile begins: queries from `query` on, `keys` keys from `key` on
//   TRACE_KEY(key)                     the same for one query, the one that stays, and one key
//   TRACE_ROW(r, s, factor, m, m_new, alpha, l, o)
//                                      row r of the tile before it is rescaled: the scores are factor * s
//   TRACE_DONE(p, p_pitch, l, o, o_pitch)
//                                      the tile's weights, and l and O when they are added; row r of p
//                                      begins p_pitch floats after row r - 1
// and in a backward pass
//   TRACE_SUMS(d, lse)                 D and L of all rows
//   TRACE_PAIR(r, j, s, p, dp, ds)     row r and key j of the tile
//   TRACE_GRADIENTS(dq, dk, dv)        of the whole head, when the tile is added
#ifndef ATTN_TRACE_HOOKS_H
#define ATTN_TRACE_HOOKS_H

#ifdef ATTN_TRACE
enum { TRACE_BUILD = 1 };
#else
enum { TRACE_BUILD = 0 };
#endif

#if defined(ATTN_TRACE) && !defined(ATTN_TRACE_SILENT)

#ifdef __cplusplus
extern "C" {
#endif
void trace_stay(int queries_stay, int first, int count);
void trace_tile(int query, int key, int keys);
void trace_key(int key);
void trace_row(int r, const float *s, float factor, float m, float m_new, float alpha, float l,
               const float *o);
void trace_done(const void *p, int p_pitch, const float *l, const void *o, int o_pitch);
void trace_sums(const float *d, const float *lse);
void trace_pair(int r, int j, float s, float p, float dp, float ds);
void trace_gradients(const float *dq, const float *dk, const float *dv);
#ifdef __cplusplus
}
#endif

#define TRACE_QUERIES_STAY(first, count) trace_stay(1, first, count)
#define TRACE_KEYS_STAY(first, count)    trace_stay(0, first, count)
#define TRACE_TILE(query, key, keys)     trace_tile(query, key, keys)
#define TRACE_KEY(key)                   trace_key(key)
#define TRACE_ROW(...)                   trace_row(__VA_ARGS__)
#define TRACE_DONE(...)                  trace_done(__VA_ARGS__)
#define TRACE_SUMS(d, lse)               trace_sums(d, lse)
#define TRACE_PAIR(...)                  trace_pair(__VA_ARGS__)
#define TRACE_GRADIENTS(dq, dk, dv)      trace_gradients(dq, dk, dv)

#else

#define TRACE_QUERIES_STAY(first, count) ((void)0)
#define TRACE_KEYS_STAY(first, count)    ((void)0)
#define TRACE_TILE(query, key, keys)     ((void)0)
#define TRACE_KEY(key)                   ((void)0)
#define TRACE_ROW(...)                   ((void)0)
#define TRACE_DONE(...)                  ((void)0)
#define TRACE_SUMS(d, lse)               ((void)0)
#define TRACE_PAIR(...)                  ((void)0)
#define TRACE_GRADIENTS(dq, dk, dv)      ((void)0)

#endif
#endif
