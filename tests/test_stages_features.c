// test_stages_features.c -- laws of chapter 6's features: packed sequences, a bias, strides, dropout.
#include "cpu/dropout.h"
#include "tests/definition.h"
#include "tests/harness.h"
#include "tests/test_stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static int does(const attn_loaded_stage *row, unsigned features) {
    return (row->stage->features & features) == features;
}

// On a GPU the order of atomic additions differs from run to run.
static int is_bit_exact(const attn_loaded_stage *row) {
    const char *kind = row->module->device->kind;
    return strcmp(kind, "gpu") != 0 && strcmp(kind, "count") != 0;
}

static int is_on_host(const attn_loaded_stage *row) {
    return strcmp(row->module->device->kind, "host") == 0;
}

static void compare_bits(const attn_loaded_stage *row, const test_case *c, const attn_run *a,
                         const attn_run *b, const char *law, test_failures *failures) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const float *x = test_output(a, (attn_result)r), *y = test_output(b, (attn_result)r);
        const size_t count = test_output_elements(&c->problem, (attn_result)r);
        if (!x || same_bits(x, y, count)) continue;
        size_t e = 0;
        while (same_bits(x + e, y + e, 1)) e++;
        test_failed(failures, row, c, "%s: %s[%zu] is %.9g and %.9g", law,
                    attn_result_name((attn_result)r), e, x[e], y[e]);
        return;
    }
}

// ---- packed sequences ----------------------------------------------------------------------------------
// Copies `rows` rows from row `first` on, of each of `heads` heads of `length` rows.
static float *cut_rows(const float *tensor, int64_t heads, int64_t length, int64_t first,
                       int64_t rows, int64_t columns) {
    const size_t part = (size_t)(rows * columns);
    float *copy = malloc(sizeof *copy * part * (size_t)heads + 1);
    ck_assert_ptr_nonnull(copy);
    for (int64_t h = 0; h < heads; h++)
        memcpy(copy + (size_t)h * part, tensor + (h * length + first) * columns,
               sizeof *copy * part);
    return copy;
}

static test_input cut_input(const attn_problem *p, const test_input *all, attn_sequence s) {
    const int64_t d = p->head_dim;
    return (test_input){
        .q = cut_rows(all->q, p->heads, p->q_len, s.q_first, s.q_len, d),
        .k = cut_rows(all->k, p->kv_heads, p->kv_len, s.kv_first, s.kv_len, d),
        .v = cut_rows(all->v, p->kv_heads, p->kv_len, s.kv_first, s.kv_len, d),
        .d_o = cut_rows(all->d_o, p->heads, p->q_len, s.q_first, s.q_len, d),
    };
}

static attn_run cut_run(const attn_problem *p, const attn_run *all, attn_sequence s) {
    const int64_t d = p->head_dim;
    attn_run part;
    memset(&part, 0, sizeof part);
    part.out.o = cut_rows(all->out.o, p->heads, p->q_len, s.q_first, s.q_len, d);
    part.out.lse = cut_rows(all->out.lse, p->heads, p->q_len, s.q_first, s.q_len, 1);
    if (!all->out.dq) return part;
    part.out.dq = cut_rows(all->out.dq, p->heads, p->q_len, s.q_first, s.q_len, d);
    part.out.dk = cut_rows(all->out.dk, p->kv_heads, p->kv_len, s.kv_first, s.kv_len, d);
    part.out.dv = cut_rows(all->out.dv, p->kv_heads, p->kv_len, s.kv_first, s.kv_len, d);
    return part;
}

// Each sequence of `packed` against a run of its own: as the only one of a packed problem, bit for bit, and
// without sequences, where a stage may take another way.
static void compare_sequences(const attn_loaded_stage *row, const test_case *packed,
                              test_failures *failures) {
    const attn_problem *p = &packed->problem;
    test_input input = test_input_make(packed);
    attn_run all, one;
    failures->cases++;
    if (!test_run_stage(row, packed, &input, &all, failures)) {
        test_input_free(&input);
        return;
    }
    for (int64_t n = 0; n < 2 * p->sequences; n++) {
        const attn_sequence s = attn_sequence_of(p, n / 2);
        const int32_t q[] = {0, (int32_t)s.q_len}, kv[] = {0, (int32_t)s.kv_len};
        test_case alone = *packed;
        alone.problem.q_len = s.q_len, alone.problem.kv_len = s.kv_len;
        alone.problem.sequences = n % 2 ? 0 : 1;
        alone.problem.q_cumulative = n % 2 ? NULL : q;
        alone.problem.kv_cumulative = n % 2 ? NULL : kv;
        alone.note = n % 2 ? "a sequence alone" : "the only sequence";
        test_input part = cut_input(p, &input, s);
        attn_run wanted = cut_run(p, &all, s);
        if (test_run_stage(row, &alone, &part, &one, failures)) {
            if (is_bit_exact(row) && (n % 2 == 0 || is_on_host(row)))
                compare_bits(row, &alone, &one, &wanted, "it is another among others", failures);
            else
                compare_close(row, &alone, &part, &one, &wanted, "it is another among others",
                              failures);
            attn_run_free(&one);
        }
        attn_run_free(&wanted);
        test_input_free(&part);
    }
    attn_run_free(&all);
    test_input_free(&input);
}

