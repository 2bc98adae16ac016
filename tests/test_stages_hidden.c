// test_stages_hidden.c -- what bytes of a mask and the ends of packed sequences hide from a query: NaN and
// infinity there change no bit of any result, and in what is seen they show. Rows that are left with nothing.
#include "tests/definition.h"
#include "tests/harness.h"
#include "tests/test_stages.h"

#include <math.h>
#include <string.h>

static const float poisons[] = {NAN, INFINITY, -INFINITY};
enum { POISONS = sizeof poisons / sizeof *poisons };

static int does(const attn_loaded_stage *row, unsigned features) {
    return (row->stage->features & features) == features;
}

// Query row i of head n (of batch * heads) sees key j, by band, sequences and bytes.
static int is_seen(const attn_problem *p, const test_input *in, int64_t n, int64_t i, int64_t j) {
    const int64_t batch = p->mask_batch == 1 ? 0 : n / p->heads;
    const int64_t head = p->mask_heads == 1 ? 0 : n % p->heads;
    if (!packed_query_sees_key(p, i, j)) return 0;
    return !in->mask ||
           in->mask[((batch * p->mask_heads + head) * p->q_len + i) * p->kv_len + j] != 0;
}

static int is_blind(const attn_problem *p, const test_input *in, int64_t n, int64_t i) {
    for (int64_t j = 0; j < p->kv_len; j++)
        if (is_seen(p, in, n, i, j)) return 0;
    return 1;
}

// Key j of key head n, by any query of the heads that share it.
static int is_unseen(const attn_problem *p, const test_input *in, int64_t n, int64_t j) {
    const int64_t group = p->heads / p->kv_heads;
    for (int64_t h = 0; h < group; h++)
        for (int64_t i = 0; i < p->q_len; i++)
            if (is_seen(p, in, n * group + h, i, j)) return 0;
    return 1;
}

static void fill_row(float *matrix, int64_t row, int64_t columns, float value) {
    for (int64_t c = 0; c < columns; c++) matrix[row * columns + c] = value;
}

// `value` into keys that nobody sees, rows that see nothing, and the bias of pairs that don't see each other.
static void fill_hidden(const attn_problem *p, test_input *in, float value) {
    const int64_t d = p->head_dim;
    for (int64_t n = 0; n < p->batch * p->kv_heads; n++)
        for (int64_t j = 0; j < p->kv_len; j++)
            if (is_unseen(p, in, n, j)) {
                fill_row(in->k, n * p->kv_len + j, d, value);
                fill_row(in->v, n * p->kv_len + j, d, value);
            }
    for (int64_t n = 0; n < p->batch * p->heads; n++)
        for (int64_t i = 0; i < p->q_len; i++) {
            if (is_blind(p, in, n, i)) {
                fill_row(in->q, n * p->q_len + i, d, value);
                fill_row(in->d_o, n * p->q_len + i, d, value);
            }
            // Here a bias of each head's own.
            for (int64_t j = 0; in->bias && j < p->kv_len; j++)
                if (!is_seen(p, in, n, i, j)) in->bias[(n * p->q_len + i) * p->kv_len + j] = value;
        }
}

// ---- problems in which much is hidden ------------------------------------------------------------------
// Bytes: some keys from all, some queries from all keys; of one row the first tiles, of another all but one
// key in the middle. Sequences: keys without queries, queries without keys, more queries than keys.
enum { BYTES, PACKED, WAYS };

static test_case hiding_case(const attn_loaded_stage *row, int way, int number) {
    static const int32_t q[] = {0, 0, 20, 24, 57}, kv[] = {0, 9, 75, 75, 88};
    const int slow = is_slow_device(row);
    test_case c = {.problem = attn_problem_of(57, 88, slow ? 12 : 24), .seed = 40};
    attn_problem *p = &c.problem;
    c.seed += (uint64_t)number;
    p->heads = 4, p->kv_heads = does(row, ATTN_HAS_GROUPED_HEADS) ? 2 : 4;
    if (way == PACKED) {
        p->sequences = 4, p->q_cumulative = q, p->kv_cumulative = kv;
    } else {
        p->batch = slow ? 1 : 2;
        p->q_len = 40;
        p->mask_batch = number % 2 ? p->batch : 1, p->mask_heads = number % 2 ? 1 : p->heads;
        if (does(row, ATTN_HAS_BIAS)) p->bias_batch = p->batch, p->bias_heads = p->heads;
        if (does(row, ATTN_HAS_BIAS_GRADIENT)) p->bias_gradient = 1;
    }
    if (does(row, ATTN_HAS_CAUSAL)) p->causal = (attn_causal)(number % 3);
    if (does(row, ATTN_HAS_WINDOW) && number > 2) p->window_left = 30;
    if (does(row, ATTN_HAS_SOFTCAP) && number % 2) p->softcap = 2;
    if (does(row, ATTN_HAS_ALIBI) && number > 1) p->alibi = 1;
    if (does(row, ATTN_HAS_DROPOUT) && number % 4 > 1) p->dropout = 0.4f, p->dropout_seed = 3;
    return c;
}

static void hide(const attn_problem *p, test_input *in) {
    const int64_t planes = p->mask_batch * p->mask_heads, columns = p->kv_len;
    for (int64_t n = 0; in->mask && n < planes; n++)
        for (int64_t i = 0; i < p->q_len; i++) {
            unsigned char *row = in->mask + (n * p->q_len + i) * columns;
            row[0] = row[17] = row[70] = 0;
            if (i % 9 == 4) memset(row, 0, (size_t)columns);
            if (i % 9 == 5) memset(row, 0, (size_t)columns), row[66] = 1;
            if (i % 9 == 6) memset(row, 0, 67);
        }
}

