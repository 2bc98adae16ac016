// steps.c -- prints a forward pass tile by tile, from the hooks in the chapter's code (hooks.h).
//
// All is printed while the code runs, in its order; a traced kernel has one thread a block, so that its
// local variables are the whole tile, and one block runs at a time.
#include "cpu/trace/hooks.h"
#include "cpu/trace/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#if defined(_OPENMP)
#include <omp.h>
#endif

typedef struct row { // of the tile, before it is added
    int seen;
    float s[TRACE_MOST_KEYS], m, m_new, alpha, l, o[TRACE_MOST_COLUMNS];
} row;

static struct {
    const attn_problem *problem; // NULL: nothing is traced
    float unit;
    void (*so_far)(attn_traffic *);
    attn_traffic told;                   // bytes printed so far
    int step, staying_query, header_due; // header_due: of the lines of one key
    trace_tile_place tile;
    row row[TRACE_MOST_ROWS];
    char pair[TRACE_MOST_ROWS][TRACE_MOST_ROWS]; // [query][key]: how far the pair got
} now;

enum { NEVER = '.', MASKED = '-', SEEN = '#' };

const attn_problem *trace_problem(void) {
    return now.problem;
}
trace_tile_place trace_tile_here(void) {
    return now.tile;
}

attn_status trace_supports(const attn_problem *p, int most_tile_keys) {
    if (p->q_len < 1 || p->q_len > TRACE_MOST_ROWS || p->kv_len < 1 || p->kv_len > TRACE_MOST_ROWS)
        return attn_error(ATTN_UNSUPPORTED,
                          "a trace is for reading: QLEN and KVLEN from 1 to %d, not %lld and %lld",
                          TRACE_MOST_ROWS, (long long)p->q_len, (long long)p->kv_len);
    if (p->head_dim > TRACE_MOST_COLUMNS)
        return attn_error(ATTN_UNSUPPORTED,
                          "a trace is for reading: DIM is 1 or 2, not %lld; 100 columns have no "
                          "room for more",
                          (long long)p->head_dim);
    if (p->bc > most_tile_keys)
        return attn_error(ATTN_UNSUPPORTED,
                          "a trace is for reading: BC is at most %d here, not %lld; 100 columns "
                          "have no room for more",
                          most_tile_keys, (long long)p->bc);
    return attn_ok();
}

// ---- what was read and written since the last time ----
static void print_bytes(const char *what, const attn_traffic *bytes, int written) {
    int any = 0;
    for (int i = 0; i < bytes->count; i++) {
        const attn_tensor_bytes t = bytes->tensor[i], told = attn_traffic_of(&now.told, t.name);
        const uint64_t more = written ? t.written - told.written : t.read - told.read;
        if (more > 0) printf("%s%s %llu", any++ ? ", " : what, t.name, (unsigned long long)more);
    }
    if (any) printf(" bytes");
}

static void print_memory(const attn_traffic *bytes) {
    const attn_tensor_bytes all = attn_traffic_total(bytes), told = attn_traffic_total(&now.told);
    if (all.read == told.read && all.written == told.written) return;
    print_bytes("memory: read ", bytes, 0);
    print_bytes(all.read > told.read ? "; written " : "memory: written ", bytes, 1);
    printf("\n");
    now.told = *bytes;
}

static void tell_memory(void) {
    attn_traffic bytes = {0};
    if (!now.so_far) return;
    now.so_far(&bytes);
    print_memory(&bytes);
}

void trace_begin(const attn_problem *problem, float unit, void (*so_far)(attn_traffic *)) {
    memset(&now, 0, sizeof now);
    memset(now.pair, NEVER, sizeof now.pair);
    now.problem = problem, now.unit = unit, now.so_far = so_far;
#if defined(_OPENMP)
    omp_set_num_threads(1); // blocks one after the other
#endif
}

static void print_pairs(void) {
    const attn_problem *p = now.problem;
    printf(
        "\nWhich pairs were computed: %c seen, %c computed and masked (S = -inf, P = 0), %c in no "
        "tile visited\n",
        SEEN, MASKED, NEVER);
    for (int i = 0; i < p->q_len; i++) printf("q%-4d %.*s\n", i, (int)p->kv_len, now.pair[i]);
}

void trace_end(const attn_traffic *total) {
    if (total) print_memory(total);
    if (attn_problem_features(now.problem) & (ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW)) print_pairs();
    now.problem = NULL;
    fflush(stdout);
}

// ---- the loops ----
static void print_range(const char *one, const char *many, int first, int last) {
    if (first < last)
        printf("%s %d to %d", many, first, last);
    else
        printf("%s %d", one, first);
}