// Sequences without queries, without keys, with more queries than keys and fewer; ends within tiles.
void family_packed_is_each_alone(const attn_loaded_stage *row, test_failures *failures) {
    static const int32_t q[] = {0, 0, 33, 33, 34, 104, 168, 168};
    static const int32_t kv[] = {0, 7, 72, 77, 77, 84, 212, 212};
    static const int32_t few_q[] = {0, 0, 9, 9, 10, 20}, few_kv[] = {0, 3, 9, 12, 12, 33};
    const int few = is_slow_device(row) || (test_run.quick && is_bit_exact(row));
    for (int which = 0; which < 4; which++) {
        test_case c = {.kind = ATTN_INPUT_NORMAL, .seed = 20 + (uint64_t)which};
        attn_problem *p = &c.problem;
        *p = few ? attn_problem_of(20, 33, 20) : attn_problem_of(168, 212, 40);
        p->sequences = few ? 5 : 7;
        p->q_cumulative = few ? few_q : q, p->kv_cumulative = few ? few_kv : kv;
        p->heads = p->kv_heads = 2;
        if (does(row, ATTN_HAS_GROUPED_HEADS) && which != 1) p->kv_heads = 1;
        if (does(row, ATTN_HAS_CAUSAL))
            p->causal = (attn_causal)(which % 3); // off, bottom-right, top-left, off
        if (does(row, ATTN_HAS_WINDOW) && which > 1) p->window_left = 9, p->window_right = 5;
        if (does(row, ATTN_HAS_SOFTCAP) && which % 2) p->softcap = 2;
        if (does(row, ATTN_HAS_ALIBI) && which > 1) p->alibi = 1;
        compare_sequences(row, &c, failures);
    }
}

// ---- a bias --------------------------------------------------------------------------------------------
// The same number added to all scores goes to L, and nowhere else.
void family_constant_bias(const attn_loaded_stage *row, test_failures *failures) {
    for (int causal = 0; causal < 2; causal++) {
        test_case c = small_case(row);
        attn_problem *p = &c.problem;
        p->bias_batch = p->bias_heads = 1;
        if (!causal || !does(row, ATTN_HAS_CAUSAL)) p->causal = ATTN_CAUSAL_OFF;
        if (does(row, ATTN_HAS_BIAS_GRADIENT)) p->bias_gradient = 1;
        if (does(row, ATTN_HAS_SOFTCAP)) p->softcap = 3;
        c.note = "a constant bias";
        test_input zero = test_input_make(&c), four = test_input_copy(&zero, p);
        for (size_t e = 0; e < attn_bias_elements(p); e++) zero.bias[e] = 0, four.bias[e] = 4;
        attn_run a, b;
        failures->cases++;
        if (test_run_stage(row, &c, &zero, &a, failures)) {
            if (test_run_stage(row, &c, &four, &b, failures)) {
                for (size_t i = 0; i < attn_rows(p); i++) b.out.lse[i] -= 4;
                compare_close(row, &c, &four, &a, &b, "4 added to all scores", failures);
                attn_run_free(&b);
            }
            attn_run_free(&a);
        }
        test_input_free(&zero);
        test_input_free(&four);
    }
}

// ---- strides -------------------------------------------------------------------------------------------
// Where the tensors lie changes no bit. gap 0: [B][N][H][d]; else so many elements between rows and heads,
// with which 16-byte loads are aligned or not.
static void set_strides(attn_problem *p, int gap) {
    const int64_t d = p->head_dim, q = p->q_len, kv = p->kv_len;
    if (gap == 0) {
        p->q_stride = p->o_stride = (attn_stride){q * p->heads * d, d, p->heads * d};
        p->k_stride = p->v_stride = (attn_stride){kv * p->kv_heads * d, d, p->kv_heads * d};
        return;
    }
    const int64_t row = d + gap, head = q * row + gap, kv_row = d + 2 * gap, kv_head = kv * kv_row;
    p->q_stride = (attn_stride){p->heads * head + gap, head, row};
    p->k_stride = (attn_stride){p->kv_heads * kv_head, kv_head, kv_row};
    p->v_stride = (attn_stride){kv * p->kv_heads * kv_row, kv_row, p->kv_heads * kv_row};
    p->o_stride = (attn_stride){q * p->heads * row + gap, row, p->heads * row};
}

