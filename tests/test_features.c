// test_features.c -- chapter 6's features without any chapter: cpu/plain.c, the runner's strides and the
// reference on the generated cases, and laws that the reference must obey.
#include "cpu/dropout.h"
#include "cpu/plain.h"
#include "tests/feature_cases.h"
#include "tests/harness.h"
#include "tests/stage_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

Suite *features_suite(void);

// ---- plain, as if it were a stage: its results, and that nothing is written between rows -----------------
static const attn_stage plain_stage = {
    .name = "plain",
    .idea = "every feature, one loop for one formula",
    .features = 2 * ATTN_LAST_FEATURE - 1,
    .yardstick = 1, // answers to the derived bound
    .forward = attn_plain_forward,
    .backward = attn_plain_backward,
};

static attn_status one_write_too_far(const attn_problem *problem, const attn_tensors *tensors,
                                     void *const *buffer) {
    const attn_status status = attn_plain_forward(problem, tensors, buffer);
    ((float *)tensors->o)[problem->head_dim] = 0;
    return status;
}

static attn_module plain_module;
static attn_loaded_stage plain_row(const attn_stage *stage) {
    static const stage_row naive = {.stage = "naive", .device = "host"};
    stage_row_load(&naive); // E_naive is measured with it
    plain_module.device = attn_host_device();
    plain_module.chapter = 6;
    return (attn_loaded_stage){&plain_module, stage};
}

START_TEST(plain_does_every_generated_case) {
    static test_case cases[MAX_FEATURE_CASES];
    static test_failures failures;
    const attn_loaded_stage row = plain_row(&plain_stage);
    const int count = feature_cases_make(plain_stage.features, cases);
    unsigned seen = 0;
    for (int i = 0; i < count; i++) {
        test_input input = test_input_make(&cases[i]);
        test_prove(&row, &cases[i], &input, NULL, &failures);
        seen |= attn_problem_features(&cases[i].problem);
        test_input_free(&input);
    }
    test_verdict(&row, "generated features", &failures);
    ck_assert_int_eq(failures.refused, 0);
    ck_assert_uint_eq(seen | ATTN_HAS_TILE_SIZES, plain_stage.features);
}
END_TEST

// Its errors are what chapter 1's are, where both can say.
START_TEST(plain_is_as_good_as_naive) {
    const attn_loaded_stage plain = plain_row(&plain_stage);
    const attn_loaded_stage *naive = attn_find_yardstick(stage_modules(), "host");
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++) {
        test_case c = {.problem = attn_problem_of(70, 130, 64), .kind = (attn_input_kind)kind};
        c.problem.heads = 4, c.problem.kv_heads = 2, c.problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        test_input input = test_input_make(&c);
        const attn_inputs inputs = test_inputs(&input);
        attn_trial trial;
        attn_proof proof;
        attn_status status = attn_trial_begin(stage_modules(), &c.problem, &inputs, NULL, &trial);
        ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
        status = attn_prove(&plain, &trial, 1, &proof);
        ck_assert_msg(status.code == ATTN_OK && proof.pass, "%s", status.text);
        for (int r = 0; r <= ATTN_RESULT_DV; r++) {
            const double allowed =
                attn_allowed((attn_result)r, &trial.reference.size, trial.naive_error[r]);
            ck_assert_msg(proof.comparison[r].worst <= allowed, "%s of kind %s: %g, %s %g",
                          attn_result_name((attn_result)r), attn_input_name((attn_input_kind)kind),
                          proof.comparison[r].worst, naive->stage->name, trial.naive_error[r]);
        }
        attn_proof_free(&proof);
        attn_trial_free(&trial);
        test_input_free(&input);
    }
}
END_TEST

