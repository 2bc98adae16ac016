// test_stages_conduct.c -- what a stage may not do besides computing: touch what is not its own, change
// its inputs, answer differently the second time.
#include "cpu/memory.h"
#include "tests/feature_cases.h"
#include "tests/harness.h"
#include "tests/last_part.h"
#include "tests/stage_rows.h"
#include "tests/test_stages.h"
#include "tests/watched_device.h"

#include <stdio.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

// Lengths and head dimensions around the widths of vectors and tiles.
static const struct {
    int64_t q_len, kv_len, head_dim;
} ragged[] = {{1, 1, 1},    {1, 65, 3},   {31, 33, 15}, {33, 31, 16},  {64, 64, 64},
              {65, 127, 8}, {48, 96, 33}, {97, 17, 65}, {200, 130, 40}};
enum { RAGGED = sizeof ragged / sizeof *ragged };

static test_case ragged_case(const attn_loaded_stage *row, int i) {
    test_case c = small_case(row);
    c.problem.q_len = ragged[i].q_len, c.problem.kv_len = ragged[i].kv_len;
    c.problem.head_dim = ragged[i].head_dim;
    c.seed = (uint64_t)i;
    if (i % 2) c.problem.causal = ATTN_CAUSAL_OFF;
    return c;
}

static void run_guarded(const attn_loaded_stage *row, const test_case *c, int side,
                        test_failures *failures) {
    test_input input = test_input_make(c);
    attn_run run;
    failures->cases++;
    if (test_run_stage(watch_host_memory(row, (guard_side)side), c, &input, &run, failures))
        attn_run_free(&run);
    test_input_free(&input);
}

// An access outside a tensor, or a write to an input, ends this process: Check then says so.
void family_guarded_memory(const attn_loaded_stage *row, test_failures *failures) {
    static test_case featured[MAX_FEATURE_CASES];
    for (int i = 0; i < 2 * RAGGED; i++) {
        const test_case c = ragged_case(row, i / 2);
        run_guarded(row, &c, i % 2, failures);
    }
    const int count = feature_cases_make(row->stage->features, featured);
    for (int i = 0; i < count; i++) run_guarded(row, &featured[i], i % 2, failures);
}

void family_inputs_unchanged(const attn_loaded_stage *row, test_failures *failures) {
    for (int i = 0; i < RAGGED; i++) {
        if (is_slow_device(row) && i % 3) continue;
        const test_case c = ragged_case(row, i);
        test_input input = test_input_make(&c);
        const int before = watched_inputs_changed();
        attn_run run;
        failures->cases++;
        if (test_run_stage(watch_inputs(row), &c, &input, &run, failures)) attn_run_free(&run);
        if (watched_inputs_changed() != before)
            test_failed(failures, row, &c, "q, k, v or do hold something else after the run");
        test_input_free(&input);
    }
}

static void compare_runs(const attn_loaded_stage *row, const test_case *c, const attn_run *a,
                         const attn_run *b, const char *what, test_failures *failures) {
    for (int r = 0; r < ATTN_RESULTS; r++) {
        const float *x = test_output(a, (attn_result)r), *y = test_output(b, (attn_result)r);
        if (x && !same_bits(x, y, test_output_elements(&c->problem, (attn_result)r)))
            test_failed(failures, row, c, "%s differs between %s", attn_result_name((attn_result)r),
                        what);
    }
    if (a->counted && (!attn_traffic_equal(&a->traffic[0], &b->traffic[0]) ||
                       !attn_traffic_equal(&a->traffic[1], &b->traffic[1])))
        test_failed(failures, row, c, "the bytes differ between %s", what);
}

// For threads that have to share a head: one head, and more keys than a tile has.
static test_case single_head_case(const attn_loaded_stage *row) {
    test_case c = small_case(row);
    c.problem.batch = c.problem.heads = c.problem.kv_heads = 1;
    c.problem.kv_len = 200;
    return c;
}