static int ways_of(const attn_loaded_stage *row, int way) {
    return does(row, way == PACKED ? ATTN_HAS_VARIABLE_LENGTHS : ATTN_HAS_MASK);
}

enum { NUMBERS = 6 };
static int numbers(const attn_loaded_stage *row) {
    return is_slow_device(row) ? 2 : test_run.quick ? 3 : NUMBERS;
}

// ---- values --------------------------------------------------------------------------------------------
static void compare_with_zeros(const attn_loaded_stage *row, const test_case *c, test_input *input,
                               test_failures *failures) {
    attn_run zeros, run;
    failures->cases++;
    fill_hidden(&c->problem, input, 0);
    if (!test_run_stage(row, c, input, &zeros, failures)) return;
    for (int x = 0; x < POISONS; x++) {
        fill_hidden(&c->problem, input, poisons[x]);
        if (!test_run_stage(row, c, input, &run, failures)) continue;
        for (int r = 0; r < ATTN_RESULTS; r++) {
            const float *before = test_output(&zeros, (attn_result)r);
            if (before && !same_bits(before, test_output(&run, (attn_result)r),
                                     test_output_elements(&c->problem, (attn_result)r)))
                test_failed(failures, row, c, "%s is not what it is with zeros there (%g)",
                            attn_result_name((attn_result)r), (double)poisons[x]);
        }
        attn_run_free(&run);
    }
    attn_run_free(&zeros);
}

// One value of what some see, against the reference: it knows who may know of it.
static void prove_seen(const attn_loaded_stage *row, const test_case *hiding,
                       test_failures *failures) {
    const attn_problem *p = &hiding->problem;
    for (int tensor = 0; tensor < 5; tensor++) {
        test_case c = *hiding;
        if (tensor == 4 && p->bias_heads == 0) break; // variable lengths have none
        test_input input = test_input_make(&c);
        float *const tensors[] = {input.q, input.k, input.v, input.d_o};
        static const char *const notes[] = {"NaN in q", "NaN in k", "NaN in v", "NaN in do",
                                            "-infinity and NaN in the bias"};
        c.note = notes[tensor];
        hide(p, &input);
        if (tensor == 4) {
            input.bias[3 * p->kv_len + 5] = NAN;
            for (int64_t i = 10; i < 13; i++) input.bias[i * p->kv_len + 20] = -INFINITY;
        } else {
            // Query 12 or key 21 of the second head: a query and a key of the first sequence that has both.
            const int64_t length = tensor == 0 || tensor == 3 ? p->q_len : p->kv_len;
            tensors[tensor][(length + (tensor == 0 || tensor == 3 ? 12 : 21)) * p->head_dim + 1] =
                NAN;
        }
        test_prove(row, &c, &input, NULL, failures);
        test_input_free(&input);
    }
}

void family_hidden_values(const attn_loaded_stage *row, test_failures *failures) {
    for (int way = 0; way < WAYS; way++)
        for (int number = 0; ways_of(row, way) && number < numbers(row); number++) {
            test_case c = hiding_case(row, way, number);
            test_input input = test_input_make(&c);
            hide(&c.problem, &input);
            c.note = "what nobody sees holds NaN or infinity";
            compare_with_zeros(row, &c, &input, failures);
            test_input_free(&input);
            if (!is_slow_device(row) || number == 0) prove_seen(row, &c, failures);
        }
}

// ---- rows --------------------------------------------------------------------------------------------
// Those that see nothing: O and dQ are 0 and L is minus infinity; and no pair that is hidden has a dbias.
static void check_rows(const attn_loaded_stage *row, const test_case *c, const test_input *in,
                       const attn_run *run, test_failures *failures) {
    const attn_problem *p = &c->problem;
    const int64_t d = p->head_dim;
    int blind = 0;
    for (int64_t n = 0; n < p->batch * p->heads; n++)
        for (int64_t i = 0; i < p->q_len; i++) {
            const int64_t at = n * p->q_len + i;
            int right = 1;
            if (is_blind(p, in, n, i)) {
                right = run->out.lse[at] == -INFINITY, blind++;
                for (int64_t e = at * d; e < (at + 1) * d; e++)
                    right &= run->out.o[e] == 0 && (!run->out.dq || run->out.dq[e] == 0);
            }
            for (int64_t j = 0; run->out.dbias && j < p->kv_len; j++)
                right &= is_seen(p, in, n, i, j) || run->out.dbias[at * p->kv_len + j] == 0;
            if (right) continue;
            test_failed(failures, row, c, "head %d, row %d: what sees nothing has a result", (int)n,
                        (int)i);
            return;
        }
    if (blind == 0) test_failed(failures, row, c, "every row sees a key: this tests nothing");
}

void family_blind_rows(const attn_loaded_stage *row, test_failures *failures) {
    for (int way = 0; way < WAYS; way++)
        for (int number = 0; ways_of(row, way) && number < numbers(row); number++) {
            test_case c = hiding_case(row, way, number);
            test_input input = test_input_make(&c);
            attn_run run;
            hide(&c.problem, &input);
            fill_hidden(&c.problem, &input, number % 2 ? NAN : INFINITY);
            c.note = "rows that see nothing";
            test_prove(row, &c, &input, NULL, failures);
            if (test_run_stage(row, &c, &input, &run, failures)) {
                check_rows(row, &c, &input, &run, failures);
                attn_run_free(&run);
            }
            test_input_free(&input);
        }
}