START_TEST(a_write_between_rows_is_found) {
    attn_stage stage = plain_stage;
    stage.forward = one_write_too_far;
    const attn_loaded_stage row = plain_row(&stage);
    test_case c = {.problem = attn_problem_of(5, 6, 8)};
    c.problem.o_stride = (attn_stride){0, 0, 9};
    test_input input = test_input_make(&c);
    const attn_inputs inputs = test_inputs(&input);
    attn_run run;
    const attn_status status = attn_run_stage(&row, &c.problem, &inputs, 1, &run);
    ck_assert_int_eq(status.code, ATTN_DEVICE);
    ck_assert_msg(strstr(status.text, "o was written between its rows, at element 8"), "%s",
                  status.text);
    test_input_free(&input);
}
END_TEST

// ---- laws of the reference -------------------------------------------------------------------------------
static attn_reference compute(const attn_problem *problem, const test_input *input) {
    const attn_inputs inputs = test_inputs(input);
    attn_reference reference;
    const attn_status status = attn_reference_compute(problem, &inputs, &reference);
    ck_assert_msg(status.code == ATTN_OK, "%s", status.text);
    return reference;
}

static void check_close(const double *a, const double *b, size_t count, double tolerance,
                        const char *what) {
    for (size_t e = 0; e < count; e++)
        ck_assert_msg(a[e] == b[e] || fabs(a[e] - b[e]) <= tolerance, "%s[%zu]: %.17g and %.17g",
                      what, e, a[e], b[e]);
}

static void check_all_close(const attn_problem *p, const attn_reference *a, const attn_reference *b,
                            double tolerance) {
    for (int r = 0; r <= ATTN_RESULT_DV; r++)
        check_close(attn_reference_result(a, (attn_result)r),
                    attn_reference_result(b, (attn_result)r),
                    test_output_elements(p, (attn_result)r), tolerance,
                    attn_result_name((attn_result)r));
}

// Rows [first, first + count) of one head.
static float *rows_of(const float *head, int64_t first, int64_t d) {
    return (float *)head + first * d;
}

// One head: a packed problem is each sequence alone. Dropout is left out, for its counter has the number
// of the sequence where a run alone has 0.
START_TEST(packed_is_each_sequence_alone) {
    static const int32_t q[] = {0, 0, 9, 9, 10, 26}, kv[] = {0, 7, 20, 22, 22, 38};
    for (int causal = 0; causal <= ATTN_CAUSAL_TOP_LEFT; causal++)
        for (int window = 0; window < 8; window += 3) {
            test_case c = {.problem = attn_problem_of(26, 38, 6), .seed = 5};
            attn_problem *p = &c.problem;
            p->sequences = 5, p->q_cumulative = q, p->kv_cumulative = kv;
            p->causal = (attn_causal)causal, p->window_left = window;
            p->alibi = 1, p->softcap = 2;
            test_input in = test_input_make(&c);
            attn_reference all = compute(p, &in);
            for (int s = 0; s < 5; s++) {
                attn_problem alone = attn_problem_of_sequence(p, s);
                test_input part = {.q = rows_of(in.q, q[s], 6),
                                   .k = rows_of(in.k, kv[s], 6),
                                   .v = rows_of(in.v, kv[s], 6),
                                   .d_o = rows_of(in.d_o, q[s], 6)};
                attn_reference one = compute(&alone, &part);
                const size_t q_count = 6 * (size_t)alone.q_len, kv_count = 6 * (size_t)alone.kv_len;
                check_close(one.o, all.o + 6 * q[s], q_count, 0, "o");
                check_close(one.lse, all.lse + q[s], (size_t)alone.q_len, 0, "lse");
                check_close(one.dq, all.dq + 6 * q[s], q_count, 0, "dq");
                check_close(one.dk, all.dk + 6 * kv[s], kv_count, 0, "dk");
                check_close(one.dv, all.dv + 6 * kv[s], kv_count, 0, "dv");
                attn_reference_free(&one);
            }
            attn_reference_free(&all);
            test_input_free(&in);
        }
}
END_TEST