void family_strided_is_contiguous(const attn_loaded_stage *row, test_failures *failures) {
    static const int gaps[] = {0, 4, 1};
    for (int capped = 0; capped < 2; capped++)
        for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
            test_case c = small_case(row);
            if (capped && does(row, ATTN_HAS_SOFTCAP)) c.problem.softcap = 2;
            test_case strided = c;
            set_strides(&strided.problem, gaps[g]);
            test_input input = test_input_make(&c);
            attn_run a, b;
            failures->cases++;
            if (test_run_stage(row, &strided, &input, &b, failures)) {
                if (test_run_stage(row, &c, &input, &a, failures)) {
                    // Without a feature a kernel that knows no strides may run.
                    if (is_bit_exact(row) && (capped || is_on_host(row)))
                        compare_bits(row, &strided, &a, &b, "contiguous and strided", failures);
                    else
                        compare_close(row, &strided, &input, &a, &b, "contiguous and strided",
                                      failures);
                    attn_run_free(&a);
                }
                attn_run_free(&b);
            }
            test_input_free(&input);
        }
}

// ---- dropout -------------------------------------------------------------------------------------------
// Equal scores, and V with a 1 in another column of each of d keys: O tells which of these keys each query
// kept. dO with a 1 in another column of each of d queries: dV tells which of these kept each key.
static void one_hot(const attn_problem *p, int64_t block, test_input *in) {
    const int64_t d = p->head_dim, first = block * d;
    memset(in->q, 0, 4 * attn_q_elements(p));
    memset(in->d_o, 0, 4 * attn_q_elements(p));
    memset(in->v, 0, 4 * attn_kv_elements(p));
    for (int64_t n = 0; n < p->batch * p->heads; n++)
        for (int64_t i = first; i < first + d && i < p->q_len; i++)
            in->d_o[(n * p->q_len + i) * d + i - first] = 1;
    for (int64_t n = 0; n < p->batch * p->kv_heads; n++)
        for (int64_t j = first; j < first + d && j < p->kv_len; j++)
            in->v[(n * p->kv_len + j) * d + j - first] = 1;
}

// Head `n` of batch * heads, rows and keys as they lie; a sequence's number takes the batch's place.
static int is_kept(const attn_problem *p, int64_t n, int64_t i, int64_t j) {
    int64_t number = n, q_first = 0, kv_first = 0;
    for (int64_t s = 0; s < p->sequences; s++)
        if (i >= p->q_cumulative[s] && i < p->q_cumulative[s + 1]) {
            number = s * p->heads + n;
            q_first = p->q_cumulative[s], kv_first = p->kv_cumulative[s];
        }
    return attn_dropout_factor(attn_dropout_of(p), (uint32_t)number, (uint32_t)(i - q_first),
                               (uint32_t)(j - kv_first)) != 0;
}

typedef struct tally {
    int64_t weights, kept;
} tally;

static void check_block(const attn_loaded_stage *row, const test_case *c, const attn_run *run,
                        int64_t block, tally *count, test_failures *failures) {
    const attn_problem *p = &c->problem;
    const int64_t d = p->head_dim, first = block * d;
    for (int64_t n = 0; n < p->batch * p->heads; n++)
        for (int64_t i = 0; i < p->q_len; i++)
            for (int64_t j = 0; j < p->kv_len; j++) {
                const int seen = packed_query_sees_key(p, i, j);
                const int wanted = seen && is_kept(p, n, i, j);
                if (j >= first && j < first + d) {
                    const int kept = run->out.o[(n * p->q_len + i) * d + j - first] > 0;
                    count->weights += seen, count->kept += kept;
                    if (kept != wanted) {
                        test_failed(failures, row, c, "forward, head %d, query %d, key %d: %s",
                                    (int)n, (int)i, (int)j, kept ? "kept" : "dropped");
                        return;
                    }
                }
                if (run->out.dv && i >= first && i < first + d) {
                    const int kept = run->out.dv[(n * p->kv_len + j) * d + i - first] > 0;
                    if (kept == wanted) continue; // the last that is asked
                    test_failed(failures, row, c, "backward, head %d, query %d, key %d: %s", (int)n,
                                (int)i, (int)j, kept ? "kept" : "dropped");
                    return;
                }
            }
}

