// test_random.c -- cpu/random and cpu/input: known answers, moments, and the same bits everywhere.
#include "cpu/dropout.h"
#include "cpu/input.h"
#include "cpu/random.h"
#include "tests/temporary_folder.h"

#include <check.h>
#include <math.h>
#if defined(_OPENMP)
#include <omp.h>
#endif

// ---- known answers ------------------------------------------------------------------------------

// Random123's kat_vectors, "philox4x32 10".
START_TEST(philox_gives_the_published_answers) {
    static const struct {
        uint64_t seed, stream, counter;
        uint32_t block[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t block[4];
        attn_philox(known[i].seed, known[i].stream, known[i].counter, block);
        for (int word = 0; word < 4; word++) ck_assert_uint_eq(block[word], known[i].block[word]);
    }
}
END_TEST

static uint64_t fnv1a(const float *values, size_t count) {
    const unsigned char *bytes = (const unsigned char *)values;
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < count * sizeof *values; i++) hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

typedef struct filled {
    float *tensor[4]; // q, k, v, do
    size_t elements[4];
} filled;

static filled fill(attn_input_kind kind, uint64_t seed, const attn_problem *problem) {
    filled f;
    for (int i = 0; i < 4; i++) {
        int of_keys = i == 1 || i == 2;
        f.elements[i] = of_keys ? attn_kv_elements(problem) : attn_q_elements(problem);
        f.tensor[i] = malloc((f.elements[i] + 1) * sizeof(float));
        f.tensor[i][f.elements[i]] = 12345; // a fence: nothing may be written past the end
    }
    attn_input_fill(kind, seed, problem, f.tensor[0], f.tensor[1], f.tensor[2], f.tensor[3]);
    for (int i = 0; i < 4; i++) ck_assert_float_eq(f.tensor[i][f.elements[i]], 12345);
    return f;
}

static void release(filled *f) {
    for (int i = 0; i < 4; i++) free(f->tensor[i]);
}

// What tests/random_answers.py prints: a second implementation, in another language.
START_TEST(inputs_are_those_of_a_second_implementation) {
    static const struct {
        attn_input_kind kind;
        uint64_t hash[4];
    } fills[] = {
        {ATTN_INPUT_NORMAL,
         {0xfa4fecb4d2595c0a, 0x48877297200889e7, 0x97538a3aeb9a6bae, 0x3deebbfee5da36d7}},
        {ATTN_INPUT_OUTLIERS,
         {0x79b5653654ebf1a1, 0x6c226b19334a3982, 0x0e090d6eb45c90c5, 0x3deebbfee5da36d7}},
        {ATTN_INPUT_WIDE,
         {0x5ce63c4aad836dfb, 0x48877297200889e7, 0x97538a3aeb9a6bae, 0x3deebbfee5da36d7}},
        {ATTN_INPUT_EQUAL,
         {0x300708a34a1610e5, 0x6b0042d3d18287c5, 0x97538a3aeb9a6bae, 0x3deebbfee5da36d7}},
        {ATTN_INPUT_RISING,
         {0x53cc9eb0523b1304, 0x270122eecff8861a, 0x97538a3aeb9a6bae, 0x3deebbfee5da36d7}},
    };
    attn_problem problem = attn_problem_of(119, 533, 5);
    problem.batch = 2, problem.heads = 4, problem.kv_heads = 2;
    int kinds = sizeof fills / sizeof fills[0];
    ck_assert_int_eq(kinds, ATTN_INPUT_KINDS);
    for (int threads = 1; threads <= 3; threads++) {
#if defined(_OPENMP)
        omp_set_num_threads(threads);
#endif
        for (int i = 0; i < kinds; i++) {
            filled f = fill(fills[i].kind, 20240711, &problem);
            for (int t = 0; t < 4; t++)
                ck_assert_msg(fnv1a(f.tensor[t], f.elements[t]) == fills[i].hash[t],
                              "%s, tensor %d, %d threads: other numbers",
                              attn_input_name(fills[i].kind), t, threads);
            release(&f);
        }
    }
}
END_TEST

START_TEST(seeds_and_tensors_differ) {
    attn_problem problem = attn_problem_of(64, 64, 8);
    filled a = fill(ATTN_INPUT_NORMAL, 1, &problem), b = fill(ATTN_INPUT_NORMAL, 2, &problem);
    for (int t = 0; t < 4; t++) {
        ck_assert(memcmp(a.tensor[t], b.tensor[t], a.elements[t] * sizeof(float)) != 0);
        for (int u = 0; u < t; u++)
            ck_assert(memcmp(a.tensor[t], a.tensor[u], a.elements[t] * sizeof(float)) != 0);
    }
    release(&a), release(&b);
}
END_TEST

// ---- dropout ------------------------------------------------------------------------------------

static attn_dropout dropout_of(float p, uint64_t seed, uint64_t offset) {
    attn_problem problem = attn_problem_of(1, 1, 1);
    problem.dropout = p, problem.dropout_seed = seed, problem.dropout_offset = offset;
    return attn_dropout_of(&problem);
}

// What tests/random_answers.py prints.
START_TEST(dropout_keeps_what_a_second_implementation_keeps) {
    static const struct {
        float p;
        uint64_t seed;
        uint32_t offset, head, i;
        uint64_t keys; // a bit for each of the first 64 keys that is kept
    } kept[] = {
        {0.5f, 0x1, 0u, 0u, 0, 0xc3423a6fcc0e1ebf},
        {0.1f, 0x1, 0u, 0u, 0, 0xffd7ffffffff5fff},
        {0.5f, 0xffffffffffffffff, 4294967295u, 4294967295u, 1073741823, 0xa2606150aa38c4ac},
        {0.5f, 0x123456789abcdef0, 7u, 5u, 1000, 0xfb6a0ca1e4b50efa},
    };
    for (size_t t = 0; t < sizeof kept / sizeof *kept; t++) {
        const attn_dropout drop = dropout_of(kept[t].p, kept[t].seed, kept[t].offset);
        for (uint32_t j = 0; j < 64; j++) {
            const float factor = attn_dropout_factor(drop, kept[t].head, kept[t].i, j);
            ck_assert_msg((factor != 0) == (int)(kept[t].keys >> j & 1), "row %zu, key %u", t, j);
            if (factor != 0) ck_assert_float_eq(factor, 1 / (1 - kept[t].p));
        }
    }
}
END_TEST

// The threshold is an integer: nothing is dropped at p = 0, and just below 1 nearly everything.
START_TEST(dropout_thresholds_are_exact) {
    const float below_1 = 1 - 0x1p-24f;
    ck_assert_uint_eq(dropout_of(0, 1, 0).threshold, 0);
    ck_assert_float_eq(dropout_of(0, 1, 0).factor, 1);
    ck_assert_uint_eq(dropout_of(0.5f, 1, 0).threshold, 1u << 31);
    ck_assert_uint_eq(dropout_of(0x1p-32f, 1, 0).threshold, 1);
    ck_assert_uint_eq(dropout_of(below_1, 1, 0).threshold, UINT32_MAX - 255);
    ck_assert_float_eq(dropout_of(below_1, 1, 0).factor, 0x1p24f);
}
END_TEST

// Of n weights n (1 - p) are kept, give or take sqrt(n p (1 - p)), of which five are allowed: in all,
// and among those that share a query, a key, a head or an offset.
static void check_kept(double kept, double n, double p, const char *what) {
    ck_assert_msg(fabs(kept - n * (1 - p)) <= 5 * sqrt(n * p * (1 - p)),
                  "%s: %.0f of %.0f are kept with p = %g", what, kept, n, p);
}

START_TEST(dropout_keeps_the_fraction_asked_for) {
    static const float p[] = {0.001f, 0.1f, 0.25f, 0.5f, 0.9f};
    enum { SIDE = 256 };
    for (size_t t = 0; t < sizeof p / sizeof *p; t++) {
        double all = 0, same_twice = 0;
        const attn_dropout drop = dropout_of(p[t], 7, 1), other = dropout_of(p[t], 7, 2);
        for (uint32_t head = 0; head < 4; head++)
            for (uint32_t i = 0; i < SIDE; i++) {
                double row = 0, column = 0;
                for (uint32_t j = 0; j < SIDE; j++) {
                    const int kept = attn_dropout_factor(drop, head, i, j) != 0;
                    row += kept, column += attn_dropout_factor(drop, head, j, i) != 0;
                    same_twice += kept && attn_dropout_factor(other, head, i, j) != 0;
                }
                // 4096 rows and columns: some lie beyond five deviations of a skewed binomial
                if (p[t] >= 0.1f) check_kept(row, SIDE, (double)p[t], "a query's");
                if (p[t] >= 0.1f) check_kept(column, SIDE, (double)p[t], "a key's");
                all += row;
            }
        check_kept(all, 4.0 * SIDE * SIDE, (double)p[t], "all");
        const double both = 1 - (1 - (double)p[t]) * (1 - (double)p[t]);
        check_kept(same_twice, 4.0 * SIDE * SIDE, both, "two offsets'");
    }
}
END_TEST

// ---- distributions ------------------------------------------------------------------------------

enum { DRAWS = 1 << 20 };

START_TEST(the_step_gives_variance_one) {
    double variance_in_steps = 8 * (65536.0 * 65536.0 - 1) / 12;
    ck_assert_float_eq(ATTN_NORMAL_STEP, (float)(1 / sqrt(variance_in_steps)));
    ck_assert_float_eq(attn_normal(3, 4, 5), (float)attn_normal_steps(3, 4, 5) * ATTN_NORMAL_STEP);
}
END_TEST

// Tolerances: at least five standard errors. The tails that random.h gives are Irwin and Hall's.
START_TEST(normals_have_the_moments_and_tails_promised) {
    double sum = 0, square = 0, cube = 0, fourth = 0;
    int above3 = 0, above4 = 0;
    double largest = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = attn_normal(7, 1, i);
        sum += x, square += x * x, cube += x * x * x, fourth += x * x * x * x;
        above3 += fabs(x) > 3, above4 += fabs(x) > 4;
        largest = fmax(largest, fabs(x));
    }
    ck_assert_double_le(fabs(sum / DRAWS), 0.005);
    ck_assert_double_le(fabs(square / DRAWS - 1), 0.007);
    ck_assert_double_le(fabs(cube / DRAWS), 0.02);
    ck_assert_double_le(fabs(fourth / DRAWS - 3 - -0.15), 0.05);
    ck_assert_double_le(fabs((double)above3 / DRAWS - 0.001654), 0.0002);
    ck_assert_int_ge(above4, 1); // 4.4 expected
    ck_assert_int_le(above4, 20);
    ck_assert_double_le(largest, sqrt(24));
}
END_TEST

