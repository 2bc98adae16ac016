// test_problem.c -- cpu/problem, cpu/mask and the byte counts of cpu/stage: what is refused and in which
// words, and arithmetic against the definition.
#include "cpu/mask.h"
#include "cpu/stage.h"
#include "tests/definition.h"
#include "tests/temporary_folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

Suite *problem_suite(void);

// ---- refusals ------------------------------------------------------------------------------------------
static attn_problem good(void) {
    attn_problem p = attn_problem_of(64, 65, 32);
    p.batch = 2, p.heads = 4, p.kv_heads = 2;
    return p;
}

START_TEST(a_good_problem_is_accepted) {
    attn_problem p = good();
    assert_ok(attn_problem_check(&p));
    p.batch = p.q_len = p.kv_len = 0; // empty has an answer
    assert_ok(attn_problem_check(&p));
    p = good();
    p.scale = 0;
    assert_ok(attn_problem_check(&p));
    p.scale = -3;
    assert_ok(attn_problem_check(&p));
}
END_TEST

// Each field of the problem that can be wrong, a wrong value, and what the sentence must say.
#define REFUSED(field, value, words)                                   \
    do {                                                               \
        attn_problem p = good();                                       \
        p.field = value;                                               \
        assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, words); \
    } while (0)

START_TEST(sizes_out_of_range_are_refused) {
    REFUSED(batch, -1, "batch is -1|from 0 to");
    REFUSED(heads, 0, "heads is 0|from 1 to");
    REFUSED(heads, -4, "heads is -4");
    REFUSED(kv_heads, 0, "kv_heads is 0|from 1 to");
    REFUSED(q_len, -1, "q_len is -1|from 0 to 1073741823");
    REFUSED(kv_len, -7, "kv_len is -7|from 0 to 1073741823");
    REFUSED(head_dim, 0, "head_dim is 0|from 1 to");
    REFUSED(head_dim, INT64_MIN, "head_dim is -9223372036854775808");
    REFUSED(q_len, (int64_t)1 << 30, "q_len is 1073741824");
    REFUSED(kv_len, INT64_MAX, "kv_len is 9223372036854775807");
    REFUSED(window_left, -1, "window_left is -1|from 0");
    REFUSED(window_right, -1, "window_right is -1|from 0");
    REFUSED(br, -1, "br is -1");
    REFUSED(bc, -64, "bc is -64");
    REFUSED(type, (attn_type)9, "type 9|0 is fp32");
    REFUSED(causal, (attn_causal)3, "causal is 3|from 0 to 2");
}
END_TEST

START_TEST(values_that_mean_nothing_are_refused) {
    REFUSED(kv_heads, 3, "heads is 4|kv_heads 3|multiple");
    REFUSED(kv_heads, 8, "heads is 4|kv_heads 8|multiple");
    REFUSED(scale, NAN, "scale is|finite");
    REFUSED(scale, INFINITY, "scale is inf|finite");
    REFUSED(scale, -INFINITY, "scale is -inf|finite");
    REFUSED(dropout, 1, "dropout is 1|below 1");
    REFUSED(dropout, -0.1f, "dropout is -0.1|at least 0");
    REFUSED(dropout, NAN, "dropout is|below 1");
}
END_TEST

START_TEST(products_that_overflow_are_refused) {
    attn_problem p = good();
    p.batch = p.heads = p.kv_heads = 1 << 30, p.q_len = 8, p.kv_len = 1, p.head_dim = 1;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "q would have|1073741824|2^60");
    p.q_len = 1; // exactly 2^60
    assert_ok(attn_problem_check(&p));
    p.kv_len = 2;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "k would have|2^60");
    // A product that wraps around to something small.
    p.q_len = 1 << 29, p.head_dim = 1 << 30, p.kv_len = 0;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "q would have|2^60");
    p.batch = 0; // nothing at all, whatever the others say
    assert_ok(attn_problem_check(&p));
}
END_TEST

