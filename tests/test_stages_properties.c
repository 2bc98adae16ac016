// test_stages_properties.c -- laws between results, which hold whatever the reference says.
#include "tests/harness.h"
#include "tests/stage_rows.h"
#include "tests/test_stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Two runs of a stage on problems that are the same in mathematics, each within its allowance of the
// truth, are within twice that of each other.
static double twice_allowed(const attn_loaded_stage *row, const test_case *c,
                            const test_input *input, attn_result result) {
    const attn_inputs inputs = test_inputs(input);
    attn_trial trial;
    const attn_status status =
        attn_trial_begin(stage_modules(), &c->problem, &inputs, NULL, &trial);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    const attn_magnitudes *size = &trial.reference.size;
    const double allowed = row->stage->yardstick
                               ? attn_naive_bound(result, size)
                               : attn_allowed(result, size, trial.naive_error[result]);
    attn_trial_free(&trial);
    return 2 * allowed;
}

static void compare_floats(const attn_loaded_stage *row, const test_case *c, attn_result result,
                           const float *a, const float *b, size_t count, double allowed,
                           const char *law, test_failures *failures) {
    for (size_t e = 0; e < count; e++) {
        if (fabs((double)a[e] - (double)b[e]) <= allowed || (a[e] == b[e])) continue;
        test_failed(failures, row, c, "%s: %s[%zu] is %.9g and %.9g, allowed %.2g", law,
                    attn_result_name(result), e, a[e], b[e], allowed);
        return;
    }
}

void compare_close(const attn_loaded_stage *row, const test_case *c, const test_input *input,
                   const attn_run *a, const attn_run *b, const char *law, test_failures *failures) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const float *x = test_output(a, (attn_result)r), *y = test_output(b, (attn_result)r);
        if (x)
            compare_floats(row, c, (attn_result)r, x, y,
                           test_output_elements(&c->problem, (attn_result)r),
                           twice_allowed(row, c, input, (attn_result)r), law, failures);
    }
}

// Row i of causal attention (q_len = kv_len) is full attention of query i over keys 0 .. i, and its dQ.
void family_causal_is_full_on_prefixes(const attn_loaded_stage *row, test_failures *failures) {
    test_case c = {.problem = attn_problem_of(70, 70, 24), .seed = 3};
    c.problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    test_input input = test_input_make(&c);
    attn_run causal, full;
    failures->cases++;
    if (test_run_stage(row, &c, &input, &causal, failures)) {
        const double allowed = twice_allowed(row, &c, &input, ATTN_RESULT_O);
        for (int64_t i = 0; i < c.problem.q_len; i += 3) {
            test_case prefix = {.problem = attn_problem_of(1, i + 1, 24), .seed = 3};
            test_input part = {.q = input.q + i * 24,
                               .k = input.k,
                               .v = input.v,
                               .d_o = input.d_o + i * 24};
            if (!test_run_stage(row, &prefix, &part, &full, failures)) continue;
            compare_floats(row, &c, ATTN_RESULT_O, causal.out.o + i * 24, full.out.o, 24, allowed,
                           "causal is full on a prefix", failures);
            compare_floats(row, &c, ATTN_RESULT_LSE, causal.out.lse + i, full.out.lse, 1,
                           twice_allowed(row, &c, &input, ATTN_RESULT_LSE),
                           "causal is full on a prefix", failures);
            if (full.out.dq)
                compare_floats(row, &c, ATTN_RESULT_DQ, causal.out.dq + i * 24, full.out.dq, 24,
                               twice_allowed(row, &c, &input, ATTN_RESULT_DQ),
                               "causal is full on a prefix", failures);
            attn_run_free(&full);
        }
        attn_run_free(&causal);
    }
    test_input_free(&input);
}

// A window that reaches all keys changes nothing.
void family_wide_window(const attn_loaded_stage *row, test_failures *failures) {
    for (int causal = ATTN_CAUSAL_OFF; causal <= ATTN_CAUSAL_TOP_LEFT; causal++) {
        test_case c = {.problem = attn_problem_of(65, 65, 16), .seed = 4};
        c.problem.causal = (attn_causal)causal;
        test_case windowed = c;
        windowed.problem.window_left = windowed.problem.window_right = 65;
        test_input input = test_input_make(&c);
        attn_run a, b;
        failures->cases++;
        if (test_run_stage(row, &windowed, &input, &b, failures)) {
            if (test_run_stage(row, &c, &input, &a, failures)) {
                compare_close(row, &c, &input, &a, &b, "a wide window", failures);
                attn_run_free(&a);
            }
            attn_run_free(&b);
        }
        test_input_free(&input);
    }
}