START_TEST(neighbours_do_not_correlate) {
    double along = 0, across = 0, seeds = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = attn_normal(7, 1, i);
        along += x * (double)attn_normal(7, 1, i + 1);
        across += x * (double)attn_normal(7, 2, i);
        seeds += x * (double)attn_normal(8, 1, i);
    }
    ck_assert_double_le(fabs(along / DRAWS), 0.005);
    ck_assert_double_le(fabs(across / DRAWS), 0.005);
    ck_assert_double_le(fabs(seeds / DRAWS), 0.005);
}
END_TEST

START_TEST(uniforms_are_uniform) {
    double sum = 0;
    int cell[16] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        float x = attn_uniform(7, 1, i);
        ck_assert(x >= 0 && x < 1);
        ck_assert_float_eq(x * 0x1p24f, floorf(x * 0x1p24f));
        sum += (double)x, cell[(int)(x * 16)]++;
    }
    ck_assert_double_le(fabs(sum / DRAWS - 0.5), 0.0015);
    for (int i = 0; i < 16; i++) ck_assert_int_le(abs(cell[i] - DRAWS / 16), 1250);
}
END_TEST

// ---- the kinds ----------------------------------------------------------------------------------

START_TEST(outliers_are_rare_and_large) {
    attn_problem problem = attn_problem_of(4096, 4096, 256);
    filled f = fill(ATTN_INPUT_OUTLIERS, 11, &problem);
    for (int t = 0; t < 4; t++) {
        double square = 0, beyond = 0, n = (double)f.elements[t];
        for (size_t i = 0; i < f.elements[t]; i++) {
            double x = f.tensor[t][i];
            square += x * x, beyond += fabs(x) > 5; // attn_normal alone stays below 4.9
        }
        // Variance 1 + 100/1000; |N(0, 101)| > 5 in 0.62 of the outliers. do is N(0,1).
        ck_assert_double_le(fabs(square / n - (t == 3 ? 1 : 1.1)), 0.03);
        ck_assert_double_le(fabs(beyond / n - (t == 3 ? 0 : 0.00062)), 0.00015);
    }
    release(&f);
}
END_TEST

