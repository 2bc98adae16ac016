// test_mutants.c -- kernels broken on purpose must fail, and by a wide margin: tests/mutants/mutants.txt
// lists them. A mutant counts as caught when a result is off by ten times what it is allowed, when NaN or
// infinity stands where it should not, or when the bytes or the checks say so.
#include "tests/harness.h"
#include "tests/last_part.h"
#include "tests/stage_rows.h"
#include "tests/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *mutants_suite(void);

static const char *const table_file = "tests/mutants/mutants.txt";
static const double WIDE_MARGIN = 10;

enum { MAX_MUTANTS = 512 };
typedef struct mutant {
    char name[80], file[120], caught[80];
    int features; // meets only problems with chapter 6's features
} mutant;
static mutant mutants[MAX_MUTANTS];
static int mutant_count;

// ---- the table -----------------------------------------------------------------------------------------
static void read_table(void) {
    char line[512];
    FILE *file = fopen(table_file, "r");
    while (file && fgets(line, sizeof line, file)) {
        mutant *last = &mutants[mutant_count > 0 ? mutant_count - 1 : 0];
        line[strcspn(line, "\n")] = 0;
        const char *value = strlen(line) > 9 ? line + 9 : "";
        if (strncmp(line, "mutant ", 7) == 0 && mutant_count < MAX_MUTANTS)
            snprintf(mutants[mutant_count++].name, sizeof last->name, "%.79s", value);
        else if (strncmp(line, "file ", 5) == 0)
            snprintf(last->file, sizeof last->file, "%.119s", value);
        else if (strncmp(line, "meets ", 6) == 0)
            last->features = strcmp(value, "features") == 0;
        else if (strncmp(line, "caught ", 7) == 0)
            snprintf(last->caught, sizeof last->caught, "%.79s", value);
    }
    if (file) fclose(file);
}

static const char *device_of(const mutant *m) {
    const char *ending = strrchr(m->file, '.');
    if (strncmp(m->caught, "check ", 6) == 0) return "check";
    return ending && strncmp(ending, ".cu", 3) == 0 ? "emulator" : "host";
}

// ---- the cases they meet -------------------------------------------------------------------------------
// Small, and chosen so that every line of a kernel matters in one of them.
enum {
    PLAIN = 0,
    MINUS_INFINITY_FIRST = 2 * ATTN_LAST_FEATURE, // the first FIRST_KEYS scores
    NAN_LAST = 4 * ATTN_LAST_FEATURE,             // the last key
    NAN_FIRST_QUERY = 8 * ATTN_LAST_FEATURE,      // q or do of the first query
    NAN_HIDDEN = 16 * ATTN_LAST_FEATURE,          // what a mask of bytes hides
    INFINITE_KEY = 32 * ATTN_LAST_FEATURE,        // one, that queries see
};
typedef struct situation {
    int64_t batch, heads, kv_heads, q_len, kv_len, head_dim;
    attn_causal causal;
    int64_t left, right;
    float scale; // in parts of the default
    attn_input_kind kind;
    unsigned special; // one of these, and ATTN_HAS_... bits: features besides (with_features)
} situation;