// With all features that the stage has: heads and batches share a bias, and so the sums of its gradient.
static test_case featured_case(const attn_loaded_stage *row) {
    const unsigned does = row->stage->features;
    test_case c = small_case(row);
    attn_problem *p = &c.problem;
    if (does & ATTN_HAS_SOFTCAP) p->softcap = 2;
    if (does & ATTN_HAS_ALIBI) p->alibi = 1;
    if (does & ATTN_HAS_BIAS) p->bias_batch = p->bias_heads = 1;
    if (does & ATTN_HAS_BIAS_GRADIENT) p->bias_gradient = 1;
    if (does & ATTN_HAS_MASK) p->mask_batch = p->batch, p->mask_heads = p->heads;
    if (does & ATTN_HAS_DROPOUT) p->dropout = 0.2f;
    return c;
}

static void repeat(const attn_loaded_stage *row, const test_case *c, int times,
                   test_failures *failures) {
    test_input input = test_input_make(c);
    attn_run first, again;
    failures->cases++;
    if (test_run_stage(row, c, &input, &first, failures)) {
        const int failed_before = failures->failed;
        for (int run = 1; run < times && failures->failed == failed_before; run++) {
            if (!test_run_stage(row, c, &input, &again, failures)) continue;
            compare_runs(row, c, &first, &again, "two runs", failures);
            attn_run_free(&again);
        }
        attn_run_free(&first);
    }
    test_input_free(&input);
}

void family_repeatable(const attn_loaded_stage *row, test_failures *failures) {
    for (int kind = 0; kind < ATTN_INPUT_KINDS; kind++) {
        test_case c = small_case(row);
        c.kind = (attn_input_kind)kind;
        repeat(row, &c, 2, failures);
    }
    const test_case featured = featured_case(row);
    repeat(row, &featured, 2, failures);
    // Which thread gets what differs from run to run, on the host also in time for 200 of them.
    const test_case c = single_head_case(row);
    repeat(row, &c, strcmp(row->module->device->kind, "host") == 0 ? 200 : 2, failures);
}

#ifdef _OPENMP
static void vary_threads(const attn_loaded_stage *row, const test_case *c,
                         test_failures *failures) {
    test_input input = test_input_make(c);
    attn_run alone, run;
    omp_set_num_threads(1);
    failures->cases++;
    if (test_run_stage(row, c, &input, &alone, failures)) {
        for (int threads = 2; threads <= 7; threads += threads < 3 ? 1 : 4) {
            char what[40];
            omp_set_num_threads(threads);
            if (!test_run_stage(row, c, &input, &run, failures)) continue;
            snprintf(what, sizeof what, "1 and %d threads", threads);
            compare_runs(row, c, &alone, &run, what, failures);
            attn_run_free(&run);
        }
        attn_run_free(&alone);
    }
    test_input_free(&input);
}

void family_threads(const attn_loaded_stage *row, test_failures *failures) {
    const test_case many = small_case(row), one = single_head_case(row);
    const test_case featured = featured_case(row);
    vary_threads(row, &many, failures);
    vary_threads(row, &featured, failures);
    vary_threads(row, &one, failures);
}
#else
void family_threads(const attn_loaded_stage *row, test_failures *failures) {
    failures->cases = failures->refused = 1;
    snprintf(failures->why_refused, sizeof failures->why_refused, "%s is built without OpenMP",
             row->stage->name);
}
#endif

