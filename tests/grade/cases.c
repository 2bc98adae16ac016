// cases.c -- the cases of an exercise: small ones first, then the golden ones, hard input, and some whose
// sizes nobody knows beforehand.
#include "cpu/random.h"
#include "tests/grade/grader.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct made {
    int batch, heads, kv_heads, q_len, kv_len, d;
    attn_input_kind kind;
    float scale; // 0: the default
} made;

// From one tile to several, with and without a rest; no keys; grouped heads.
static const made small[] = {
    {1, 1, 1, 4, 4, 8, ATTN_INPUT_NORMAL, 0},     {1, 1, 1, 5, 40, 8, ATTN_INPUT_NORMAL, 0},
    {1, 1, 1, 64, 64, 64, ATTN_INPUT_NORMAL, 0},  {1, 1, 1, 100, 33, 16, ATTN_INPUT_NORMAL, 0},
    {1, 1, 1, 70, 130, 40, ATTN_INPUT_NORMAL, 0}, {2, 4, 2, 20, 50, 24, ATTN_INPUT_NORMAL, 0},
    {1, 1, 1, 10, 20, 200, ATTN_INPUT_NORMAL, 0}, {1, 1, 1, 3, 0, 8, ATTN_INPUT_NORMAL, 0},
    {1, 1, 1, 9, 7, 5, ATTN_INPUT_NORMAL, 0.7f},
};
// For a chapter's own kernels, whose tiles are larger.
static const made large[] = {
    {1, 1, 1, 300, 300, 64, ATTN_INPUT_NORMAL, 0},
    {1, 2, 1, 200, 330, 128, ATTN_INPUT_NORMAL, 0},
};
enum { LARGE = sizeof large / sizeof *large };
enum { SMALL = sizeof small / sizeof *small, HIDDEN = 4 };

typedef struct builder {
    const exercise *e;
    const attn_modules *host;
    const attn_stage *stage;
    grade_case *cases;
    int count;
    attn_status status;
} builder;

static attn_pass pass_of(const attn_stage *stage) {
    return stage->backward ? ATTN_BACKWARD : ATTN_FORWARD;
}

static const char *const planted_names[] = {
    [GRADE_NOTHING] = "",
    [GRADE_NAN_IN_K] = ", with NaN in the last key",
    [GRADE_NAN_IN_V] = ", with NaN in the last key's V",
    [GRADE_MINUS_INFINITY] = ", whose first scores are -infinity",
};

// What random input has not.
static void plant(grade_planted what, int keys, attn_case *c) {
    const attn_problem *p = &c->problem;
    const int64_t d = p->head_dim, last = (p->kv_len - 1) * d;
    if (what == GRADE_NAN_IN_K) c->k[last] = NAN;
    if (what == GRADE_NAN_IN_V) c->v[last] = NAN;
    if (what != GRADE_MINUS_INFINITY) return;
    for (int64_t i = 0; i < p->q_len; i++) c->q[i * d] = 1;
    for (int j = 0; j < keys; j++) c->k[j * d] = -INFINITY;
}

// The last case is complete but for its trial.
static void begin_trial(builder *b, int from_file) {
    grade_case *c = &b->cases[b->count];
    if (attn_stage_supports(b->stage, &c->data.problem, pass_of(b->stage)).code != ATTN_OK) {
        attn_case_free(&c->data);
        return;
    }
    const attn_inputs inputs = attn_case_inputs(&c->data);
    b->status = attn_trial_begin(b->host, &c->data.problem, &inputs, from_file ? &c->data : NULL,
                                 &c->trial);
    b->count++;
}

static int may_add(const builder *b) {
    return b->status.code == ATTN_OK && b->count < GRADE_MAX_CASES;
}

static void add_planted(builder *b, const made *m, uint64_t seed, grade_planted planted) {
    if (!may_add(b)) return;
    grade_case *c = &b->cases[b->count];
    attn_problem p = attn_problem_of(m->q_len, m->kv_len, m->d);
    p.batch = m->batch, p.heads = m->heads, p.kv_heads = m->kv_heads;
    if (m->scale != 0) p.scale = m->scale;
    if (b->e->causal) p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    int used =
        snprintf(c->name, sizeof c->name, "QLEN=%d KVLEN=%d DIM=%d", m->q_len, m->kv_len, m->d);
    if (m->heads > 1)
        used += snprintf(c->name + used, sizeof c->name - (size_t)used,
                         " BATCH=%d HEADS=%d KVHEADS=%d", m->batch, m->heads, m->kv_heads);
    if (m->kind != ATTN_INPUT_NORMAL)
        used += snprintf(c->name + used, sizeof c->name - (size_t)used, " KIND=%s",
                         attn_input_name(m->kind));
    if (m->scale != 0)
        used += snprintf(c->name + used, sizeof c->name - (size_t)used, " SCALE=%g", m->scale);
    if (b->e->causal) used += snprintf(c->name + used, sizeof c->name - (size_t)used, " CAUSAL=1");
    used += snprintf(c->name + used, sizeof c->name - (size_t)used, " SEED=%llu",
                     (unsigned long long)seed);
    c->planted = planted;
    snprintf(c->name + used, sizeof c->name - (size_t)used, "%s", planted_names[planted]);
    b->status = attn_case_random(&p, m->kind, seed, b->stage->backward != NULL, &c->data);
    if (b->status.code != ATTN_OK) return;
    plant(planted, b->e->bc, &c->data);
    begin_trial(b, 0);
}