static const situation situations[] = {
    // Several tiles of queries and of keys, and no mask: the check build meets the first two alone.
    {1, 2, 1, 100, 130, 40, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_NORMAL, PLAIN},
    {2, 4, 2, 70, 100, 72, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, 1.5f, ATTN_INPUT_NORMAL, PLAIN},
    {1, 3, 1, 100, 70, 17, ATTN_CAUSAL_BOTTOM_RIGHT, 20, 0, 1, ATTN_INPUT_NORMAL, PLAIN},
    // The first rows see only scores near -250, the maximum keeps rising.
    {1, 1, 1, 300, 300, 16, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, 1, ATTN_INPUT_RISING, PLAIN},
    // The maximum comes first, what follows lies far below.
    {1, 1, 1, 40, 300, 16, ATTN_CAUSAL_OFF, 150, 0, -1, ATTN_INPUT_RISING, PLAIN},
    {1, 1, 1, 33, 300, 24, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_NORMAL, MINUS_INFINITY_FIRST},
    {1, 1, 1, 33, 100, 24, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_NORMAL,
     MINUS_INFINITY_FIRST}, // all
    {1, 2, 2, 200, 200, 20, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, 1, ATTN_INPUT_RISING, NAN_LAST},
    {1, 2, 1, 70, 70, 20, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, 1, ATTN_INPUT_NORMAL, NAN_FIRST_QUERY},
    {1, 1, 1, 65, 129, 130, ATTN_CAUSAL_OFF, 0, 7, 1, ATTN_INPUT_WIDE, PLAIN},
    {2, 2, 1, 20, 30, 64, ATTN_CAUSAL_TOP_LEFT, 0, 0, 0, ATTN_INPUT_NORMAL, PLAIN},
    // Without masks, for stages that know none: several tiles and a last one that is not full.
    {2, 4, 2, 150, 200, 40, ATTN_CAUSAL_OFF, 0, 0, 1.5f, ATTN_INPUT_NORMAL, PLAIN},
    {1, 1, 1, 70, 300, 16, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_RISING, PLAIN},
    {1, 1, 1, 40, 300, 16, ATTN_CAUSAL_OFF, 0, 0, -10, ATTN_INPUT_RISING, PLAIN},
    {1, 2, 1, 65, 129, 130, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_WIDE, PLAIN},
    // A window wide enough that some tiles lie wholly inside it.
    {1, 1, 1, 300, 400, 40, ATTN_CAUSAL_BOTTOM_RIGHT, 200, 0, 1, ATTN_INPUT_NORMAL, PLAIN},
    // What chapter 6 adds: all that changes scores or weights; sequences, in rows that lie elsewhere; and a
    // mask of bytes that hides a row, a key and the first tiles of a row, with NaN in them.
    {2, 4, 2, 70, 100, 24, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, 1.5f, ATTN_INPUT_NORMAL,
     ATTN_HAS_SOFTCAP | ATTN_HAS_ALIBI | ATTN_HAS_BIAS | ATTN_HAS_BIAS_GRADIENT | ATTN_HAS_MASK |
         ATTN_HAS_DROPOUT},
    {2, 4, 2, 40, 150, 24, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_WIDE,
     ATTN_HAS_BIAS | ATTN_HAS_BIAS_GRADIENT | ATTN_HAS_SOFTCAP},
    {1, 4, 2, 100, 130, 20, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, 1, ATTN_INPUT_NORMAL,
     ATTN_HAS_VARIABLE_LENGTHS | ATTN_HAS_DROPOUT | ATTN_HAS_ALIBI},
    {2, 4, 2, 40, 70, 20, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_NORMAL,
     ATTN_HAS_STRIDES | ATTN_HAS_DROPOUT | ATTN_HAS_ALIBI | ATTN_HAS_BIAS | ATTN_HAS_BIAS_GRADIENT},
    {1, 2, 1, 70, 300, 20, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_NORMAL,
     NAN_HIDDEN | ATTN_HAS_MASK | ATTN_HAS_BIAS | ATTN_HAS_BIAS_GRADIENT | ATTN_HAS_SOFTCAP},
    // Scores so large that P = e^(S - L) comes out far above 1, where nobody prevents it.
    {1, 1, 1, 70, 70, 20, ATTN_CAUSAL_OFF, 0, 0, 2e6f, ATTN_INPUT_RISING, PLAIN},
    // A tile of keys of which one query alone sees one key. Windows that begin just before a multiple of 4, in
    // several tiles of queries and of keys. The slope at a score of infinity is 0, of either sign.
    {1, 2, 1, 70, 71, 20, ATTN_CAUSAL_BOTTOM_RIGHT, 0, 0, 1, ATTN_INPUT_NORMAL,
     ATTN_HAS_BIAS | ATTN_HAS_BIAS_GRADIENT},
    {1, 2, 1, 70, 140, 72, ATTN_CAUSAL_BOTTOM_RIGHT, 28, 0, 1, ATTN_INPUT_NORMAL, ATTN_HAS_DROPOUT},
    {1, 1, 1, 33, 40, 20, ATTN_CAUSAL_OFF, 0, 0, 1, ATTN_INPUT_NORMAL,
     INFINITE_KEY | ATTN_HAS_SOFTCAP | ATTN_HAS_MASK},
};
enum { SITUATIONS = sizeof situations / sizeof *situations, FIRST_KEYS = 140 };