// From chapter 2 on nothing of S is stored: what a pass asks for grows no faster than its inputs, and
// for a forward pass on the host not at all.
void family_extra_memory(const attn_loaded_stage *row, test_failures *failures) {
    test_case c = {.problem = attn_problem_of(4096, 4096, 64)};
    attn_problem longer = attn_problem_of(65536, 65536, 64);
    const uint64_t here = attn_extra_bytes(row->stage, &c.problem, ATTN_FORWARD, NULL);
    const uint64_t there = attn_extra_bytes(row->stage, &longer, ATTN_FORWARD, NULL);
    const int host = strcmp(row->module->device->kind, "host") == 0;
    failures->cases++;
    if (row->stage->yardstick) {
        if (here != 2 * 4 * attn_score_elements(&c.problem))
            test_failed(failures, row, &c, "S and P take %llu bytes", (unsigned long long)here);
    } else if (row->module->chapter >= 2 && there > (host ? 1 : 16) * here) {
        test_failed(failures, row, &c, "extra memory is %llu bytes at N=4096, %llu at N=65536",
                    (unsigned long long)here, (unsigned long long)there);
    }
    const uint64_t back = attn_extra_bytes(row->stage, &c.problem, ATTN_BACKWARD, NULL);
    const uint64_t longer_back = attn_extra_bytes(row->stage, &longer, ATTN_BACKWARD, NULL);
    if (!row->stage->yardstick && row->stage->backward && longer_back > 16 * back)
        test_failed(failures, row, &c,
                    "extra memory backward is %llu bytes at N=4096, %llu at N=65536",
                    (unsigned long long)back, (unsigned long long)longer_back);
}

// On the host, where sequences cost nothing but themselves, the closed forms of a packed problem are the
// sums of each sequence's.
static void add_up_sequences(const attn_loaded_stage *row, attn_pass pass,
                             test_failures *failures) {
    static const int32_t q[] = {0, 0, 33, 34, 200}, kv[] = {0, 7, 150, 150, 260};
    test_case c = {.problem = attn_problem_of(200, 260, 40), .note = "packed"};
    c.problem.heads = 4, c.problem.kv_heads = 2, c.problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    c.problem.sequences = 4, c.problem.q_cumulative = q, c.problem.kv_cumulative = kv;
    const attn_traffic all = attn_model_bytes(row->stage, &c.problem, pass);
    const double flops = row->stage->flops(&c.problem, pass);
    attn_traffic sum = {0};
    double sum_flops = 0;
    for (int s = 0; s < 4; s++) {
        const attn_problem alone = attn_problem_of_sequence(&c.problem, s);
        row->stage->bytes(&alone, pass, &sum);
        sum_flops += row->stage->flops(&alone, pass);
    }
    failures->cases++;
    if (flops != sum_flops)
        test_failed(failures, row, &c, "counts %g FLOPs, its sequences %g", flops, sum_flops);
    if (!attn_traffic_equal(&all, &sum))
        test_failed(failures, row, &c, "pass %d: %llu bytes are read, by its sequences %llu", pass,
                    (unsigned long long)attn_traffic_total(&all).read,
                    (unsigned long long)attn_traffic_total(&sum).read);
}

// A product takes 2d FLOPs a pair. Forward has two products; backward four, and one more where P is not
// kept: S again. Two passes may compute two of them twice; idle lanes may add a part.
void family_flops(const attn_loaded_stage *row, test_failures *failures) {
    const test_case c = {.problem = attn_problem_of(4096, 4096, 64)};
    const double product = 2.0 * 64 * (double)attn_score_elements(&c.problem);
    uint64_t kept = 0;
    attn_extra_bytes(row->stage, &c.problem, ATTN_FORWARD, &kept);
    const double forward = row->stage->flops(&c.problem, ATTN_FORWARD) / product;
    failures->cases++;
    if (forward < 2 || forward > 2.1)
        test_failed(failures, row, &c, "forward counts %g products, not 2", forward);
    if (strcmp(row->module->device->kind, "host") == 0 &&
        row->stage->features & ATTN_HAS_VARIABLE_LENGTHS) {
        add_up_sequences(row, ATTN_FORWARD, failures);
        if (row->stage->backward) add_up_sequences(row, ATTN_BACKWARD, failures);
    }
    if (!row->stage->backward) return;
    const double backward = row->stage->flops(&c.problem, ATTN_BACKWARD) / product;
    const double least = kept > 0 ? 4 : 5;
    if (backward < least || backward > (kept > 0 ? 4.1 : 7.1))
        test_failed(failures, row, &c, "backward counts %g products, at least %g run", backward,
                    least);
}