START_TEST(cumulative_lengths_are_checked) {
    const int32_t right_q[] = {0, 30, 30, 64}, right_kv[] = {0, 5, 6, 65};
    const int32_t late[] = {1, 30, 30, 64}, falling[] = {0, 30, 29, 64},
                  shorter[] = {0, 30, 30, 63};
    attn_problem p = good();
    p.batch = 1;
    p.sequences = 3, p.q_cumulative = right_q, p.kv_cumulative = right_kv;
    assert_ok(attn_problem_check(&p));
    p.q_cumulative = late;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "q_cumulative[0] is 1|must be 0");
    p.q_cumulative = falling;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "q_cumulative[2] is 29|30");
    p.q_cumulative = shorter;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "q_cumulative ends in 63|64");
    p.q_cumulative = right_q, p.kv_cumulative = NULL;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "kv_cumulative is missing");
    p.sequences = -1;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "sequences is -1");
    p.sequences = 3, p.kv_cumulative = right_kv, p.batch = 2;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "batch is 2|variable lengths|must be 1");
    p.batch = 1, p.bias_batch = p.bias_heads = 1;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "no bias for variable lengths");
}
END_TEST

START_TEST(variants_out_of_range_are_refused) {
    REFUSED(softcap, -1, "softcap is -1|above 0");
    REFUSED(softcap, NAN, "softcap is|finite");
    REFUSED(softcap, INFINITY, "softcap is inf|finite");
    REFUSED(alibi, 2, "alibi is 2|from 0 to 1");
    REFUSED(bias_batch, 1, "bias_batch is 1|bias_heads 0|both 0");
    REFUSED(bias_heads, 3, "bias_batch is 0|bias_heads 3");
    REFUSED(mask_heads, -1, "mask_batch is 0|mask_heads -1");
    REFUSED(bias_gradient, 1, "bias_gradient is 1|no bias");
    attn_problem p = good();
    p.softcap = 30, p.alibi = 1;
    p.bias_batch = 2, p.bias_heads = 1, p.bias_gradient = 1, p.mask_batch = 1, p.mask_heads = 4;
    p.dropout = 0.1f, p.dropout_seed = UINT64_MAX, p.dropout_offset = UINT32_MAX;
    assert_ok(attn_problem_check(&p));
    ck_assert_uint_eq(attn_bias_elements(&p), 2 * 1 * 64 * 65);
    ck_assert_uint_eq(attn_mask_elements(&p), 1 * 4 * 64 * 65);
    p.dropout_offset++;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "dropout_offset is 4294967296|2^32");
    p.dropout_offset = 0, p.bias_heads = p.bias_batch = p.bias_gradient = 0;
    p.mask_heads = p.mask_batch = 0, p.q_len = p.kv_len = 0;
    p.batch = 1 << 30;
    assert_ok(attn_problem_check(&p));
    p.heads = 8;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "dropout|1073741824 x 8");
}
END_TEST

START_TEST(strides_that_overlap_or_overflow_are_refused) {
    attn_problem p = good();                             // q [2][4][64][32], k [2][2][65][32]
    p.q_stride = (attn_stride){64 * 4 * 32, 32, 4 * 32}; // [B][N][H][d]
    p.k_stride = (attn_stride){33 * 65 * 2, 33 * 65, 33};
    assert_ok(attn_problem_check(&p));
    ck_assert_uint_eq(attn_q_extent(&p, p.q_stride), attn_q_elements(&p));
    ck_assert_uint_eq(attn_kv_extent(&p, p.k_stride), 33 * 65 * 4 - 1);
    const attn_layout layout = attn_layout_of(&p);
    ck_assert_int_eq(layout.q.row, 128);
    ck_assert_int_eq(layout.v.batch, 2 * 65 * 32);
    ck_assert_int_eq(layout.o.head, 64 * 32);

    const attn_problem right = p;
    p.q_stride.head = 31;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "q's stride|head is 31|32|overlap");
    p = right, p.q_stride.row = 127;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "q's stride|row is 127|128|overlap");
    p = right, p.k_stride.batch = 33 * 65 * 2 - 2; // the last row's gap may be used, no more
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "k's stride|batch is 4288|4289");
    p.k_stride.batch++;
    assert_ok(attn_problem_check(&p));
    p = right, p.v_stride.row = 32; // head and batch 0
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "v's stride|head is 0");
    p = right, p.o_stride = (attn_stride){-8192, 2048, 32};
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "o's stride|batch is -8192");
    p = right, p.q_stride.batch = INT64_MAX;
    assert_refused(attn_problem_check(&p), ATTN_BAD_INPUT, "q's stride|2^60");
    p.batch = 1; // never taken
    assert_ok(attn_problem_check(&p));
    p.q_len = 0;
    assert_ok(attn_problem_check(&p));
    ck_assert_uint_eq(attn_q_extent(&p, p.q_stride), 0);

    const int32_t lengths[] = {0, 64}, kv_lengths[] = {0, 65};
    p = good(); // packed: [row][head][column]
    p.batch = 1, p.sequences = 1, p.q_cumulative = lengths, p.kv_cumulative = kv_lengths;
    ck_assert_int_eq(attn_layout_of(&p).q.row, 4 * 32);
    ck_assert_int_eq(attn_layout_of(&p).v.head, 32);
}
END_TEST

