// test_case.c -- cpu/case: golden folders, a reader's own, what is refused, results saved whole.
#include "cpu/case.h"
#include "cpu/npy.h"
#include "tests/temporary_folder.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

static temporary_folder folder;
static void make_folder(void) {
    folder = make_temporary_folder();
}
static void remove_folder(void) {
    remove_temporary_folder(&folder);
}

// Writes folder/name with that shape; element i is i + `first`.
static void put(const char *name, int dims, const int64_t *shape, float first) {
    size_t elements = 1;
    for (int i = 0; i < dims; i++) elements *= (size_t)shape[i];
    float *data = malloc((elements + 1) * sizeof *data);
    for (size_t i = 0; i < elements; i++) data[i] = first + (float)i;
    assert_ok(attn_npy_write(in_folder(&folder, name), dims, shape, data));
    free(data);
}
#define PUT(name, first, ...) \
    put(name, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__}, first)

static void put_text(const char *text) {
    write_text(in_folder(&folder, "case.txt"), text);
}

#define SIZES "batch 2\nheads 4\nkv_heads 2\nq_len 3\nkv_len 5\nhead_dim 6\n"

static void put_tensors(void) { // of SIZES
    PUT("q.npy", 1000, 2, 4, 3, 6);
    PUT("k.npy", 2000, 2, 2, 5, 6);
    PUT("v.npy", 3000, 2, 2, 5, 6);
}

static attn_status load(attn_case *c) {
    memset(c, 0x55, sizeof *c); // what was in it must not matter
    attn_status status = attn_case_load(folder.path, c);
    static const attn_case empty;
    if (status.code != ATTN_OK) ck_assert(memcmp(c, &empty, sizeof empty) == 0);
    return status;
}

static void assert_load_refused(attn_code code, const char *words) {
    attn_case c;
    assert_refused(load(&c), code, words);
}

// ---- the cases we have --------------------------------------------------------------------------