// One head: sequences of one length are the members of a batch, dropout included.
START_TEST(packed_is_a_batch) {
    static const int32_t q[] = {0, 9, 18, 27}, kv[] = {0, 14, 28, 42};
    test_case packed = {.problem = attn_problem_of(27, 42, 5), .seed = 6};
    packed.problem.sequences = 3, packed.problem.q_cumulative = q;
    packed.problem.kv_cumulative = kv, packed.problem.dropout = 0.3f;
    packed.problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    attn_problem batch = packed.problem;
    batch.sequences = 0, batch.batch = 3, batch.q_len = 9, batch.kv_len = 14;
    test_input in = test_input_make(&packed);
    attn_reference a = compute(&packed.problem, &in), b = compute(&batch, &in);
    check_all_close(&batch, &a, &b, 0);
    attn_reference_free(&a);
    attn_reference_free(&b);
    test_input_free(&in);
}
END_TEST

// A constant added to all scores changes L by it, and nothing else. Multiples of 2^-10 stay exact.
START_TEST(a_constant_bias_only_moves_lse) {
    test_case c = {.problem = attn_problem_of(11, 13, 6), .seed = 7};
    c.problem.heads = c.problem.kv_heads = 2, c.problem.softcap = 3;
    c.problem.bias_batch = c.problem.bias_heads = 1;
    test_input in = test_input_make(&c);
    for (int e = 0; e < 11 * 13; e++) in.bias[e] = 0;
    attn_reference zero = compute(&c.problem, &in);
    for (int e = 0; e < 11 * 13; e++) in.bias[e] = 4;
    attn_reference four = compute(&c.problem, &in);
    for (int e = 0; e < 2 * 11; e++) four.lse[e] -= 4;
    check_all_close(&c.problem, &zero, &four, 1e-13);
    attn_reference_free(&zero);
    attn_reference_free(&four);
    test_input_free(&in);
}
END_TEST

// A mask that says what causal says, a bias that says what ALiBi says, and no feature at all.
START_TEST(one_feature_can_say_another) {
    test_case c = {.problem = attn_problem_of(9, 12, 6), .seed = 8};
    attn_problem causal = c.problem, masked = c.problem;
    causal.causal = ATTN_CAUSAL_BOTTOM_RIGHT, causal.alibi = 1;
    causal.heads = causal.kv_heads = 2;
    masked = causal;
    masked.causal = ATTN_CAUSAL_OFF, masked.alibi = 0;
    masked.mask_batch = masked.mask_heads = masked.bias_batch = 1, masked.bias_heads = 2;
    c.problem = masked;
    test_input in = test_input_make(&c);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 9; i++)
            for (int j = 0; j < 12; j++) { // slopes 2^-4 and 2^-8
                in.mask[i * 12 + j] = j <= i + 3 ? 255 : 0;
                in.bias[(h * 9 + i) * 12 + j] =
                    (float)-abs(i + 3 - j) * (h == 0 ? 0x1p-4f : 0x1p-8f);
            }
    attn_reference a = compute(&causal, &in), b = compute(&masked, &in);
    check_all_close(&causal, &a, &b, 1e-14);
    attn_reference_free(&a);
    attn_reference_free(&b);

    // A huge cap is none, to first order in S^2 / softcap^2.
    attn_problem capped = causal;
    capped.softcap = 1e8f;
    a = compute(&causal, &in), b = compute(&capped, &in);
    check_all_close(&causal, &a, &b, 1e-12);
    attn_reference_free(&a);
    attn_reference_free(&b);
    test_input_free(&in);
}
END_TEST

