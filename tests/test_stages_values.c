// test_stages_values.c -- NaN and infinity in the input: what is not seen changes no bit of any result,
// what is seen shows in exactly the rows that see it.
#include "tests/definition.h"
#include "tests/harness.h"
#include "tests/test_stages.h"

#include <math.h>
#include <string.h>

static const float poisons[] = {NAN, INFINITY, -INFINITY};
enum { POISONS = sizeof poisons / sizeof *poisons };

static void fill_row(float *matrix, int64_t row, int64_t columns, float value) {
    for (int64_t c = 0; c < columns; c++) matrix[row * columns + c] = value;
}

// ---- keys that no query sees ---------------------------------------------------------------------------
static const struct {
    int64_t q_len, kv_len;
    attn_causal causal;
    int64_t left, right;
} blind[] = {
    {20, 70, ATTN_CAUSAL_TOP_LEFT, 0, 0},  {9, 130, ATTN_CAUSAL_BOTTOM_RIGHT, 16, 0},
    {33, 100, ATTN_CAUSAL_OFF, 5, 7},      {40, 33, ATTN_CAUSAL_TOP_LEFT, 3, 0},
    {64, 129, ATTN_CAUSAL_TOP_LEFT, 0, 0},
};

static void poison_unseen(const attn_problem *p, test_input *input, float value) {
    for (int64_t head = 0; head < p->batch * p->kv_heads; head++)
        for (int64_t j = 0; j < p->kv_len; j++) {
            if (key_is_seen(p, j)) continue;
            fill_row(input->k, head * p->kv_len + j, p->head_dim, value);
            fill_row(input->v, head * p->kv_len + j, p->head_dim, value);
        }
}

void family_unseen_values(const attn_loaded_stage *row, test_failures *failures) {
    for (size_t b = 0; b < sizeof blind / sizeof *blind; b++) {
        if (is_slow_device(row) && b > (test_run.quick ? 0 : 2)) continue;
        test_case c = small_case(row);
        c.problem.q_len = blind[b].q_len, c.problem.kv_len = blind[b].kv_len;
        c.problem.causal = blind[b].causal;
        c.problem.window_left = blind[b].left, c.problem.window_right = blind[b].right;
        c.note = "keys that no query sees hold NaN or infinity";
        test_input input = test_input_make(&c);
        attn_run zeros, run;
        poison_unseen(&c.problem, &input, 0);
        failures->cases++;
        if (test_run_stage(row, &c, &input, &zeros, failures)) {
            for (int x = 0; x < POISONS; x++) {
                poison_unseen(&c.problem, &input, poisons[x]);
                if (!test_run_stage(row, &c, &input, &run, failures)) continue;
                for (int r = 0; r < ATTN_RESULTS; r++) {
                    const size_t count = test_output_elements(&c.problem, (attn_result)r);
                    const float *before = test_output(&zeros, (attn_result)r);
                    if (before && !same_bits(before, test_output(&run, (attn_result)r), count))
                        test_failed(failures, row, &c, "%s is not what it is with zeros there (%g)",
                                    attn_result_name((attn_result)r), poisons[x]);
                }
                attn_run_free(&run);
            }
            attn_run_free(&zeros);
        }
        test_input_free(&input);
    }
}

// ---- a key that some queries see -----------------------------------------------------------------------
// Key `key` of kv head `kv_head` (of batch * kv_heads) is poisoned. Which rows may know of it?
static int query_knows(const attn_problem *p, int64_t head, int64_t i, int64_t kv_head,
                       int64_t key) {
    return head / (p->heads / p->kv_heads) == kv_head && query_sees_key(p, i, key);
}

static int key_knows(const attn_problem *p, int64_t head, int64_t j, int64_t kv_head, int64_t key) {
    if (head != kv_head) return 0;
    for (int64_t i = 0; i < p->q_len; i++)
        if (query_sees_key(p, i, key) && query_sees_key(p, i, j)) return 1;
    return 0;
}