START_TEST(every_golden_case_loads) {
    static const struct {
        const char *folder;
        int64_t batch, heads, kv_heads, q_len, kv_len, head_dim;
        attn_causal causal;
        int64_t window_left;
    } golden[] = {
        {"tests/golden/causal", 1, 1, 1, 96, 96, 64, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/causal-long-q", 1, 1, 1, 80, 17, 64, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/causal-short-q", 1, 1, 1, 17, 80, 64, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/causal-tiles", 1, 1, 1, 200, 230, 36, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/cross", 1, 1, 1, 33, 130, 64, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/d128", 1, 1, 1, 100, 100, 128, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/d40", 1, 1, 1, 50, 50, 40, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/dense", 1, 2, 2, 64, 64, 64, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/gqa", 1, 8, 2, 65, 65, 64, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/mqa-causal", 1, 4, 1, 70, 70, 64, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/one", 1, 2, 2, 1, 1, 32, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/outlier", 1, 1, 1, 200, 200, 64, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/peaky", 1, 1, 1, 130, 130, 64, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/ragged", 2, 3, 3, 77, 77, 64, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/scale", 1, 1, 1, 64, 64, 64, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/window", 1, 1, 1, 150, 150, 64, ATTN_CAUSAL_BOTTOM_RIGHT, 16},
        {"tests/golden/alibi", 1, 8, 2, 19, 70, 16, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/all", 2, 4, 2, 21, 38, 20, ATTN_CAUSAL_TOP_LEFT, 25},
        {"tests/golden/bias", 2, 2, 2, 18, 37, 16, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/bias-each", 2, 2, 1, 18, 37, 16, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/dropout", 2, 2, 1, 18, 70, 16, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/lengths", 1, 2, 2, 60, 70, 16, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/lengths-causal", 1, 4, 2, 60, 70, 16, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/lengths-dropout", 1, 2, 1, 60, 70, 16, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/lengths-window-alibi", 1, 2, 1, 60, 70, 16, ATTN_CAUSAL_OFF, 9},
        {"tests/golden/mask", 2, 2, 1, 20, 37, 16, ATTN_CAUSAL_OFF, 0},
        {"tests/golden/softcap", 1, 2, 1, 33, 70, 32, ATTN_CAUSAL_BOTTOM_RIGHT, 0},
        {"tests/golden/top-left", 1, 2, 2, 21, 38, 24, ATTN_CAUSAL_TOP_LEFT, 0},
        {"tests/golden/window-both", 1, 2, 1, 70, 45, 24, ATTN_CAUSAL_OFF, 12},
    };
    int cases = sizeof golden / sizeof golden[0];
    unsigned features = 0;
    ck_assert_int_eq(cases, count_entries("tests/golden") - 2); // README.md and features.py
    for (int i = 0; i < cases; i++) {
        attn_case c;
        assert_ok(attn_case_load(golden[i].folder, &c));
        const attn_problem *p = &c.problem;
        ck_assert_int_eq(p->batch, golden[i].batch);
        ck_assert_int_eq(p->heads, golden[i].heads);
        ck_assert_int_eq(p->kv_heads, golden[i].kv_heads);
        ck_assert_int_eq(p->q_len, golden[i].q_len);
        ck_assert_int_eq(p->kv_len, golden[i].kv_len);
        ck_assert_int_eq(p->head_dim, golden[i].head_dim);
        ck_assert_int_eq((int)p->causal, (int)golden[i].causal);
        ck_assert_int_eq(p->window_left, golden[i].window_left);
        ck_assert(isfinite(p->scale));
        features |= attn_problem_features(p);
        ck_assert(c.q && c.k && c.v && c.o && c.lse && c.d_o && c.dq && c.dk && c.dv);
        attn_case_free(&c);
        ck_assert_ptr_null(c.q);
    }
    // Where the tensors lie, and tiles, are a stage's business.
    const unsigned all = 2 * ATTN_LAST_FEATURE - 1;
    ck_assert_uint_eq(features, all & ~(unsigned)(ATTN_HAS_STRIDES | ATTN_HAS_TILE_SIZES));
}
END_TEST

START_TEST(real_input_loads) {
    attn_case c;
    assert_ok(attn_case_load("tests/real-input", &c));
    ck_assert_int_eq(c.problem.heads, 12);
    ck_assert_int_eq(c.problem.head_dim, 32);
    ck_assert_int_eq(c.problem.q_len, c.problem.kv_len);
    ck_assert_float_eq(c.problem.scale, attn_default_scale(32));
    ck_assert(c.q && c.k && c.v && c.o && c.lse);
    ck_assert_ptr_null(c.d_o);
    attn_case_free(&c);
}
END_TEST

// ---- case.txt -----------------------------------------------------------------------------------

START_TEST(all_that_case_txt_may_say_is_read) {
    put_tensors();
    put_text("# a comment\n\n  scale\t-0.5 \r\nwindow_right 7\nwindow 16\ncausal 1\n" SIZES);
    attn_case c;
    assert_ok(load(&c));
    ck_assert_float_eq(c.problem.scale, -0.5f);
    ck_assert_int_eq(c.problem.window_left, 16);
    ck_assert_int_eq(c.problem.window_right, 7);
    ck_assert_int_eq((int)c.problem.causal, ATTN_CAUSAL_BOTTOM_RIGHT);
    ck_assert_int_eq(c.problem.batch, 2);
    ck_assert_int_eq(c.problem.heads, 4);
    ck_assert_int_eq(c.problem.kv_heads, 2);
    ck_assert_int_eq(c.problem.q_len, 3);
    ck_assert_int_eq(c.problem.kv_len, 5);
    ck_assert_int_eq(c.problem.head_dim, 6);
    ck_assert_float_eq(c.q[0], 1000);
    ck_assert_float_eq(c.k[1], 2001);
    ck_assert_float_eq(c.v[2 * 2 * 5 * 6 - 1], 3119);
    ck_assert(!c.o && !c.lse && !c.d_o && !c.dq && !c.dk && !c.dv);
    attn_case_free(&c);

    put_text(SIZES "causal 0\nwindow 0"); // no newline at the end, no scale
    assert_ok(load(&c));
    ck_assert_float_eq(c.problem.scale, attn_default_scale(6));
    ck_assert_int_eq((int)c.problem.causal, ATTN_CAUSAL_OFF);
    attn_case_free(&c);
}
END_TEST

START_TEST(a_case_has_the_features_of_its_text_and_files) {
    put_tensors();
    put_text(SIZES "causal 0\nwindow 0\nsoftcap 2.5\nalibi 1\ndropout 0.25\ndropout_seed 9\n"
                   "dropout_offset 8\nbias_gradient 1\n");
    PUT("bias.npy", 1, 4, 3, 5); // one for the batch's members
    PUT("mask.npy", 0, 2, 1, 3, 5);
    PUT("dbias.npy", 5, 1, 4, 3, 5);
    attn_case c;
    assert_ok(load(&c));
    ck_assert_float_eq(c.problem.softcap, 2.5f);
    ck_assert_int_eq(c.problem.alibi, 1);
    ck_assert_float_eq(c.problem.dropout, 0.25f);
    ck_assert_uint_eq(c.problem.dropout_seed, 9);
    ck_assert_uint_eq(c.problem.dropout_offset, 8);
    ck_assert_int_eq(c.problem.bias_batch, 1);
    ck_assert_int_eq(c.problem.bias_heads, 4);
    ck_assert_int_eq(c.problem.mask_batch, 2);
    ck_assert_int_eq(c.problem.mask_heads, 1);
    ck_assert_float_eq(c.bias[4 * 3 * 5 - 1], 60);
    ck_assert_float_eq(c.dbias[0], 5);
    ck_assert(c.mask[0] == 0 && c.mask[1] == 1 && c.mask[2 * 3 * 5 - 1] == 1);

    // Results are written as they are read.
    const char *out = in_folder(&folder, "out");
    assert_ok(attn_case_save_output(out, &c.problem, NULL, NULL, NULL, NULL, NULL, c.bias));
    attn_array dbias;
    assert_ok(attn_npy_read(in_folder(&folder, "out/dbias.npy"), &dbias));
    ck_assert_int_eq(dbias.shape[1], 4);
    ck_assert_float_eq(dbias.data[59], 60);
    attn_array_free(&dbias);
    attn_case_free(&c);

    PUT("bias.npy", 1, 3, 3, 5);
    assert_load_refused(ATTN_BAD_INPUT, "bias_batch is 1|bias_heads 3");
    PUT("bias.npy", 1, 4, 3, 6);
    assert_load_refused(ATTN_BAD_INPUT, "bias.npy|6|[bias_batch][bias_heads][q_len][kv_len]");
}
END_TEST

#define PACKED "batch 1\nheads 4\nkv_heads 2\nq_len 3\nkv_len 5\nhead_dim 6\ncausal 1\nwindow 0\n"

START_TEST(a_case_has_sequences_and_an_alignment) {
    attn_case c;
    PUT("q.npy", 0, 4, 3, 6);
    PUT("k.npy", 0, 2, 5, 6);
    PUT("v.npy", 0, 2, 5, 6);
    put_text("q_cumulative 0 0\t2 3\n" PACKED "kv_cumulative 0 4 4 5\ntop_left 1\n");
    assert_ok(load(&c));
    ck_assert_int_eq((int)c.problem.causal, ATTN_CAUSAL_TOP_LEFT);
    ck_assert_int_eq(c.problem.sequences, 3);
    ck_assert_int_eq(c.problem.q_cumulative[2], 2);
    ck_assert_int_eq(c.problem.kv_cumulative[1], 4);
    ck_assert_int_eq(c.problem.kv_cumulative[3], 5);
    attn_case_free(&c);
    put_text(PACKED "top_left 0\n");
    assert_ok(load(&c));
    ck_assert_int_eq((int)c.problem.causal, ATTN_CAUSAL_BOTTOM_RIGHT);
    ck_assert_int_eq(c.problem.sequences, 0);
    attn_case_free(&c);

    static const char *const mistakes[][2] = {
        {PACKED "q_cumulative 0 3\n", "q_cumulative has 2 values and kv_cumulative 0"},
        {PACKED "q_cumulative 0 3\nkv_cumulative 0 2 5\n", "one more than there are sequences"},
        {PACKED "q_cumulative 0\nkv_cumulative 0\n", "one more than there are sequences"},
        {PACKED "q_cumulative\n",
         "case.txt:9|'q_cumulative' must be followed by one value at least"},
        {PACKED "q_cumulative 0 3x\n", "case.txt:9|q_cumulative has '3x'|integers"},
        {PACKED "q_cumulative 0 -3\n", "case.txt:9|q_cumulative has '-3'|from 0"},
        {PACKED "q_cumulative 0 3\nq_cumulative 0 3\n", "case.txt:10|given already"},
        // What the problem's own check says:
        {PACKED "q_cumulative 0 2\nkv_cumulative 0 5\n", "q_cumulative|2|3"},
        {PACKED "q_cumulative 0 4 3\nkv_cumulative 0 1 5\n",
         "q_cumulative|less than the one before"},
        {"top_left 1\ncausal 0\nwindow 0\n" SIZES, "case.txt:1|top_left|causal 1"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        put_text(mistakes[i][0]);
        assert_load_refused(ATTN_BAD_INPUT, mistakes[i][1]);
    }
    char many[4000] = "q_cumulative"; // one more than there may be
    for (int i = 0; i < 258; i++) strcat(many, " 0");
    put_text(many);
    assert_load_refused(ATTN_BAD_INPUT, "up to 257 integers");
}
END_TEST

START_TEST(mistakes_in_case_txt_are_named_with_their_line) {
    put_tensors();
    static const struct {
        const char *text, *words;
    } mistakes[] = {
        {"", "case.txt|batch is missing|batch <integer>"},
        {SIZES "causal 0\n", "case.txt|window is missing"},
        {SIZES "window 0\n", "case.txt|causal is missing"},
        {"batch 2\nheads 4\nkv_heads 2\nkv_len 5\nhead_dim 6\ncausal 0\nwindow 0\n",
         "q_len is missing"},
        {SIZES "causal 0\nwindow 0\ncolour 3\n", "case.txt:9|'colour' is unknown|window_right"},
        {SIZES "causal 0\nwindow 0\nbatch 2\n", "case.txt:9|batch was given already|line 1"},
        {SIZES "causal 2\nwindow 0\n", "case.txt:7|causal is 2|0 or 1"},
        {SIZES "causal yes\nwindow 0\n", "case.txt:7|causal is 'yes'|integer"},
        {SIZES "causal 0\nwindow -1\n", "case.txt:8|window is '-1'|from 0"},
        {"batch 2.5\n", "case.txt:1|batch is '2.5'|integer"},
        {"\n# x\nbatch 0x10\n", "case.txt:3|batch is '0x10'|integer"},
        {"batch 99999999999999999999\n", "case.txt:1|'99999999999999999999'|2^63-1"},
        {"batch\n", "case.txt:1|'batch' must be followed by one value"},
        {"batch 1 2\n", "case.txt:1|'batch' must be followed by one value"},
        {"scale fast\n", "case.txt:1|scale is 'fast'|finite number"},
        {"scale nan\n", "case.txt:1|scale is 'nan'|finite number"},
        {"scale -inf\n", "case.txt:1|scale is '-inf'|finite number"},
        {"scale 1e99\n", "case.txt:1|scale is '1e99'|finite number"},
        {"scale 1,5\n", "case.txt:1|scale is '1,5'|finite number"},
        // What the problem's own check says, with the folder in front:
        {"batch 2\nheads 4\nkv_heads 3\nq_len 3\nkv_len 5\nhead_dim 6\ncausal 0\nwindow 0\n",
         "heads|kv_heads|4|3"},
        {"batch 2\nheads 4\nkv_heads 2\nq_len 3\nkv_len 5\nhead_dim 0\ncausal 0\nwindow 0\n",
         "head_dim is 0"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        put_text(mistakes[i].text);
        assert_load_refused(ATTN_BAD_INPUT, folder.path);
        assert_load_refused(ATTN_BAD_INPUT, mistakes[i].words);
    }

    char long_line[5000];
    memset(long_line, ' ', sizeof long_line);
    memcpy(long_line + sizeof long_line - 9, "batch 2\n", 9);
    put_text(long_line);
    assert_load_refused(ATTN_BAD_INPUT, "case.txt:1|longer than 4094 characters");
    write_bytes(in_folder(&folder, "case.txt"), "batch 2\0\nheads 4\n", 17);
    assert_load_refused(ATTN_BAD_INPUT, "case.txt:1|zero byte");

    unlink(in_folder(&folder, "case.txt"));
    ck_assert_int_eq(mkdir(in_folder(&folder, "case.txt"), 0777), 0);
    assert_load_refused(ATTN_IO, "case.txt|cannot read");
}
END_TEST

// ---- tensors ------------------------------------------------------------------------------------

START_TEST(expected_results_and_gradients_are_loaded) {
    put_tensors();
    put_text(SIZES "causal 0\nwindow 0\n");
    PUT("o.npy", 1, 2, 4, 3, 6);
    PUT("lse.npy", 2, 2, 4, 3);
    PUT("do.npy", 3, 2, 4, 3, 6);
    PUT("dq.npy", 4, 2, 4, 3, 6);
    PUT("dk.npy", 5, 2, 2, 5, 6);
    PUT("dv.npy", 6, 2, 2, 5, 6);
    attn_case c;
    assert_ok(load(&c));
    float *const tensor[] = {c.o, c.lse, c.d_o, c.dq, c.dk, c.dv};
    for (int i = 0; i < 6; i++) ck_assert_float_eq(tensor[i][0], (float)(i + 1));
    attn_case_free(&c);
}
END_TEST

START_TEST(shapes_that_disagree_are_named) {
    put_tensors();
    put_text(SIZES "causal 0\nwindow 0\n");
    static const struct {
        const char *name;
        int64_t shape[4];
        int dims;
        const char *words;
    } wrong[] = {
        {"q.npy",
         {2, 4, 3, 7},
         4,
         "q.npy|[2][4][3][7]|[2][4][3][6]|[batch][heads][q_len][head_dim]"},
        {"q.npy", {4, 3, 6}, 3, "q.npy|[4][3][6]|[2][4][3][6]"},
        {"k.npy", {2, 4, 5, 6}, 4, "k.npy|[2][4][5][6]|[2][2][5][6]|[batch][kv_heads][kv_len]"},
        {"v.npy", {2, 2, 6, 5}, 4, "v.npy|[2][2][6][5]|[2][2][5][6]"},
        {"lse.npy", {2, 4, 3, 1}, 4, "lse.npy|[2][4][3][1]|[2][4][3] =|[batch][heads][q_len]"},
        {"lse.npy", {7, 2, 4, 3}, 4, "lse.npy|[7][2][4][3]|[2][4][3] ="},
        {"lse.npy", {24}, 1, "lse.npy|[24]|[2][4][3]"},
        {"o.npy", {2, 4, 3}, 3, "o.npy|[2][4][3]|[2][4][3][6]"},
        {"o.npy", {0}, 0, "o.npy|[]|[2][4][3][6]"},
        {"do.npy", {2, 2, 5, 6}, 4, "do.npy|[2][2][5][6]|[2][4][3][6]"},
        {"dq.npy", {2, 2, 5, 6}, 4, "dq.npy|[2][2][5][6]|[2][4][3][6]"},
        {"dk.npy", {2, 4, 3, 6}, 4, "dk.npy|[2][4][3][6]|[2][2][5][6]"},
        {"dv.npy", {2, 4, 3, 6}, 4, "dv.npy|[2][4][3][6]|[2][2][5][6]"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        put(wrong[i].name, wrong[i].dims, wrong[i].shape, 0);
        assert_load_refused(ATTN_BAD_INPUT, wrong[i].words);
        unlink(in_folder(&folder, wrong[i].name));
        put_tensors();
    }
    attn_case c;
    assert_ok(load(&c)); // the mistakes were the only ones
    attn_case_free(&c);
}
END_TEST

START_TEST(missing_and_damaged_files_are_named) {
    assert_load_refused(ATTN_IO, "q.npy|cannot open|No such file");
    put_tensors();
    put_text(SIZES "causal 0\nwindow 0\n");
    static const char *const needed[] = {"q.npy", "k.npy", "v.npy"};
    for (int i = 0; i < 3; i++) {
        unlink(in_folder(&folder, needed[i]));
        assert_load_refused(ATTN_IO, needed[i]);
        put_tensors();
    }
    write_text(in_folder(&folder, "dv.npy"), "gone");
    assert_load_refused(ATTN_BAD_INPUT, "dv.npy|not a .npy file");

    attn_case c;
    assert_refused(attn_case_load(in_folder(&folder, "none"), &c), ATTN_IO, "none|No such file");
    assert_refused(attn_case_load(in_folder(&folder, "q.npy"), &c), ATTN_IO,
                   "q.npy|must be a folder");
    assert_refused(attn_case_load("", &c), ATTN_IO, "cannot open");
}
END_TEST

// ---- a reader's own folder ----------------------------------------------------------------------

START_TEST(without_case_txt_the_shapes_say_it_all) {
    static const struct {
        int dims;
        int64_t q[4], k[4];
        int64_t batch, heads, kv_heads;
    } shapes[] = {
        {2, {3, 6}, {5, 6}, 1, 1, 1},
        {3, {4, 3, 6}, {2, 5, 6}, 1, 4, 2},
        {4, {2, 4, 3, 6}, {2, 2, 5, 6}, 2, 4, 2},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        put("q.npy", shapes[i].dims, shapes[i].q, 1);
        put("k.npy", shapes[i].dims, shapes[i].k, 2);
        put("v.npy", shapes[i].dims, shapes[i].k, 3);
        attn_case c;
        assert_ok(load(&c));
        const attn_problem *p = &c.problem;
        ck_assert_int_eq(p->batch, shapes[i].batch);
        ck_assert_int_eq(p->heads, shapes[i].heads);
        ck_assert_int_eq(p->kv_heads, shapes[i].kv_heads);
        ck_assert_int_eq(p->q_len, 3);
        ck_assert_int_eq(p->kv_len, 5);
        ck_assert_int_eq(p->head_dim, 6);
        ck_assert_float_eq(p->scale, attn_default_scale(6));
        ck_assert_uint_eq(attn_problem_features(p) & (ATTN_HAS_CAUSAL | ATTN_HAS_WINDOW), 0);
        ck_assert_float_eq(c.q[1], 2);
        ck_assert_float_eq(c.k[1], 3);
        ck_assert_float_eq(c.v[1], 4);
        attn_case_free(&c);
    }
}
END_TEST

START_TEST(own_shapes_that_disagree_are_named) {
    PUT("q.npy", 0, 4, 3, 6);
    PUT("k.npy", 0, 2, 5, 7);
    PUT("v.npy", 0, 2, 5, 6);
    assert_load_refused(ATTN_BAD_INPUT, "k.npy|[2][5][7]|[1][2][5][6]");
    PUT("k.npy", 0, 2, 5, 6);
    PUT("v.npy", 0, 2, 4, 6);
    assert_load_refused(ATTN_BAD_INPUT, "v.npy|[2][4][6]|[1][2][5][6]");
    PUT("k.npy", 0, 3, 5, 6); // 4 heads, 3 kv_heads
    assert_load_refused(ATTN_BAD_INPUT, "heads|kv_heads");
    PUT("q.npy", 0, 18);
    assert_load_refused(ATTN_BAD_INPUT, "q.npy|1 dimension,|[length][head_dim]");
    PUT("q.npy", 0, 4, 3, 0);
    PUT("k.npy", 0, 2, 5, 0);
    assert_load_refused(ATTN_BAD_INPUT, "head_dim is 0");
}
END_TEST

START_TEST(empty_tensors_load) {
    PUT("q.npy", 0, 0, 6);
    PUT("k.npy", 0, 5, 6);
    PUT("v.npy", 0, 5, 6);
    attn_case c;
    assert_ok(load(&c));
    ck_assert_int_eq(c.problem.q_len, 0);
    ck_assert_ptr_nonnull(c.q);
    attn_case_free(&c);
}
END_TEST

// ---- results ------------------------------------------------------------------------------------

START_TEST(saved_results_are_loaded_again) {
    attn_problem problem = attn_problem_of(3, 5, 6);
    problem.batch = 2, problem.heads = 4, problem.kv_heads = 2;
    float o[144], lse[24], dq[144], dk[120], dv[120];
    for (int i = 0; i < 144; i++) o[i] = (float)i, dq[i] = (float)i + 1000;
    for (int i = 0; i < 120; i++) dk[i] = (float)i + 2000, dv[i] = (float)i + 3000;
    for (int i = 0; i < 24; i++) lse[i] = -INFINITY;

    char out[PATH_MAX]; // a folder that is not there yet
    snprintf(out, sizeof out, "%s", in_folder(&folder, "out"));
    assert_ok(attn_case_save_output(out, &problem, o, lse, NULL, NULL, NULL, NULL));
    ck_assert_int_eq(count_entries(out), 2);
    assert_ok(attn_case_save_output(out, &problem, o, lse, dq, dk, dv, NULL)); // now it is
    ck_assert_int_eq(count_entries(out), 5);

    put_tensors();
    put_text(SIZES "causal 0\nwindow 0\n");
    assert_ok(attn_case_save_output(folder.path, &problem, o, lse, dq, dk, dv, NULL));
    attn_case c;
    assert_ok(load(&c));
    ck_assert(memcmp(c.o, o, sizeof o) == 0);
    ck_assert(memcmp(c.lse, lse, sizeof lse) == 0);
    ck_assert(memcmp(c.dq, dq, sizeof dq) == 0);
    ck_assert(memcmp(c.dk, dk, sizeof dk) == 0);
    ck_assert(memcmp(c.dv, dv, sizeof dv) == 0);
    attn_case_free(&c);
}
END_TEST

START_TEST(results_that_cannot_be_saved_leave_nothing) {
    attn_problem problem = attn_problem_of(2, 2, 2);
    float data[4] = {1, 2, 3, 4};
    char out[PATH_MAX];
    snprintf(out, sizeof out, "%s", in_folder(&folder, "no/out"));
    assert_refused(attn_case_save_output(out, &problem, data, data, NULL, NULL, NULL, NULL),
                   ATTN_IO, "no/out|cannot make this folder|No such file");
    write_text(in_folder(&folder, "file"), "");
    assert_refused(attn_case_save_output(in_folder(&folder, "file"), &problem, data, data, NULL,
                                         NULL, NULL, NULL),
                   ATTN_IO, "file/o.npy|cannot write|Not a directory");

    // lse.npy is in the way: o.npy, which could be written, must not appear either.
    snprintf(out, sizeof out, "%s", in_folder(&folder, "out"));
    ck_assert_int_eq(mkdir(out, 0777), 0);
    ck_assert_int_eq(mkdir(in_folder(&folder, "out/lse.npy"), 0777), 0);
    assert_refused(attn_case_save_output(out, &problem, data, data, NULL, NULL, NULL, NULL),
                   ATTN_IO, "out/lse.npy|cannot write|Is a directory");
    ck_assert_int_eq(count_entries(out), 1);

    // A folder made for results that then cannot be written (nothing fits into 4 bytes) is gone.
    struct rlimit before, limited;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limited = before, limited.rlim_cur = 4;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limited), 0);
    const char *made = in_folder(&folder, "made");
    attn_status status = attn_case_save_output(made, &problem, data, data, NULL, NULL, NULL, NULL);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_refused(status, ATTN_IO, "made/o.npy|cannot write");
    ck_assert_int_ne(access(made, F_OK), 0);
}
END_TEST

START_TEST(paths_that_are_too_long_are_refused) {
    static char path[PATH_MAX + 10];
    memset(path, 'a', sizeof path - 1);
    attn_case c;
    attn_problem problem = attn_problem_of(1, 1, 1);
    float data[1] = {1};
    assert_refused(attn_case_load(path, &c), ATTN_IO, "characters|at most");
    assert_refused(attn_case_save_output(path, &problem, data, data, NULL, NULL, NULL, NULL),
                   ATTN_IO, "characters|at most");
}
END_TEST

Suite *case_suite(void);
Suite *case_suite(void) {
    Suite *suite = suite_create("case");
    TCase *tests = tcase_create("case");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, every_golden_case_loads);
    tcase_add_test(tests, real_input_loads);
    tcase_add_test(tests, all_that_case_txt_may_say_is_read);
    tcase_add_test(tests, a_case_has_the_features_of_its_text_and_files);
    tcase_add_test(tests, a_case_has_sequences_and_an_alignment);
    tcase_add_test(tests, mistakes_in_case_txt_are_named_with_their_line);
    tcase_add_test(tests, expected_results_and_gradients_are_loaded);
    tcase_add_test(tests, shapes_that_disagree_are_named);
    tcase_add_test(tests, missing_and_damaged_files_are_named);
    tcase_add_test(tests, without_case_txt_the_shapes_say_it_all);
    tcase_add_test(tests, own_shapes_that_disagree_are_named);
    tcase_add_test(tests, empty_tensors_load);
    tcase_add_test(tests, saved_results_are_loaded_again);
    tcase_add_test(tests, results_that_cannot_be_saved_leave_nothing);
    tcase_add_test(tests, paths_that_are_too_long_are_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