// Query heads that share K and V do what they do when each has a copy; the copies' gradients add up.
void family_grouped_is_repeated(const attn_loaded_stage *row, test_failures *failures) {
    test_case grouped = {.problem = attn_problem_of(33, 50, 20), .seed = 5};
    grouped.problem.batch = 2, grouped.problem.heads = 6, grouped.problem.kv_heads = 2;
    test_case repeated = grouped;
    repeated.problem.kv_heads = 6;
    const size_t head = 50 * 20;
    const int64_t group = 3;
    test_input input = test_input_make(&grouped), wide = test_input_make(&repeated);
    memcpy(wide.q, input.q, 4 * attn_q_elements(&grouped.problem));
    memcpy(wide.d_o, input.d_o, 4 * attn_q_elements(&grouped.problem));
    for (int64_t h = 0; h < 2 * 6; h++) {
        memcpy(wide.k + (size_t)h * head, input.k + (size_t)(h / group) * head, 4 * head);
        memcpy(wide.v + (size_t)h * head, input.v + (size_t)(h / group) * head, 4 * head);
    }
    attn_run a, b;
    failures->cases++;
    if (test_run_stage(row, &grouped, &input, &a, failures)) {
        if (test_run_stage(row, &repeated, &wide, &b, failures)) {
            // Summed over the copies, dK and dV have the shape of the group's.
            for (int r = ATTN_RESULT_DK; b.out.dk && r <= ATTN_RESULT_DV; r++) {
                float *sum = r == ATTN_RESULT_DK ? b.out.dk : b.out.dv;
                for (int64_t h = 0; h < 2 * 2; h++)
                    for (size_t e = 0; e < head; e++) {
                        double total = 0;
                        for (int64_t g = 0; g < group; g++)
                            total += sum[(size_t)(h * group + g) * head + e];
                        sum[(size_t)h * head + e] = (float)total;
                    }
            }
            compare_close(row, &grouped, &input, &a, &b, "grouped heads are repeated K and V",
                          failures);
            attn_run_free(&b);
        }
        attn_run_free(&a);
    }
    test_input_free(&input);
    test_input_free(&wide);
}

static void reverse_rows(float *matrix, int64_t rows, int64_t columns) {
    for (int64_t i = 0, j = rows - 1; i < j; i++, j--)
        for (int64_t c = 0; c < columns; c++) {
            const float other = matrix[i * columns + c];
            matrix[i * columns + c] = matrix[j * columns + c];
            matrix[j * columns + c] = other;
        }
}

// Without a mask the order of keys means nothing, as long as the values go with them, and a bias' columns.
void family_permuted_keys(const attn_loaded_stage *row, test_failures *failures) {
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++) {
        test_case c = {.problem = attn_problem_of(40, 131, 24), .kind = (attn_input_kind)kind};
        if (row->stage->features & ATTN_HAS_SOFTCAP && kind % 2) c.problem.softcap = 3;
        if (row->stage->features & ATTN_HAS_BIAS && kind > 1)
            c.problem.bias_batch = c.problem.bias_heads = 1;
        if (row->stage->features & ATTN_HAS_BIAS_GRADIENT && kind > 1) c.problem.bias_gradient = 1;
        test_input input = test_input_make(&c), turned = test_input_copy(&input, &c.problem);
        reverse_rows(turned.k, 131, 24);
        reverse_rows(turned.v, 131, 24);
        for (int i = 0; turned.bias && i < 40; i++) reverse_rows(turned.bias + i * 131, 131, 1);
        attn_run a, b;
        failures->cases++;
        if (test_run_stage(row, &c, &input, &a, failures)) {
            if (test_run_stage(row, &c, &turned, &b, failures)) {
                if (b.out.dk) reverse_rows(b.out.dk, 131, 24), reverse_rows(b.out.dv, 131, 24);
                for (int i = 0; b.out.dbias && i < 40; i++)
                    reverse_rows(b.out.dbias + i * 131, 131, 1);
                compare_close(row, &c, &input, &a, &b, "permuted keys", failures);
                attn_run_free(&b);
            }
            attn_run_free(&a);
        }
        test_input_free(&input);
        test_input_free(&turned);
    }
}