static void compare_rows_that_do_not_know(const attn_loaded_stage *row, const test_case *c,
                                          const attn_run *zeros, const attn_run *run,
                                          int64_t kv_head, int64_t key, test_failures *failures) {
    const attn_problem *p = &c->problem;
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const int of_keys = r == ATTN_RESULT_DK || r == ATTN_RESULT_DV;
        const int64_t length = of_keys ? p->kv_len : p->q_len;
        const int64_t rows = p->batch * (of_keys ? p->kv_heads : p->heads) * length;
        const int64_t columns = r == ATTN_RESULT_LSE ? 1 : p->head_dim;
        const float *a = test_output(zeros, (attn_result)r), *b = test_output(run, (attn_result)r);
        for (int64_t n = 0; a && n < rows; n++) {
            const int knows = of_keys ? key_knows(p, n / length, n % length, kv_head, key)
                                      : query_knows(p, n / length, n % length, kv_head, key);
            if (!knows && !same_bits(a + n * columns, b + n * columns, (size_t)columns)) {
                test_failed(failures, row, c,
                            "%s, head %lld, row %lld is not what it is with zeros in key %lld",
                            attn_result_name((attn_result)r), (long long)(n / length),
                            (long long)(n % length), (long long)key);
                return;
            }
            if (knows && r == ATTN_RESULT_O && isfinite(b[n * columns])) {
                test_failed(failures, row, c, "o, head %lld, row %lld sees key %lld and is %g",
                            (long long)(n / length), (long long)(n % length), (long long)key,
                            b[n * columns]);
                return;
            }
        }
    }
}

void family_values_some_see(const attn_loaded_stage *row, test_failures *failures) {
    static const int64_t keys[] = {0, 1, 31, 40, 64, 99};
    for (int window = 0; window <= 9; window += 9)
        for (size_t n = 0; n < 2 * sizeof keys / sizeof *keys; n++) {
            test_case c = small_case(row);
            c.problem.q_len = 70, c.problem.kv_len = 100, c.problem.window_left = window;
            c.problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
            const int64_t key = keys[n / 2],
                          kv_head = c.problem.kv_heads; // the second batch's first
            c.note = n % 2 ? "NaN in a row of v" : "NaN in a row of k";
            test_input input = test_input_make(&c);
            float *matrix = n % 2 ? input.v : input.k;
            attn_run zeros, run;
            failures->cases++;
            fill_row(matrix, kv_head * c.problem.kv_len + key, c.problem.head_dim, 0);
            if (test_run_stage(row, &c, &input, &zeros, failures)) {
                fill_row(matrix, kv_head * c.problem.kv_len + key, c.problem.head_dim, NAN);
                if (test_run_stage(row, &c, &input, &run, failures)) {
                    compare_rows_that_do_not_know(row, &c, &zeros, &run, kv_head, key, failures);
                    attn_run_free(&run);
                }
                attn_run_free(&zeros);
            }
            test_input_free(&input);
        }
}

// ---- single elements, against the reference ------------------------------------------------------------
void family_visible_values(const attn_loaded_stage *row, test_failures *failures) {
    for (int causal = 0; causal < 2; causal++)
        for (int tensor = 0; tensor < 4; tensor++)
            for (int x = 0; x < POISONS; x++)
                for (int place = 0; place < 3; place++) {
                    test_case c = small_case(row);
                    c.problem.batch = 1;
                    c.problem.causal = causal ? ATTN_CAUSAL_BOTTOM_RIGHT : ATTN_CAUSAL_OFF;
                    c.note = "one element of q, k, v or do is NaN or infinite";
                    test_input input = test_input_make(&c);
                    float *const tensors[] = {input.q, input.k, input.v, input.d_o};
                    const size_t count = tensor == 1 || tensor == 2 ? attn_kv_elements(&c.problem)
                                                                    : attn_q_elements(&c.problem);
                    const size_t at = place == 0 ? 0 : place == 1 ? count / 2 + 7 : count - 1;
                    tensors[tensor][at] = poisons[x];
                    // A row with a score of plus infinity has no softmax. What its gradients are is
                    // left open: from P as stored they are all NaN, from P = exp(S - L) some are 0.
                    float *const d_o = input.d_o;
                    if (tensor < 2 && x > 0) input.d_o = NULL;
                    test_prove(row, &c, &input, NULL, failures);
                    input.d_o = d_o;
                    test_input_free(&input);
                }
}