// Index arithmetic in 64 bits, on problems whose tensors have more than 2^32 elements.
void family_large_indices(const attn_loaded_stage *row, test_failures *failures) {
    for (int which = 0; which < LAST_PARTS; which++) {
        const attn_status status = last_part_run(row, which);
        const test_case c = {.problem = attn_problem_of(64, 64, 4), .note = "behind 2^32 elements"};
        failures->cases++;
        if (status.code == ATTN_UNSUPPORTED) {
            failures->refused++;
            snprintf(failures->why_refused, sizeof failures->why_refused, "%s", status.text);
        } else if (status.code != ATTN_OK) {
            test_failed(failures, row, &c, "problem %d of last_part.c: %s", which, status.text);
        }
    }
}

// What a row says it does not do, it refuses in a sentence with its name; what makes no sense, too.
void family_refusals(const attn_loaded_stage *row, test_failures *failures) {
    const int32_t cumulative[] = {0, 16};
    for (unsigned bit = 1; bit <= ATTN_LAST_FEATURE; bit *= 2) {
        test_case c = {.problem = attn_problem_of(16, 16, 8)};
        attn_problem *p = &c.problem;
        p->heads = p->kv_heads = 2;
        if (bit == ATTN_HAS_CAUSAL) p->causal = ATTN_CAUSAL_TOP_LEFT;
        if (bit == ATTN_HAS_WINDOW) p->window_right = 3;
        if (bit == ATTN_HAS_GROUPED_HEADS) p->kv_heads = 1;
        if (bit == ATTN_HAS_STRIDES) p->v_stride = (attn_stride){256, 8, 16};
        if (bit == ATTN_HAS_VARIABLE_LENGTHS)
            p->sequences = 1, p->q_cumulative = p->kv_cumulative = cumulative;
        if (bit == ATTN_HAS_DROPOUT) p->dropout = 0.5f;
        if (bit == ATTN_HAS_TILE_SIZES) p->br = p->bc = 8;
        if (bit == ATTN_HAS_SOFTCAP) p->softcap = 30;
        if (bit == ATTN_HAS_ALIBI) p->alibi = 1;
        if (bit & (ATTN_HAS_BIAS | ATTN_HAS_BIAS_GRADIENT)) p->bias_batch = p->bias_heads = 1;
        if (bit == ATTN_HAS_BIAS_GRADIENT) p->bias_gradient = 1;
        if (bit == ATTN_HAS_MASK) p->mask_batch = p->mask_heads = 1;
        // A forward pass does not mind that a gradient is wanted later.
        const attn_status status =
            attn_stage_supports(row->stage, p,
                                bit == ATTN_HAS_BIAS_GRADIENT ? ATTN_BACKWARD : ATTN_FORWARD);
        const int does = (row->stage->features & bit) != 0;
        failures->cases++;
        if (does) continue; // by its own supports() it may still refuse some of them
        if (status.code != ATTN_UNSUPPORTED || !strstr(status.text, row->stage->name))
            test_failed(failures, row, &c, "%s is not refused by name: '%s'",
                        attn_feature_name(bit), status.text);
    }
    test_case c = {.problem = attn_problem_of(16, 16, 8)};
    test_input input = test_input_make(&c);
    const attn_inputs inputs = test_inputs(&input);
    attn_run run;
    c.problem.head_dim = -8;
    if (attn_run_stage(row, &c.problem, &inputs, 1, &run).code != ATTN_BAD_INPUT)
        test_failed(failures, row, &c, "head_dim -8 is not refused");
    if (run.out.o || run.out.lse) test_failed(failures, row, &c, "a refused run left results");
    test_input_free(&input);
}