START_TEST(features_are_what_is_on) {
    attn_problem p = attn_problem_of(8, 8, 8);
    ck_assert_uint_eq(attn_problem_features(&p), 0);
    p.causal = ATTN_CAUSAL_TOP_LEFT, p.window_right = 1, p.heads = 2;
    ck_assert_uint_eq(attn_problem_features(&p),
                      ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW | ATTN_HAS_GROUPED_HEADS);
    p = attn_problem_of(8, 8, 8);
    p.o_stride.head = 5, p.sequences = 1, p.dropout = 0.1f, p.bc = 16;
    ck_assert_uint_eq(attn_problem_features(&p), ATTN_HAS_STRIDES | ATTN_HAS_VARIABLE_LENGTHS |
                                                     ATTN_HAS_DROPOUT | ATTN_HAS_TILE_SIZES);
    p = attn_problem_of(8, 8, 8);
    p.softcap = 1, p.alibi = 1, p.bias_batch = p.bias_heads = p.bias_gradient = 1;
    p.mask_batch = p.mask_heads = 1;
    ck_assert_uint_eq(attn_problem_features(&p), ATTN_HAS_SOFTCAP | ATTN_HAS_ALIBI | ATTN_HAS_BIAS |
                                                     ATTN_HAS_BIAS_GRADIENT | ATTN_HAS_MASK);
    for (unsigned bit = 1; bit <= ATTN_LAST_FEATURE; bit *= 2)
        ck_assert_str_ne(attn_feature_name(bit), attn_feature_name(0));
}
END_TEST

START_TEST(sizes_of_tensors) {
    attn_problem p = good();
    ck_assert_uint_eq(attn_q_elements(&p), 2 * 4 * 64 * 32);
    ck_assert_uint_eq(attn_kv_elements(&p), 2 * 2 * 65 * 32);
    ck_assert_uint_eq(attn_rows(&p), 2 * 4 * 64);
    ck_assert_uint_eq(attn_score_elements(&p), 2 * 4 * 64 * 65);
    p.q_len = p.kv_len = (1 << 30) - 1, p.batch = 8;
    ck_assert_uint_eq(attn_score_elements(&p), UINT64_MAX); // 2^65
    p.kv_len = 0;
    ck_assert_uint_eq(attn_score_elements(&p), 0);
    ck_assert_float_eq(attn_default_scale(64), 0.125f);
    ck_assert_float_eq(attn_default_scale(1), 1);
}
END_TEST

START_TEST(a_description_fits_its_place) {
    attn_problem p = good();
    char text[200], small[12];
    p.causal = ATTN_CAUSAL_TOP_LEFT, p.window_left = 7;
    attn_problem_describe(&p, text, sizeof text);
    ck_assert_str_eq(text, "B=2 H=4 (K and V: 2) q_len=64 kv_len=65 d=32 fp32 causal (top-left) "
                           "window 7");
    p.window_right = 3;
    attn_problem_describe(&p, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, " (top-left) window 7 left window 3 right"));
    p = attn_problem_of(8, 8, 8);
    p.softcap = 30, p.alibi = 1, p.bias_batch = 1, p.bias_heads = 2, p.bias_gradient = 1;
    p.mask_batch = p.mask_heads = 1, p.dropout = 0.5f, p.heads = p.kv_heads = 2;
    p.o_stride.head = 100, p.sequences = 3;
    attn_problem_describe(&p, text, sizeof text);
    ck_assert_str_eq(text, "B=1 H=2 N=8 d=8 fp32 in 3 sequences strided softcap 30 ALiBi bias 1x2 "
                           "with gradient mask 1x1 dropout 0.5");
    p = good(), p.causal = ATTN_CAUSAL_TOP_LEFT, p.window_left = 7;
    memset(small, 'x', sizeof small);
    attn_problem_describe(&p, small, sizeof small - 1);
    ck_assert_str_eq(small, "B=2 H=4 (K"); // ends within its 11 bytes
    ck_assert_int_eq(small[11], 'x');
}
END_TEST

