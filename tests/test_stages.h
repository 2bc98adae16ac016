// test_stages.h -- the families of cases that every stage goes through on every device; test_stages.c
// lists them. A family is a function that runs its cases on one row and notes what fails.
#ifndef TESTS_TEST_STAGES_H
#define TESTS_TEST_STAGES_H

#include "tests/trial.h"

typedef void test_family(const attn_loaded_stage *row, test_failures *failures);

// The check build watches every access and is some ten times slower; --quick wants an answer soon.
int is_slow_device(const attn_loaded_stage *row);
// A small problem that has everything: ragged lengths, a batch, grouped heads, causal.
test_case small_case(const attn_loaded_stage *row);

// test_stages.c: right results
test_family family_sizes, family_features, family_logits, family_empty, family_tiles, family_golden,
    family_real_input;
// test_stages_values.c: NaN and infinity, seen and unseen
test_family family_unseen_values, family_values_some_see, family_visible_values,
    family_rows_without_keys, family_scores_all_minus_infinity, family_far_scores;
// test_stages_conduct.c: memory, repeatability, bytes
test_family family_guarded_memory, family_inputs_unchanged, family_repeatable, family_threads,
    family_extra_memory, family_flops, family_large_indices, family_refusals;
// test_stages_properties.c: laws that hold between results
test_family family_causal_is_full_on_prefixes, family_wide_window, family_grouped_is_repeated,
    family_permuted_keys;

// test_stages_features.c: laws of chapter 6's features
test_family family_packed_is_each_alone, family_constant_bias, family_strided_is_contiguous,
    family_dropout;
// test_stages_hidden.c: what features hide from whom, NaN and infinity among it
test_family family_hidden_values, family_blind_rows;

// Two runs on problems that are the same in mathematics: each within its allowance of the truth, so within
// twice that of each other. The input is the first one's.
void compare_close(const attn_loaded_stage *row, const test_case *c, const test_input *input,
                   const attn_run *a, const attn_run *b, const char *law, test_failures *failures);

// 1 when the first `count` floats are the same bits, NaN and the sign of zero included.
int same_bits(const float *a, const float *b, size_t count);

#endif