// All weights, one by one, and how many of them are kept: within five deviations of what is expected.
static void check_weights(const attn_loaded_stage *row, const test_case *c,
                          test_failures *failures) {
    const attn_problem *p = &c->problem;
    const int64_t most = p->q_len > p->kv_len ? p->q_len : p->kv_len;
    test_input input = test_input_make(c);
    tally count = {0, 0};
    attn_run run;
    failures->cases++;
    for (int64_t block = 0; block * p->head_dim < most; block++) {
        one_hot(p, block, &input);
        if (!test_run_stage(row, c, &input, &run, failures)) break;
        check_block(row, c, &run, block, &count, failures);
        attn_run_free(&run);
    }
    const double expected = (1 - (double)p->dropout) * (double)count.weights;
    const double deviation = sqrt(expected * (double)p->dropout);
    if (count.weights > 0 && fabs((double)count.kept - expected) > 5 * deviation)
        test_failed(failures, row, c, "%lld of %lld weights are kept, expected are %.0f +- %.0f",
                    (long long)count.kept, (long long)count.weights, expected, deviation);
    test_input_free(&input);
}

static test_case dropout_case(const attn_loaded_stage *row, int packed) {
    static const int32_t q[] = {0, 0, 33, 36, 70}, kv[] = {0, 5, 80, 80, 150};
    test_case c = {.problem = attn_problem_of(70, 150, 40), .seed = 30};
    attn_problem *p = &c.problem;
    p->heads = p->kv_heads = 3;
    p->dropout = 0.3f, p->dropout_seed = 0x123456789abcdef, p->dropout_offset = 77;
    if (does(row, ATTN_HAS_CAUSAL)) p->causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    if (packed)
        p->sequences = 4, p->q_cumulative = q, p->kv_cumulative = kv;
    else
        p->batch = 2;
    return c;
}

// Whatever the tiles and threads: the definition is that of the place alone.
static void vary_conduct(const attn_loaded_stage *row, const test_case *c,
                         test_failures *failures) {
    static const int64_t tiles[][2] = {{0, 0}, {16, 16}, {64, 31}, {5, 64}};
    for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
        test_case tiled = *c;
        if (t > 0 && (!does(row, ATTN_HAS_TILE_SIZES) || test_run.quick)) break;
        tiled.problem.br = tiles[t][0], tiled.problem.bc = tiles[t][1];
        check_weights(row, &tiled, failures);
    }
#ifdef _OPENMP
    const int threads = omp_get_max_threads();
    for (int n = 1; n <= 7; n += 6) {
        omp_set_num_threads(n);
        check_weights(row, c, failures);
    }
    omp_set_num_threads(threads);
#endif
}

// Probability 0 is no dropout, whatever the seed; one so small that nothing is dropped comes close.
static void check_no_dropout(const attn_loaded_stage *row, test_failures *failures) {
    test_case none = small_case(row), zero = none, tiny = none;
    zero.problem.dropout_seed = tiny.problem.dropout_seed = 99, zero.problem.dropout_offset = 5;
    tiny.problem.dropout = 0x1p-40f;
    test_input input = test_input_make(&none);
    attn_run a, b, c;
    failures->cases++;
    if (test_run_stage(row, &none, &input, &a, failures)) {
        if (test_run_stage(row, &zero, &input, &b, failures)) {
            if (is_bit_exact(row))
                compare_bits(row, &zero, &a, &b, "dropout 0", failures);
            else
                compare_close(row, &zero, &input, &a, &b, "dropout 0", failures);
            attn_run_free(&b);
        }
        if (test_run_stage(row, &tiny, &input, &c, failures)) {
            compare_close(row, &tiny, &input, &a, &c, "dropout 2^-40", failures);
            attn_run_free(&c);
        }
        attn_run_free(&a);
    }
    test_input_free(&input);
}

static void check_refusals(const attn_loaded_stage *row, test_failures *failures) {
    const float wrong[] = {1, 1.5f, -0.1f, NAN, INFINITY};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        test_case c = small_case(row);
        test_input input = test_input_make(&c);
        const attn_inputs inputs = test_inputs(&input);
        attn_run run;
        c.problem.dropout = wrong[i];
        failures->cases++;
        const attn_status status = attn_run_stage(row, &c.problem, &inputs, 1, &run);
        if (status.code != ATTN_BAD_INPUT || !strstr(status.text, "dropout"))
            test_failed(failures, row, &c, "dropout %g is not refused: '%s'", (double)wrong[i],
                        status.text);
        test_input_free(&input);
    }
}

void family_dropout(const attn_loaded_stage *row, test_failures *failures) {
    if (!does(row, ATTN_HAS_DROPOUT)) {
        failures->cases = failures->refused = 1;
        snprintf(failures->why_refused, sizeof failures->why_refused, "%s does not do dropout",
                 row->stage->name);
        return;
    }
    for (int packed = 0; packed <= does(row, ATTN_HAS_VARIABLE_LENGTHS); packed++) {
        const test_case c = dropout_case(row, packed);
        vary_conduct(row, &c, failures);
    }
    check_no_dropout(row, failures);
    check_refusals(row, failures);
}