static const int32_t q_cumulative[] = {0, 40, 40, 41, 100}, kv_cumulative[] = {0, 50, 57, 60, 130};

static attn_stride heads_outside(int64_t heads, int64_t rows, int64_t pitch) { // [B][H][N][pitch]
    return (attn_stride){heads * rows * pitch, rows * pitch, pitch};
}
static attn_stride heads_within(int64_t heads, int64_t rows, int64_t pitch) { // [B][N][H][pitch]
    return (attn_stride){heads * rows * pitch, pitch, heads * pitch};
}

// A bias that all share, or with ALiBi the batches only, or with strides nobody; a mask for each; rows with
// gaps of different sizes, the heads within a row or outside.
static void with_features(unsigned with, attn_problem *p) {
    if (with & ATTN_HAS_SOFTCAP) p->softcap = 1.5f;
    if (with & ATTN_HAS_ALIBI) p->alibi = 1;
    if (with & ATTN_HAS_BIAS)
        p->bias_batch = with & ATTN_HAS_STRIDES ? p->batch : 1,
        p->bias_heads = p->alibi ? p->heads : 1;
    if (with & ATTN_HAS_BIAS_GRADIENT) p->bias_gradient = 1;
    if (with & ATTN_HAS_MASK) p->mask_batch = p->batch, p->mask_heads = p->heads;
    if (with & ATTN_HAS_DROPOUT) p->dropout = 0.3f, p->dropout_seed = 5, p->dropout_offset = 6;
    if (with & ATTN_HAS_VARIABLE_LENGTHS)
        p->sequences = 4, p->q_cumulative = q_cumulative, p->kv_cumulative = kv_cumulative;
    if (!(with & ATTN_HAS_STRIDES)) return;
    p->q_stride = heads_outside(p->heads, p->q_len, p->head_dim + 4);
    p->v_stride = heads_outside(p->kv_heads, p->kv_len, p->head_dim + 4);
    p->o_stride = heads_within(p->heads, p->q_len, p->head_dim + 8);
    p->k_stride = heads_within(p->kv_heads, p->kv_len, p->head_dim + 8);
}

static test_case case_of(const situation *s, int seed) {
    test_case c = {.kind = s->kind, .seed = (uint64_t)seed};
    c.problem = attn_problem_of(s->q_len, s->kv_len, s->head_dim);
    c.problem.batch = s->batch, c.problem.heads = s->heads, c.problem.kv_heads = s->kv_heads;
    c.problem.causal = s->causal, c.problem.window_left = s->left,
    c.problem.window_right = s->right;
    c.problem.scale *= s->scale;
    with_features(s->special, &c.problem);
    return c;
}

// Query 1 sees no key, query 2 none of the first two hundred, and nobody the last.
static int is_hidden(const attn_problem *p, int64_t i, int64_t j) {
    return i == 1 || (i == 2 && j < 200) || j == p->kv_len - 1;
}

static void fill_with_nan(float *row, int64_t d) {
    for (int64_t c = 0; c < d; c++) row[c] = NAN;
}

