// gradients.c -- prints a backward pass tile by tile, from the hooks in the chapter's code (hooks.h).
#include "cpu/trace/hooks.h"
#include "cpu/trace/trace.h"

#include <stdio.h>
#include <string.h>

typedef struct pair {
    int seen;
    float s, p, dp, ds;
} pair;
static pair pairs[TRACE_MOST_ROWS][TRACE_MOST_KEYS]; // of the tile
static int step;

void trace_sums(const float *d, const float *lse) {
    const attn_problem *p = trace_problem();
    if (!p) return;
    step = 0;
    memset(pairs, 0, sizeof pairs);
    printf("L, which the forward pass left, and D = rowsum(dO o O): two numbers a row\n");
    printf("          L      D\n");
    for (int i = 0; i < p->q_len; i++) printf("q%-4d%7.3f%7.3f\n", i, (double)lse[i], (double)d[i]);
}

void trace_pair(int r, int j, float s, float p, float dp, float ds) {
    if (!trace_problem()) return;
    pairs[r][j] = (pair){1, s, p, dp, ds};
}

static void print_part(const trace_tile_place *tile, const pair *row, size_t member) {
    printf(" |");
    for (int j = 0; j < tile->keys; j++) {
        float value;
        memcpy(&value, (const char *)&row[j] + member, sizeof value);
        if (row[j].seen)
            trace_print(value, 7, 3);
        else
            printf("%7s", "");
    }
}

static void print_heads(const trace_tile_place *tile) {
    static const char *const heads[] = {"S", "P", "dP", "dS"};
    printf("     ");
    for (int n = 0; n < 4; n++) {
        printf(" |");
        for (int j = 0; j < tile->keys; j++) {
            char key[16];
            snprintf(key, sizeof key, "%s k%d", j ? "" : heads[n], tile->key + j);
            printf("%7s", key);
        }
    }
    printf("\n");
}

// Three rows a line.
static void print_rows(const char *what, const char *row, const float *of, int first, int count,
                       int d) {
    for (int i = 0; i < count; i++) {
        if (i % 3 == 0) printf("%s%-18s", i ? "\n" : "", i ? "" : what);
        printf("   %s%-2d", row, first + i);
        for (int c = 0; c < d; c++) trace_print(of[(first + i) * d + c], 7, 3);
    }
    printf("\n");
}

void trace_gradients(const float *dq, const float *dk, const float *dv) {
    const attn_problem *p = trace_problem();
    if (!p) return;
    const trace_tile_place tile = trace_tile_here();
    const int d = (int)p->head_dim;
    int rows = 0;
    for (int r = 0; r < TRACE_MOST_ROWS; r++)
        for (int j = 0; j < tile.keys; j++)
            if (pairs[r][j].seen) rows = r + 1;
    printf("step %d: queries %d to %d meet keys %d to %d\n", ++step, tile.query,
           tile.query + rows - 1, tile.key, tile.key + tile.keys - 1);
    print_heads(&tile);
    for (int r = 0; r < rows; r++) {
        printf("q%-4d", tile.query + r);
        print_part(&tile, pairs[r], offsetof(pair, s));
        print_part(&tile, pairs[r], offsetof(pair, p));
        print_part(&tile, pairs[r], offsetof(pair, dp));
        print_part(&tile, pairs[r], offsetof(pair, ds));
        printf("\n");
    }
    print_rows("dV += P^T dO", "k", dv, tile.key, tile.keys, d);
    print_rows("dK += scale dS^T Q", "k", dk, tile.key, tile.keys, d);
    print_rows("dQ += scale dS K", "q", dq, tile.query, rows, d);
    memset(pairs, 0, sizeof pairs);
}