// ---- the band against the definition -------------------------------------------------------------------
static void check_band(const attn_problem *p) {
    const attn_band band = attn_band_of(p);
    uint64_t pairs = 0;
    for (int64_t i = 0; i < p->q_len; i++) {
        const int first = attn_first_key(band, (int)i), end = attn_end_key(band, (int)i);
        ck_assert_msg(first >= 0 && end >= 0 && end <= p->kv_len, "first %d, end %d", first, end);
        for (int64_t j = 0; j < p->kv_len; j++) {
            const int sees = query_sees_key(p, i, j);
            pairs += (uint64_t)sees;
            ck_assert_msg(
                (j >= first && j < end) == sees,
                "q_len %lld kv_len %lld causal %d window %lld, %lld: query %lld, key %lld",
                (long long)p->q_len, (long long)p->kv_len, (int)p->causal,
                (long long)p->window_left, (long long)p->window_right, (long long)i, (long long)j);
        }
    }
    ck_assert_uint_eq(attn_visible_pairs(p), pairs);
}

START_TEST(bands_are_the_definition_for_all_small_sizes) {
    static const int64_t more[] = {INT64_MAX, (int64_t)1 << 30, ((int64_t)1 << 31) + 1};
    for (int64_t q_len = 0; q_len <= 8; q_len++)
        for (int64_t kv_len = 0; kv_len <= 8; kv_len++)
            for (int causal = 0; causal <= ATTN_CAUSAL_TOP_LEFT; causal++)
                for (int64_t left = 0; left < 13; left++)
                    for (int64_t right = 0; right < 13; right++) {
                        attn_problem p = attn_problem_of(q_len, kv_len, 1);
                        p.causal = (attn_causal)causal;
                        p.window_left = left < 10 ? left : more[left - 10];
                        p.window_right = right < 10 ? right : more[right - 10];
                        check_band(&p);
                    }
}
END_TEST

START_TEST(bands_do_not_overflow_at_the_largest_lengths) {
    const int64_t most = ((int64_t)1 << 30) - 1;
    attn_problem p = attn_problem_of(1, most, 1);
    for (int causal = 0; causal <= ATTN_CAUSAL_TOP_LEFT; causal++) {
        p.causal = (attn_causal)causal;
        p.window_left = INT64_MAX, p.window_right = INT64_MAX;
        attn_band band = attn_band_of(&p);
        ck_assert_int_eq(attn_first_key(band, 0), 0);
        ck_assert_int_eq(attn_end_key(band, 0), causal == ATTN_CAUSAL_TOP_LEFT ? 1 : most);
    }
    p = attn_problem_of(most, 1, 1);
    p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    attn_band band = attn_band_of(&p);
    ck_assert_int_eq(attn_end_key(band, 0), 0);
    ck_assert_int_eq(attn_end_key(band, (int)most - 2), 0);
    ck_assert_int_eq(attn_end_key(band, (int)most - 1), 1);
    p.causal = ATTN_CAUSAL_OFF, p.window_left = 1;
    band = attn_band_of(&p);
    ck_assert_int_eq(attn_first_key(band, (int)most - 1), 0);
    ck_assert_int_eq(attn_end_key(band, (int)most - 1), 1);
}
END_TEST

// ---- byte counts ---------------------------------------------------------------------------------------
START_TEST(traffic_adds_up_by_tensor) {
    attn_traffic t = {0};
    attn_traffic_add(&t, "q", 10, 1);
    attn_traffic_add(&t, "s", 5, 5);
    attn_traffic_add(&t, "q", 10, 0);
    ck_assert_int_eq(t.count, 2);
    ck_assert_uint_eq(attn_traffic_of(&t, "q").read, 20);
    ck_assert_uint_eq(attn_traffic_of(&t, "q").written, 1);
    ck_assert_uint_eq(attn_traffic_of(&t, "none").read, 0);
    ck_assert_uint_eq(attn_traffic_total(&t).read, 25);
    ck_assert_uint_eq(attn_traffic_total(&t).written, 6);
}
END_TEST