static void add_made(builder *b, const made *m, uint64_t seed) {
    add_planted(b, m, seed, GRADE_NOTHING);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_golden(builder *b, const char *folder) {
    char *names[64];
    int count = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory)) && count < 64;) {
        char path[400];
        snprintf(path, sizeof path, "%s/%.250s/case.txt", folder, entry->d_name);
        if (entry->d_name[0] != '.' && access(path, R_OK) == 0)
            names[count++] = strdup(entry->d_name);
    }
    if (directory) closedir(directory);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    for (int i = 0; i < count; i++) {
        if (may_add(b)) {
            grade_case *c = &b->cases[b->count];
            snprintf(c->name, sizeof c->name, "%s/%.100s", folder, names[i]);
            b->status = attn_case_load(c->name, &c->data);
            if (b->status.code == ATTN_OK && b->e->causal && !c->data.problem.causal)
                attn_case_free(&c->data); // another chapter's
            else if (b->status.code == ATTN_OK)
                begin_trial(b, 1);
        }
        free(names[i]);
    }
}

// Scores far below 0, where a maximum that starts at 0 shows; maxima that rise from tile to tile; scores
// whose exponential overflows.
static void add_hard(builder *b, uint64_t seed) {
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++)
        for (int negative = 0; negative < 2; negative++) {
            const made m = {1, 1, 1, 70, 130, 40, (attn_input_kind)kind, negative ? -5.0f : 0};
            add_made(b, &m, seed);
        }
}

// Of forward passes: NaN that must be seen, and first scores of -infinity, one or a tile of them, where a
// maximum is -infinity still. For a chapter's own masks: NaN in a V that most queries must not see.
static void add_special(builder *b, uint64_t seed) {
    const made m = {1, 1, 1, 20, 50 + b->e->bc, 8, ATTN_INPUT_NORMAL, 0};
    const int forward = !b->stage->backward && b->e->device && !b->e->counts_naive;
    if (forward) add_planted(b, &m, seed, GRADE_NAN_IN_K);
    if (!b->e->device && b->e->causal) add_planted(b, &m, seed, GRADE_NAN_IN_V);
    if (forward && !b->e->causal) add_planted(b, &m, seed, GRADE_MINUS_INFINITY);
}

static int pick(uint64_t seed, uint64_t which, int most) {
    uint32_t bits[4];
    attn_philox(seed, 0, which, bits);
    return 1 + (int)(bits[0] % (uint32_t)most);
}

int grade_cases(const exercise *e, const attn_modules *host, const attn_stage *stage, uint64_t seed,
                grade_case cases[GRADE_MAX_CASES], attn_status *status) {
    builder b = {e, host, stage, cases, 0, attn_ok()};
    memset(cases, 0, GRADE_MAX_CASES * sizeof *cases);
    for (int i = 0; i < SMALL; i++) add_made(&b, &small[i], seed);
    for (int i = 0; i < LARGE && !e->device; i++) add_made(&b, &large[i], seed);
    add_golden(&b, "tests/golden");
    add_hard(&b, seed);
    add_special(&b, seed);
    for (uint64_t i = 0; i < HIDDEN; i++) {
        const int kv_heads = pick(seed, 8 * i, 2);
        const made m = {pick(seed, 8 * i + 1, 2),
                        kv_heads * pick(seed, 8 * i + 2, 3),
                        kv_heads,
                        pick(seed, 8 * i + 3, 150),
                        pick(seed, 8 * i + 4, 150),
                        pick(seed, 8 * i + 5, 64),
                        (attn_input_kind)(pick(seed, 8 * i + 6, ATTN_INPUT_KINDS) - 1),
                        0};
        add_made(&b, &m, seed + 1 + i);
    }
    *status = b.status;
    return b.count;
}

void grade_cases_free(grade_case *cases, int count) {
    for (int i = 0; i < count; i++) {
        attn_proof_free(&cases[i].proof);
        attn_trial_free(&cases[i].trial);
        attn_case_free(&cases[i].data);
    }
}