void trace_stay(int queries_stay, int first, int count) {
    if (!now.problem) return;
    const int64_t length = queries_stay ? now.problem->q_len : now.problem->kv_len;
    const int last = (int)(first + count < length ? first + count : length) - 1;
    tell_memory();
    printf("\nOuter loop: ");
    if (queries_stay) {
        print_range("query", "queries", first, last);
        printf(", with m, l and O, on the chip; keys pass by\n");
        now.staying_query = first;
    } else {
        print_range("key", "keys", first, last);
        printf(" on the chip; queries pass by\n");
    }
    now.header_due = 1;
}

void trace_tile(int query, int key, int keys) {
    if (!now.problem) return;
    tell_memory();
    now.tile = (trace_tile_place){query, key, keys};
    memset(now.row, 0, sizeof now.row);
}

void trace_key(int key) {
    trace_tile(now.problem ? now.staying_query : 0, key, 1);
}

// ---- a tile ----
void trace_row(int r, const float *s, float factor, float m, float m_new, float alpha, float l,
               const float *o) {
    if (!now.problem || now.tile.query + r >= now.problem->q_len) return;
    row *row = &now.row[r];
    row->seen = 1;
    row->m = m * now.unit, row->m_new = m_new * now.unit, row->alpha = alpha, row->l = l;
    for (int j = 0; j < now.tile.keys; j++) {
        const int key = now.tile.key + j;
        row->s[j] = s[j] * factor * now.unit;
        if (key < now.problem->kv_len)
            now.pair[now.tile.query + r][key] = row->s[j] == -INFINITY ? MASKED : SEEN;
    }
    for (int c = 0; c < now.problem->head_dim; c++) row->o[c] = o[c];
}

void trace_print(float value, int width, int decimals) {
    char text[64];
    do snprintf(text, sizeof text, "%.*f", decimals, (double)value);
    while ((int)strlen(text) >= width && decimals-- > 0);
    printf("%*s", width, text);
}

static void print_numbers(const float *x, int count, int width, int decimals) {
    for (int c = 0; c < count; c++) trace_print(x[c], width, decimals);
}

static void print_m(const row *row) {
    printf(" |");
    trace_print(row->m, 6, 2);
    trace_print(row->m_new, 6, 2);
    trace_print(row->alpha, 8, 4);
}

static void print_sums(const row *row, float l, const float *o) {
    const int d = (int)now.problem->head_dim;
    printf(" |");
    trace_print(row->l, 7, 3);
    trace_print(l, 7, 3);
    printf(" |");
    print_numbers(row->o, d, 7, 3);
    printf("|");
    print_numbers(o, d, 7, 3);
    printf("\n");
}

static const char m_head[] = " |     m   new  factor";
static void print_sums_head(void) {
    printf(" |      l    new |%-*s| O new\n", 7 * (int)now.problem->head_dim, " O");
}

// A tile of one query and one key: a line.
static void print_line(const row *row, const float *p, const float *l, const float *o) {
    if (now.header_due) {
        printf("          S%s       P", m_head);
        print_sums_head();
    }
    now.header_due = 0;
    printf("k%-4d", now.tile.key);
    trace_print(row->s[0], 6, 2);
    print_m(row);
    trace_print(p[0], 8, 3);
    print_sums(row, l[0], o);
}

static void print_keys(const char *what) {
    printf("%-5s", what);
    for (int j = 0; j < now.tile.keys; j++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", now.tile.key + j);
        printf("%6s", key);
    }
}

static void print_tile(const float *p, int p_pitch, const float *l, const float *o, int o_pitch) {
    const trace_tile_place t = now.tile;
    const int end =
        (int)(t.key + t.keys < now.problem->kv_len ? t.key + t.keys : now.problem->kv_len);
    int rows = 0;
    for (int r = 0; r < TRACE_MOST_ROWS; r++)
        if (now.row[r].seen) rows = r + 1;
    printf("step %d: ", ++now.step);
    print_range("query", "queries", t.query, t.query + rows - 1);
    printf(t.query + 1 < t.query + rows ? " meet " : " meets ");
    print_range("key", "keys", t.key, end - 1);
    printf("\n");
    print_keys("S");
    printf("%s\n", m_head);
    for (int r = 0; r < rows; r++) {
        if (!now.row[r].seen) continue; // it sees no key of the tile, and the code passed over it
        printf("q%-4d", t.query + r);
        print_numbers(now.row[r].s, t.keys, 6, 2);
        print_m(&now.row[r]);
        printf("\n");
    }
    print_keys("P");
    print_sums_head();
    for (int r = 0; r < rows; r++) {
        if (!now.row[r].seen) continue;
        printf("q%-4d", t.query + r);
        print_numbers(p + r * p_pitch, t.keys, 6, 3);
        print_sums(&now.row[r], l[r], o + r * o_pitch);
    }
}

void trace_done(const void *p, int p_pitch, const float *l, const void *o, int o_pitch) {
    if (!now.problem) return;
    if (now.tile.keys == 1 && p_pitch == 1)
        print_line(&now.row[0], p, l, o);
    else
        print_tile(p, p_pitch, l, o, o_pitch);
}