static void hide_nan(const attn_problem *p, test_input *in) {
    const int64_t d = p->head_dim, square = p->q_len * p->kv_len;
    for (int64_t e = 0; e < (int64_t)attn_mask_elements(p); e++)
        if (is_hidden(p, e % square / p->kv_len, e % p->kv_len)) in->mask[e] = 0;
    for (int64_t e = 0; e < (int64_t)attn_bias_elements(p); e++)
        if (is_hidden(p, e % square / p->kv_len, e % p->kv_len)) in->bias[e] = NAN;
    for (int64_t h = 0; h < p->batch * p->heads; h++) {
        fill_with_nan(in->q + (h * p->q_len + 1) * d, d);
        fill_with_nan(in->d_o + (h * p->q_len + 1) * d, d);
    }
    for (int64_t h = 1; h <= p->batch * p->kv_heads; h++) {
        fill_with_nan(in->k + (h * p->kv_len - 1) * d, d);
        fill_with_nan(in->v + (h * p->kv_len - 1) * d, d);
    }
}

static test_input input_of(const situation *s, const test_case *c) {
    test_input in = test_input_make(c);
    const int64_t d = s->head_dim;
    if (s->special & MINUS_INFINITY_FIRST) {
        for (int64_t i = 0; i < s->q_len; i++) in.q[i * d] = 1;
        for (int64_t j = 0; j < FIRST_KEYS && j < s->kv_len; j++) in.k[j * d] = -INFINITY;
    }
    if (s->special & NAN_LAST) { // the last key of each head: only the last query sees it
        for (int64_t h = 1; h <= s->batch * s->kv_heads; h++)
            for (int64_t e = h * s->kv_len * d - d; e < h * s->kv_len * d; e++)
                in.k[e] = in.v[e] = NAN;
    }
    if (s->special & NAN_HIDDEN) hide_nan(&c->problem, &in);
    if (s->special & INFINITE_KEY) in.k[5 * d] = -INFINITY;
    if (s->special & NAN_FIRST_QUERY) { // it sees the first key alone
        for (int64_t h = 0; h < s->batch * s->heads; h++)
            for (int64_t e = h * s->q_len * d; e < h * s->q_len * d + d; e++)
                (h % 2 ? in.d_o : in.q)[e] = NAN;
    }
    return in;
}

// ---- the verdicts --------------------------------------------------------------------------------------
typedef struct verdict {
    double margin; // the largest error in parts of what is allowed; infinity for NaN out of place
    int bytes_differ, failed;
    int indices_wrong; // among more than 2^32 elements
    char finding[480];
} verdict;

static void look(const attn_proof *proof, verdict *v) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const attn_comparison *c = &proof->comparison[r];
        if (!proof->compared[r] || c->pass) continue;
        v->failed = 1;
        const double margin = c->allowed > 0 ? c->worst / c->allowed : INFINITY;
        if (margin > v->margin) v->margin = margin;
    }
    if (proof->bytes_compared && !proof->bytes_equal) v->bytes_differ = 1;
}

// Runs every stage of the mutant's module on one situation. Returns how many do such problems.
static int meet(const attn_modules *real, const attn_modules *mutated, int s, verdict *v) {
    const test_case c = case_of(&situations[s], s + 1);
    test_input in = input_of(&situations[s], &c);
    const attn_inputs inputs = test_inputs(&in);
    attn_trial trial;
    attn_status status = attn_trial_begin(real, &c.problem, &inputs, NULL, &trial);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    int able = 0;
    for (int i = 0; i < mutated->stage_count; i++) {
        attn_proof proof;
        status = attn_prove(&mutated->stage[i], &trial, 1, &proof);
        if (status.code == ATTN_OK)
            look(&proof, v);
        else if (status.code == ATTN_DEVICE)
            snprintf(v->finding, sizeof v->finding, "%s", status.text);
        else if (status.code != ATTN_UNSUPPORTED) // masks, in chapters that have none
            ck_abort_msg("%s", status.text);
        able += status.code != ATTN_UNSUPPORTED;
        attn_proof_free(&proof);
    }
    attn_trial_free(&trial);
    test_input_free(&in);
    return able;
}