// The largest score of query i over the keys [first, end), or the largest |score|, one head.
static double largest_score(const filled *f, const attn_problem *p, int64_t i, int64_t first,
                            int64_t end, int absolute) {
    double largest = -INFINITY;
    for (int64_t j = first; j < end; j++) {
        double score = 0;
        for (int64_t x = 0; x < p->head_dim; x++)
            score += (double)f->tensor[0][i * p->head_dim + x] * f->tensor[1][j * p->head_dim + x];
        score *= p->scale;
        largest = fmax(largest, absolute ? fabs(score) : score);
    }
    return largest;
}

START_TEST(wide_spreads_over_orders_of_magnitude) {
    attn_problem problem = attn_problem_of(170, 512, 64);
    filled f = fill(ATTN_INPUT_WIDE, 11, &problem);
    double least = INFINITY, most = 0;
    for (int64_t i = 0; i < problem.q_len; i++) {
        double score = largest_score(&f, &problem, i, 0, problem.kv_len, 1);
        least = fmin(least, score), most = fmax(most, score);
    }
    ck_assert_double_ge(most, 700);
    ck_assert_double_le(most, 2000);
    ck_assert_double_le(least, 0.05);
    release(&f);
}
END_TEST

START_TEST(equal_scores_are_equal) {
    attn_problem problem = attn_problem_of(7, 70, 33);
    filled f = fill(ATTN_INPUT_EQUAL, 11, &problem);
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < f.elements[t]; i++) ck_assert_float_eq(f.tensor[t][i], 1);
    ck_assert_float_ne(f.tensor[2][0], f.tensor[2][1]);
    release(&f);
}
END_TEST