// Without a mask, keys may be permuted together with their values, and with a bias' columns.
START_TEST(permuted_keys_change_nothing) {
    test_case c = {.problem = attn_problem_of(7, 10, 4), .seed = 9};
    c.problem.bias_batch = c.problem.bias_heads = 1, c.problem.softcap = 1;
    test_input in = test_input_make(&c), turned = test_input_copy(&in, &c.problem);
    for (int j = 0; j < 10; j++) {
        const int to = (3 * j + 1) % 10;
        memcpy(turned.k + 4 * to, in.k + 4 * j, 16);
        memcpy(turned.v + 4 * to, in.v + 4 * j, 16);
        for (int i = 0; i < 7; i++) turned.bias[10 * i + to] = in.bias[10 * i + j];
    }
    attn_reference a = compute(&c.problem, &in), b = compute(&c.problem, &turned);
    check_close(a.o, b.o, 28, 1e-14, "o");
    check_close(a.dq, b.dq, 28, 1e-14, "dq");
    for (int j = 0; j < 10; j++)
        check_close(a.dk + 4 * j, b.dk + 4 * ((3 * j + 1) % 10), 4, 1e-14, "dk");
    attn_reference_free(&a);
    attn_reference_free(&b);
    test_input_free(&in);
    test_input_free(&turned);
}
END_TEST

// NaN and infinity behind a mask of bytes, and in keys of other sequences, reach nobody.
START_TEST(what_is_masked_never_leaks) {
    static const int32_t q[] = {0, 4, 6}, kv[] = {0, 5, 9};
    for (int packed = 0; packed < 2; packed++) {
        test_case c = {.problem = attn_problem_of(6, 9, 4), .seed = 10};
        c.problem.heads = 2, c.problem.kv_heads = 1;
        if (packed)
            c.problem.sequences = 2, c.problem.q_cumulative = q, c.problem.kv_cumulative = kv;
        else
            c.problem.mask_batch = c.problem.mask_heads = 1;
        test_input in = test_input_make(&c);
        // Keys 5 to 8: hidden from everybody, or the second sequence's, whose queries are 4 and 5.
        for (int i = 0; !packed && i < 6; i++)
            for (int j = 0; j < 9; j++) in.mask[9 * i + j] = j < 5;
        attn_reference clean = compute(&c.problem, &in);
        for (int e = 5 * 4; e < 9 * 4; e++)
            in.k[e] = e % 2 ? NAN : INFINITY, in.v[e] = e % 3 ? NAN : -INFINITY;
        attn_reference dirty = compute(&c.problem, &in);
        for (int h = 0; h < 2; h++) {
            const size_t at = 6 * (size_t)h, count = packed ? 4 : 6;
            check_close(clean.o + 4 * at, dirty.o + 4 * at, 4 * count, 0, "o");
            check_close(clean.dq + 4 * at, dirty.dq + 4 * at, 4 * count, 0, "dq");
            check_close(clean.lse + at, dirty.lse + at, count, 0, "lse");
            ck_assert(!packed || isnan(dirty.o[4 * (at + 4)]));
        }
        check_close(clean.dk, dirty.dk, 5 * 4, 0, "dk");
        check_close(clean.dv, dirty.dv, 5 * 4, 0, "dv");
        attn_reference_free(&clean);
        attn_reference_free(&dirty);
        test_input_free(&in);
    }
}
END_TEST

// Dropped weights are 0, the others larger; L does not know of it. With v_j = 2^j and equal scores O
// tells which keys were kept.
START_TEST(dropout_drops_and_scales) {
    attn_problem p = attn_problem_of(40, 20, 1);
    p.dropout = 0.25f, p.dropout_seed = 3;
    float q[40] = {0}, k[20] = {0}, v[20];
    for (int j = 0; j < 20; j++) v[j] = (float)(1 << j);
    const attn_inputs inputs = {.q = q, .k = k, .v = v};
    attn_reference reference;
    ck_assert_int_eq(attn_reference_compute(&p, &inputs, &reference).code, ATTN_OK);
    int kept = 0, different = 0;
    for (int i = 0; i < 40; i++) {
        const double bits = reference.o[i] * 20 * 0.75;
        ck_assert_double_eq_tol(bits, nearbyint(bits), 1e-6);
        kept += __builtin_popcount((unsigned)nearbyint(bits));
        different += i > 0 && fabs(reference.o[i] - reference.o[i - 1]) > 0.01;
        ck_assert_double_eq_tol(reference.lse[i], log(20), 1e-14);
    }
    ck_assert_int_ge(kept, 600 - 5 * 12); // 800 weights; a deviation is sqrt(800 * 3/16) = 12.2
    ck_assert_int_le(kept, 600 + 5 * 12);
    ck_assert_int_ge(different, 38);
    attn_reference_free(&reference);
}
END_TEST