START_TEST(traffic_is_equal_tensor_by_tensor) {
    attn_traffic a = {0}, b = {0};
    attn_traffic_add(&a, "q", 10, 0);
    attn_traffic_add(&a, "k", 7, 0);
    attn_traffic_add(&b, "k", 7, 0);
    ck_assert(!attn_traffic_equal(&a, &b) && !attn_traffic_equal(&b, &a));
    attn_traffic_add(&b, "q", 10, 0);
    ck_assert(attn_traffic_equal(&a, &b)); // in whatever order
    attn_traffic_add(&b, "s", 0, 0);
    ck_assert(attn_traffic_equal(&a, &b) && attn_traffic_equal(&b, &a)); // zero bytes are none
    attn_traffic_add(&b, "s", 0, 4);
    ck_assert(!attn_traffic_equal(&a, &b) && !attn_traffic_equal(&b, &a));
    // The same total, of other tensors.
    attn_traffic c = {0};
    attn_traffic_add(&c, "q", 7, 0);
    attn_traffic_add(&c, "k", 10, 0);
    ck_assert(!attn_traffic_equal(&a, &c));
}
END_TEST

START_TEST(traffic_of_too_many_tensors_is_not_lost) {
    attn_traffic t = {0};
    char name[16];
    for (int i = 0; i < ATTN_MAX_TENSORS + 5; i++) {
        snprintf(name, sizeof name, "t%d", i);
        attn_traffic_add(&t, name, 1, 2);
    }
    ck_assert_int_eq(t.count, ATTN_MAX_TENSORS);
    ck_assert_uint_eq(attn_traffic_total(&t).read, ATTN_MAX_TENSORS + 5);
    ck_assert_uint_eq(attn_traffic_total(&t).written, 2 * (ATTN_MAX_TENSORS + 5));
}
END_TEST

// ---- status --------------------------------------------------------------------------------------------
START_TEST(statuses_become_exit_statuses) {
    ck_assert_int_eq(attn_exit_status(attn_ok()), 0);
    ck_assert_int_eq(attn_exit_status(attn_error(ATTN_DEVICE, "x")), 1);
    const attn_code refused[] = {ATTN_BAD_INPUT, ATTN_UNSUPPORTED, ATTN_NO_MEMORY, ATTN_IO};
    for (int i = 0; i < 4; i++) ck_assert_int_eq(attn_exit_status(attn_error(refused[i], "x")), 2);
    char longer[2000];
    memset(longer, 'y', sizeof longer);
    longer[sizeof longer - 1] = 0;
    ck_assert_uint_lt(strlen(attn_error(ATTN_IO, "%s", longer).text),
                      sizeof(((attn_status *)0)->text));
}
END_TEST

Suite *problem_suite(void) {
    Suite *suite = suite_create("problem");
    TCase *tests = tcase_create("problem");
    tcase_add_test(tests, a_good_problem_is_accepted);
    tcase_add_test(tests, sizes_out_of_range_are_refused);
    tcase_add_test(tests, values_that_mean_nothing_are_refused);
    tcase_add_test(tests, products_that_overflow_are_refused);
    tcase_add_test(tests, cumulative_lengths_are_checked);
    tcase_add_test(tests, variants_out_of_range_are_refused);
    tcase_add_test(tests, strides_that_overlap_or_overflow_are_refused);
    tcase_add_test(tests, features_are_what_is_on);
    tcase_add_test(tests, sizes_of_tensors);
    tcase_add_test(tests, a_description_fits_its_place);
    tcase_add_test(tests, bands_are_the_definition_for_all_small_sizes);
    tcase_add_test(tests, bands_do_not_overflow_at_the_largest_lengths);
    tcase_add_test(tests, traffic_adds_up_by_tensor);
    tcase_add_test(tests, traffic_is_equal_tensor_by_tensor);
    tcase_add_test(tests, traffic_of_too_many_tensors_is_not_lost);
    tcase_add_test(tests, statuses_become_exit_statuses);
    suite_add_tcase(suite, tests);
    return suite;
}