// Tiles of 64 keys: every one beats all before it, and the first would underflow beside the last.
START_TEST(rising_keeps_rising) {
    attn_problem problem = attn_problem_of(40, 512, 64);
    filled f = fill(ATTN_INPUT_RISING, 11, &problem);
    for (int64_t i = 0; i < problem.q_len; i++) {
        double before = -INFINITY, first_tile = largest_score(&f, &problem, i, 0, 64, 0);
        for (int64_t j = 0; j < problem.kv_len; j += 64) {
            double now = largest_score(&f, &problem, i, j, j + 64, 0);
            ck_assert_double_gt(now, before);
            before = now;
        }
        ck_assert_double_gt(before - first_tile, 150); // expf underflows to 0 below -104
    }
    release(&f);
}
END_TEST

START_TEST(empty_problems_and_missing_tensors_are_fine) {
    attn_problem problem = attn_problem_of(0, 0, 4);
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++) {
        filled f = fill((attn_input_kind)kind, 1, &problem);
        release(&f);
        attn_input_fill((attn_input_kind)kind, 1, &problem, NULL, NULL, NULL, NULL);
    }
    attn_problem one = attn_problem_of(3, 3, 4);
    float v[12] = {0};
    attn_input_fill(ATTN_INPUT_NORMAL, 1, &one, NULL, NULL, v, NULL);
    ck_assert_float_eq(v[5], attn_normal(1, 2, 5));
}
END_TEST

START_TEST(kinds_have_names) {
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++) {
        attn_input_kind parsed = ATTN_INPUT_KINDS;
        assert_ok(attn_input_parse(attn_input_name((attn_input_kind)kind), &parsed));
        ck_assert_int_eq((int)parsed, kind);
    }
    ck_assert_str_eq(attn_input_name(ATTN_INPUT_KINDS), "?");
    ck_assert_str_eq(attn_input_name((attn_input_kind)-1), "?");
    attn_input_kind untouched = ATTN_INPUT_WIDE;
    assert_refused(attn_input_parse("gaussian", &untouched), ATTN_BAD_INPUT,
                   "'gaussian'|normal, outliers, wide, equal, rising");
    assert_refused(attn_input_parse("", &untouched), ATTN_BAD_INPUT, "''|normal");
    ck_assert_int_eq(untouched, ATTN_INPUT_WIDE);
}
END_TEST

Suite *random_suite(void);
Suite *random_suite(void) {
    Suite *suite = suite_create("random");
    TCase *tests = tcase_create("random");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, philox_gives_the_published_answers);
    tcase_add_test(tests, inputs_are_those_of_a_second_implementation);
    tcase_add_test(tests, seeds_and_tensors_differ);
    tcase_add_test(tests, dropout_keeps_what_a_second_implementation_keeps);
    tcase_add_test(tests, dropout_thresholds_are_exact);
    tcase_add_test(tests, dropout_keeps_the_fraction_asked_for);
    tcase_add_test(tests, the_step_gives_variance_one);
    tcase_add_test(tests, normals_have_the_moments_and_tails_promised);
    tcase_add_test(tests, neighbours_do_not_correlate);
    tcase_add_test(tests, uniforms_are_uniform);
    tcase_add_test(tests, outliers_are_rare_and_large);
    tcase_add_test(tests, wide_spreads_over_orders_of_magnitude);
    tcase_add_test(tests, equal_scores_are_equal);
    tcase_add_test(tests, rising_keeps_rising);
    tcase_add_test(tests, empty_problems_and_missing_tensors_are_fine);
    tcase_add_test(tests, kinds_have_names);
    suite_add_tcase(suite, tests);
    return suite;
}