// Runs every stage of the mutant's module on the last part of something large.
static void look_far(const attn_modules *mutated, verdict *v) {
    for (int i = 0; i < mutated->stage_count; i++)
        for (int which = 0; which < LAST_PARTS; which++) {
            const attn_status status = last_part_run(&mutated->stage[i], which);
            if (status.code != ATTN_OK && status.code != ATTN_UNSUPPORTED) v->indices_wrong = 1;
        }
}

static int is_caught(const mutant *m, const verdict *v) {
    if (strcmp(m->caught, "bytes") == 0) return v->bytes_differ;
    if (strcmp(m->caught, "indices") == 0) return v->indices_wrong;
    if (strncmp(m->caught, "check ", 6) == 0) return strstr(v->finding, m->caught + 6) != NULL;
    if (strncmp(m->caught, "refused ", 8) == 0) return strstr(v->finding, m->caught + 8) != NULL;
    return v->margin >= WIDE_MARGIN;
}

static int must_pass(const mutant *m) {
    return strcmp(m->caught, "nothing") == 0 || strcmp(m->caught, "check nothing") == 0;
}

START_TEST(mutant_is_caught) {
    static attn_modules real, mutated;
    const mutant *m = &mutants[_i];
    char folder[4300];
    verdict v = {0};
    attn_status status = attn_modules_load("host", &real);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    snprintf(folder, sizeof folder, "%s/mutants/%s", attn_modules_folder(), m->name);
    setenv("ATTENTION_MODULES", folder, 1);
    status = attn_modules_load(device_of(m), &mutated);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    ck_assert_msg(mutated.stage_count > 0, "%s is not built in %s", m->name, folder);

    int met = 0;
    const int far = strcmp(m->caught, "indices") == 0;
    if (far || must_pass(m)) look_far(&mutated, &v);
    for (int s = 0; s < SITUATIONS && !far && (must_pass(m) || !is_caught(m, &v)); s++) {
        if (strcmp(device_of(m), "check") == 0 && met > 1) break; // slow
        if (m->features && (situations[s].special & (2 * ATTN_LAST_FEATURE - 1)) == 0) continue;
        met += meet(&real, &mutated, s, &v) > 0;
    }
    ck_assert_msg(met > 0 || far, "%s does none of the situations", m->name);
    if (must_pass(m))
        ck_assert_msg(
            !v.failed && !v.bytes_differ && !v.indices_wrong && !v.finding[0],
            "%s fails unchanged: %.3g times what is allowed, bytes differ: %d, finding '%s'",
            m->name, v.margin, v.bytes_differ, v.finding);
    else
        ck_assert_msg(
            is_caught(m, &v),
            "%s is not caught (%s): at most %.3g times what is allowed, bytes differ: %d, "
            "finding '%s'",
            m->name, m->caught, v.margin, v.bytes_differ, v.finding);
}
END_TEST

START_TEST(the_table_is_there) {
    ck_assert_msg(mutant_count > 0, "%s cannot be read, or is empty", table_file);
    ck_assert_msg(mutant_count < MAX_MUTANTS, "%s has %d mutants or more: raise MAX_MUTANTS",
                  table_file, MAX_MUTANTS);
}
END_TEST

Suite *mutants_suite(void) {
    Suite *suite = suite_create("mutants");
    TCase *tests = tcase_create("mutants");
    char folder[4300];
    mutant_count = 0;
    read_table();
    tcase_add_test(tests, the_table_is_there);
    snprintf(folder, sizeof folder, "%s/mutants", attn_modules_folder());
    if (test_run.quick || access(folder, R_OK) != 0) {
        test_skip("mutants: all", "%s",
                  test_run.quick ? "they take minutes; make test has them" : "they are not built");
    } else {
        for (int i = 0; i < mutant_count; i++)
            if (test_wants_device(device_of(&mutants[i])))
                tcase_add_loop_test(tests, mutant_is_caught, i, i + 1);
    }
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