// 2 heads of 700 queries and keys: of a million weights 1 - p are kept, and of another head, seed or offset
// the same one as often as chance has it; each within five deviations.
static int64_t count_kept(attn_dropout drop, uint32_t head, unsigned char *kept) {
    int64_t count = 0;
    for (uint32_t i = 0; i < 700; i++)
        for (uint32_t j = 0; j < 700; j++)
            count += kept[i * 700 + j] = attn_dropout_factor(drop, head, i, j) != 0;
    return count;
}

static void check_chance(int64_t count, double expected, double weights, const char *what) {
    const double deviation = sqrt(weights * expected * (1 - expected));
    ck_assert_msg(fabs((double)count - weights * expected) <= 5 * deviation,
                  "%s: %lld of %.0f, expected %.0f +- %.0f", what, (long long)count, weights,
                  weights * expected, deviation);
}

START_TEST(dropout_is_as_chance_has_it) {
    static const float probabilities[] = {0.01f, 0.1f, 0.5f, 0.9f};
    static unsigned char first[700 * 700], other[700 * 700];
    for (size_t n = 0; n < sizeof probabilities / sizeof *probabilities; n++) {
        attn_problem p = attn_problem_of(700, 700, 1);
        p.dropout = probabilities[n], p.dropout_seed = 5;
        const double keep = 1 - (double)p.dropout, weights = 700 * 700;
        const double agree = keep * keep + (1 - keep) * (1 - keep);
        int64_t kept = count_kept(attn_dropout_of(&p), 0, first);
        for (int change = 0; change < 3; change++) {
            attn_problem changed = p;
            int64_t same = 0;
            if (change == 1) changed.dropout_seed = 6;
            if (change == 2) changed.dropout_offset = 1;
            const int64_t also = count_kept(attn_dropout_of(&changed), change == 0, other);
            if (change == 0) check_chance(kept + also, keep, 2 * weights, "kept");
            for (int e = 0; e < 700 * 700; e++) same += first[e] == other[e];
            check_chance(same, agree, weights,
                         change == 0   ? "the other head"
                         : change == 1 ? "the other seed"
                                       : "the other offset");
        }
        // Side by side, below each other, and by the four that one block serves.
        static const int steps[] = {1, 2, 3, 4, 700};
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            int64_t same = 0;
            for (int e = 0; e + steps[s] < 700 * 700; e++) same += first[e] == first[e + steps[s]];
            check_chance(same, agree, weights - steps[s], "a neighbour");
        }
    }
}
END_TEST

Suite *features_suite(void) {
    Suite *suite = suite_create("features");
    TCase *tests = tcase_create("features");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, plain_does_every_generated_case);
    tcase_add_test(tests, plain_is_as_good_as_naive);
    tcase_add_test(tests, a_write_between_rows_is_found);
    tcase_add_test(tests, packed_is_each_sequence_alone);
    tcase_add_test(tests, packed_is_a_batch);
    tcase_add_test(tests, a_constant_bias_only_moves_lse);
    tcase_add_test(tests, one_feature_can_say_another);
    tcase_add_test(tests, permuted_keys_change_nothing);
    tcase_add_test(tests, what_is_masked_never_leaks);
    tcase_add_test(tests, dropout_drops_and_scales);
    tcase_add_test(tests, dropout_is_as_chance_has_it);
    suite_add_tcase(suite, tests);
    return suite;
}