// ---- rows that see no key ------------------------------------------------------------------------------
void family_rows_without_keys(const attn_loaded_stage *row, test_failures *failures) {
    for (int x = 0; x < POISONS; x++) {
        test_case c = small_case(row);
        attn_problem *p = &c.problem;
        p->q_len = 70, p->kv_len = 33, p->causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        c.note = "q and do are NaN or infinite in rows that see no key";
        test_input input = test_input_make(&c);
        for (int64_t n = 0; n < p->batch * p->heads * p->q_len; n++) {
            if (query_sees_any(p, n % p->q_len)) continue;
            fill_row(input.q, n, p->head_dim, poisons[x]);
            fill_row(input.d_o, n, p->head_dim, poisons[x]);
        }
        test_prove(row, &c, &input, NULL, failures);
        attn_run run;
        if (test_run_stage(row, &c, &input, &run, failures)) {
            for (int64_t n = 0; n < p->batch * p->heads * p->q_len; n++) {
                if (query_sees_any(p, n % p->q_len)) continue;
                int zero = run.out.lse[n] == -INFINITY;
                for (int64_t e = n * p->head_dim; e < (n + 1) * p->head_dim; e++)
                    zero &= run.out.o[e] == 0 && (!run.out.dq || run.out.dq[e] == 0);
                if (zero) continue;
                test_failed(failures, row, &c, "row %lld sees no key: o and dq must be 0, lse -inf",
                            (long long)n);
                break;
            }
            attn_run_free(&run);
        }
        test_input_free(&input);
    }
}

// ---- rows whose scores are all minus infinity ----------------------------------------------------------
// q's first coordinate is 1, k's minus infinity in the first `keys` keys.
static void prove_minus_infinity(const attn_loaded_stage *row, int64_t keys,
                                 test_failures *failures) {
    test_case c = small_case(row);
    attn_problem *p = &c.problem;
    p->batch = 1, p->causal = ATTN_CAUSAL_OFF;
    c.note = "scores of minus infinity";
    test_input input = test_input_make(&c);
    for (int64_t n = 0; n < p->heads * p->q_len; n++) input.q[n * p->head_dim] = 1;
    for (int64_t n = 0; n < p->kv_heads * p->kv_len; n++)
        if (n % p->kv_len < keys) input.k[n * p->head_dim] = -INFINITY;
    test_prove(row, &c, &input, NULL, failures);
    attn_run run;
    if (test_run_stage(row, &c, &input, &run, failures)) {
        const int all = keys >= p->kv_len;
        for (int64_t n = 0; n < p->heads * p->q_len; n++) {
            const float o = run.out.o[n * p->head_dim], lse = run.out.lse[n];
            if (all ? isnan(o) && lse == -INFINITY : isfinite(o) && isfinite(lse)) continue;
            test_failed(failures, row, &c, "row %lld, %lld keys at minus infinity: o %g, lse %g",
                        (long long)n, (long long)keys, o, lse);
            break;
        }
        attn_run_free(&run);
    }
    test_input_free(&input);
}

// ---- scores so large that rounding moves them by more than e^x can bear ---------------------------------
// What they come out at says little, but it is a mean of V, with a finite L.
void family_far_scores(const attn_loaded_stage *row, test_failures *failures) {
    static const float factors[] = {1e8f, 1e10f, -1e10f, 1e20f, 1e30f};
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        test_case c = small_case(row);
        c.note = "far scores", c.seed = 7 + f;
        c.problem.batch = 1, c.problem.causal = ATTN_CAUSAL_OFF;
        c.problem.scale *= factors[f];
        test_input input = test_input_make(&c);
        attn_run run;
        float most = 0;
        for (size_t n = 0; n < attn_kv_elements(&c.problem); n++)
            most = fmaxf(most, fabsf(input.v[n]));
        failures->cases++;
        if (test_run_stage(row, &c, &input, &run, failures)) {
            for (size_t n = 0; n < attn_q_elements(&c.problem); n++) {
                const float o = run.out.o[n], lse = run.out.lse[n / (size_t)c.problem.head_dim];
                if (fabsf(o) <= 1.0001f * most && isfinite(lse)) continue;
                test_failed(failures, row, &c, "scale %g, o[%zu] is %g, its lse %g",
                            (double)c.problem.scale, n, o, lse);
                break;
            }
            attn_run_free(&run);
        }
        test_input_free(&input);
    }
}

void family_scores_all_minus_infinity(const attn_loaded_stage *row, test_failures *failures) {
    const int64_t keys = small_case(row).problem.kv_len;
    prove_minus_infinity(row, keys, failures);
    prove_minus_infinity(row, keys - 1, failures); // one key left
    prove_minus_infinity(row, keys / 2, failures); // whole tiles without a maximum, then one with
    prove_minus_infinity(row, 1, failures);
}
