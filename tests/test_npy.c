// test_npy.c -- cpu/npy: what is read, what is refused and how, and that files are whole or absent.
#include "cpu/npy.h"
#include "cpu/random.h"
#include "tests/temporary_folder.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

// ---- files made by hand -------------------------------------------------------------------------

typedef struct bytes {
    unsigned char at[4096];
    size_t size;
} bytes;

// A .npy file of that version with this text as its header, followed by `data_bytes` bytes of data:
// 1.0f, 2.0f, 3.0f ... in little-endian order.
static bytes npy_bytes(int version, const char *header, size_t data_bytes) {
    bytes b = {.size = 0};
    size_t length = strlen(header), length_bytes = version == 1 ? 2 : 4;
    memcpy(b.at, "\x93NUMPY", 6);
    b.at[6] = (unsigned char)version;
    for (size_t i = 0; i < length_bytes; i++) b.at[8 + i] = (unsigned char)(length >> 8 * i);
    memcpy(b.at + 8 + length_bytes, header, length);
    b.size = 8 + length_bytes + length;
    for (size_t i = 0; i < data_bytes; i++) {
        float value = (float)(i / 4 + 1);
        unsigned char in_memory[4];
        memcpy(in_memory, &value, 4);
        b.at[b.size++] = in_memory[i % 4];
    }
    return b;
}

static temporary_folder folder;
static void make_folder(void) {
    folder = make_temporary_folder();
}
static void remove_folder(void) {
    remove_temporary_folder(&folder);
}

static attn_status read_made(bytes b, attn_array *array) {
    const char *path = in_folder(&folder, "x.npy");
    write_bytes(path, b.at, b.size);
    attn_status status = attn_npy_read(path, array);
    if (status.code != ATTN_OK) {
        ck_assert_ptr_null(array->data);
        ck_assert_msg(strstr(status.text, "x.npy") != NULL, "no path in: %s", status.text);
    }
    return status;
}

// ---- what is read -------------------------------------------------------------------------------

START_TEST(headers_in_every_spelling_are_read) {
    static const struct {
        int version;
        const char *header;
    } same[] = {
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n"},
        {2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"},
        {3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"},
        {1, "{\"shape\":(2,3),\"descr\":\"<f4\",\"fortran_order\":False}"},
        {1, "  { 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' }  "},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        attn_array array;
        assert_ok(read_made(npy_bytes(same[i].version, same[i].header, 24), &array));
        ck_assert_int_eq(array.dims, 2);
        ck_assert_int_eq(array.shape[0], 2);
        ck_assert_int_eq(array.shape[1], 3);
        for (int e = 0; e < 6; e++) ck_assert_float_eq(array.data[e], (float)(e + 1));
        attn_array_free(&array);
        ck_assert_ptr_null(array.data);
    }
}
END_TEST

START_TEST(big_endian_is_converted) {
    bytes b = npy_bytes(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }\n", 0);
    static const unsigned char data[] = {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0, 0x7f, 0x80, 0, 0};
    memcpy(b.at + b.size, data, sizeof data);
    b.size += sizeof data;
    attn_array array;
    assert_ok(read_made(b, &array));
    ck_assert_float_eq(array.data[0], 1);
    ck_assert_float_eq(array.data[1], -2.5f);
    ck_assert_float_eq(array.data[2], INFINITY);
    attn_array_free(&array);
}
END_TEST

START_TEST(scalars_vectors_and_empty_arrays_are_read) {
    static const struct {
        const char *shape;
        int dims;
        int64_t first;
        size_t elements;
    } shapes[] = {
        {"()", 0, 0, 1},           {"(5,)", 1, 5, 5},
        {"(0,)", 1, 0, 0},         {"(2, 0, 3, 4)", 4, 2, 0},
        {"(1, 1, 1, 1)", 4, 1, 1}, {"(4611686018427387904, 8, 0)", 3, INT64_C(1) << 62, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char header[128];
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }",
                 shapes[i].shape);
        attn_array array;
        assert_ok(read_made(npy_bytes(1, header, shapes[i].elements * 4), &array));
        ck_assert_int_eq(array.dims, shapes[i].dims);
        ck_assert_int_eq(array.shape[0], shapes[i].first);
        ck_assert_ptr_nonnull(array.data);
        attn_array_free(&array);
    }
}
END_TEST

// With fewer than two dimensions longer than 1, Fortran order is C order.
START_TEST(fortran_order_that_changes_nothing_is_read) {
    attn_array array;
    bytes b = npy_bytes(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 3), }\n", 12);
    assert_ok(read_made(b, &array));
    ck_assert_float_eq(array.data[2], 3);
    attn_array_free(&array);
}
END_TEST

// ---- what is refused ----------------------------------------------------------------------------

#define HEADER(type, order, shape) \
    "{'descr': " type ", 'fortran_order': " order ", 'shape': " shape ", }\n"

START_TEST(other_arrays_are_refused_with_the_way_out) {
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *words;
    } refused[] = {
        {HEADER("'<f8'", "False", "(3,)"), 24, "'<f8'|float32|astype(np.float32)"},
        {HEADER("'<f2'", "False", "(3,)"), 6, "'<f2'|float32|astype(np.float32)"},
        {HEADER("'<i4'", "False", "(3,)"), 12, "'<i4'|float32|astype(np.float32)"},
        {HEADER("'<c8'", "False", "(3,)"), 24, "'<c8'|float32|astype(np.float32)"},
        {HEADER("'|O'", "False", "(3,)"), 24, "O'|float32|astype(np.float32)"},
        {HEADER("[('x', '<f4')]", "False", "(3,)"), 12, "structures|astype(np.float32)"},
        {HEADER("'<f4'", "True", "(2, 3)"), 24, "Fortran order|np.ascontiguousarray"},
        {HEADER("'<f4'", "False", "(1, 1, 1, 1, 1)"), 4, "more than 4 dimensions|reshape"},
        {HEADER("'<f4'", "False", "(3,)"), 11, "11 bytes|[3]|12|cut short"},
        {HEADER("'<f4'", "False", "(3,)"), 0, "0 bytes|[3]|12|cut short"},
        {HEADER("'<f4'", "False", "(3,)"), 13, "13 bytes|[3]|12|too long"},
        {HEADER("'<f4'", "False", "(0, 7)"), 4, "4 bytes|[0][7]|too long"},
        {HEADER("'<f4'", "False", "(4611686018427387904,)"), 8, "2^61"},
        {HEADER("'<f4'", "False", "(2305843009213693952,)"), 8, "2^61"},
        {HEADER("'<f4'", "False", "(4294967296, 4294967296)"), 8, "2^61"},
        {HEADER("'<f4'", "False", "(2305843009213693951,)"), 8, "8 bytes|9223372036854775804"},
        {HEADER("'<f4'", "False", "(1000000000, 1000000)"), 8, "8 bytes|cut short"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        attn_array array;
        bytes b = npy_bytes(1, refused[i].header, refused[i].data_bytes);
        assert_refused(read_made(b, &array), ATTN_BAD_INPUT, refused[i].words);
    }
}
END_TEST

START_TEST(malformed_headers_are_refused) {
    static const struct {
        const char *header, *words;
    } malformed[] = {
        {"", "not a dictionary"},
        {"[1]", "not a dictionary"},
        {"{", "a key is missing"},
        {"{}", "lacks descr"},
        {"{'descr': '<f4', 'fortran_order': False}", "lacks descr, fortran_order or shape"},
        {"{'descr': '<f4', 'shape': (1,)}", "lacks descr, fortran_order or shape"},
        {"{'descr: '<f4', 'fortran_order': False, 'shape': (1,)}", "key"},
        {"{'descr' '<f4'}", "key"},
        {"{descr: '<f4'}", "key"},
        {"{'descr': <f4}", "descr is not a type"},
        {"{'descr': '<f4", "descr is not a type"},
        {"{'descr': '<f4<f4<f4<f4<f4<f4<f4'}", "descr is not a type"},
        {"{'descr': '<f\n4'}", "descr is not a type"},
        {"{'fortran_order': 0}", "neither True nor False"},
        {"{'shape': [1]}", "not a tuple"},
        {"{'shape': (1)}", "comma"},
        {"{'shape': (1 2)}", "comma"},
        {"{'shape': (,)}", "integer"},
        {"{'shape': (1,", "integer"},
        {"{'shape': (-1,)}", "integer from 0"},
        {"{'shape': (2, -3)}", "integer from 0"},
        {"{'shape': (1.0,)}", "comma"},
        {"{'shape': (9223372036854775808,)}", "2^63-1"},
        {"{'shape': (99999999999999999999999,)}", "2^63-1"},
        {"{'shape': (1,), 'shape': (1,)}", "twice"},
        {"{'colour': 1}", "a key other than"},
        {"{'shape': (1,) 'descr': '<f4'}", "a comma is missing"},
        {HEADER("'<f4'", "False", "(1,)") "x", "something follows"},
    };
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        attn_array array;
        attn_status status = read_made(npy_bytes(1, malformed[i].header, 4), &array);
        assert_refused(status, ATTN_BAD_INPUT, "malformed");
        assert_refused(status, ATTN_BAD_INPUT, malformed[i].words);
    }
}
END_TEST

START_TEST(other_files_are_refused) {
    attn_array array;
    bytes good = npy_bytes(1, HEADER("'<f4'", "False", "(3,)"), 12), b = good;
    b.at[0] = 'x';
    assert_refused(read_made(b, &array), ATTN_BAD_INPUT, "not a .npy file|np.save");
    memcpy(b.at, "PK\x03\x04zip archive", 15); // .npz
    assert_refused(read_made(b, &array), ATTN_BAD_INPUT, "not a .npy file");
    b = good, b.at[6] = 4;
    assert_refused(read_made(b, &array), ATTN_BAD_INPUT, "version 4.0|1.0, 2.0 or 3.0");
    b = good, b.at[7] = 1;
    assert_refused(read_made(b, &array), ATTN_BAD_INPUT, "version 1.1");
    b = good, b.at[30] = 0;
    assert_refused(read_made(b, &array), ATTN_BAD_INPUT, "malformed|zero byte");
    b = good, b.at[9] = 0xff;
    assert_refused(read_made(b, &array), ATTN_BAD_INPUT, "cut short");
    b = npy_bytes(2, HEADER("'<f4'", "False", "(3,)"), 12);
    b.at[11] = 0xff; // a header of 4 GB
    assert_refused(read_made(b, &array), ATTN_BAD_INPUT, "cut short");

    static char long_header[(1 << 16) + 100]; // complete, but absurd
    memset(long_header, ' ', sizeof long_header);
    memcpy(long_header, "\x93NUMPY\x02\x00\x01\x00\x01\x00", 12);
    write_bytes(in_folder(&folder, "long.npy"), long_header, sizeof long_header);
    assert_refused(attn_npy_read(in_folder(&folder, "long.npy"), &array), ATTN_BAD_INPUT,
                   "65537 bytes|65536");
}
END_TEST

START_TEST(every_cut_is_noticed) {
    for (int version = 1; version <= 2; version++) {
        bytes b = npy_bytes(version, HEADER("'<f4'", "False", "(3,)"), 12);
        for (size_t whole = b.size; b.size > 0;) {
            b.size--;
            attn_array array;
            attn_status status = read_made(b, &array);
            ck_assert_msg(status.code == ATTN_BAD_INPUT, "cut to %zu of %zu bytes: %s", b.size,
                          whole, status.text);
        }
    }
}
END_TEST

START_TEST(what_is_no_readable_file_is_refused) {
    attn_array array;
    assert_refused(attn_npy_read(in_folder(&folder, "none.npy"), &array), ATTN_IO,
                   "none.npy|cannot open|No such file");
    assert_refused(attn_npy_read(folder.path, &array), ATTN_IO, "folder|.npy file");
    assert_refused(attn_npy_read("", &array), ATTN_IO, "cannot open");
    // Permissions do not stop the superuser; a link to itself stops anybody.
    ck_assert_int_eq(symlink("loop.npy", in_folder(&folder, "loop.npy")), 0);
    assert_refused(attn_npy_read(in_folder(&folder, "loop.npy"), &array), ATTN_IO,
                   "loop.npy|cannot open");
    ck_assert_int_eq(mkfifo(in_folder(&folder, "pipe.npy"), 0600), 0); // must not wait for a writer
    assert_refused(attn_npy_read(in_folder(&folder, "pipe.npy"), &array), ATTN_IO, "pipe.npy");
}
END_TEST

// Random damage is either refused or leaves an array that agrees with the file's size.
START_TEST(damaged_files_do_no_harm) {
    bytes good = npy_bytes(1, HEADER("'<f4'", "False", "(2, 3)"), 24);
    int accepted = 0, refused = 0;
    for (uint64_t round = 0; round < 4000; round++) {
        bytes b = good;
        uint32_t dice[4];
        attn_philox(1, 0, round, dice);
        static const char likely[] = "'\"(){},: 0123456789<>f-\xff\n";
        for (uint32_t change = 0; change < 1 + dice[0] % 3; change++) {
            uint32_t at[4];
            attn_philox(1, 1 + change, round, at);
            size_t place = at[0] % (at[3] % 2 ? 80 : b.size);
            b.at[place] = (unsigned char)at[2];
            if (at[1] % 2 == 0) b.at[place] = (unsigned char)likely[at[2] % (sizeof likely - 1)];
        }
        if (dice[1] % 4 == 0) b.size = dice[2] % (b.size + 8);
        attn_array array;
        attn_status status = read_made(b, &array);
        if (status.code == ATTN_OK) {
            accepted++;
            size_t elements = 1;
            for (int i = 0; i < array.dims; i++) elements *= (size_t)array.shape[i];
            ck_assert_uint_le(elements * 4, b.size);
            attn_array_free(&array);
        } else {
            refused++;
            ck_assert_int_eq(status.code, ATTN_BAD_INPUT);
        }
    }
    ck_assert_int_gt(accepted, 100); // damage to the data is no error, ...
    ck_assert_int_gt(refused, 1000); // ... damage to the header is
}
END_TEST

// ---- writing ------------------------------------------------------------------------------------

START_TEST(what_is_written_is_read_again) {
    static const struct {
        int dims;
        int64_t shape[4];
    } shapes[] = {{0, {0}},          {1, {7}},
                  {2, {2, 3}},       {3, {2, 3, 4}},
                  {4, {2, 3, 4, 5}}, {4, {0, 3, 4, 5}},
                  {1, {0}},          {4, {0, 1000000000, 1000000000, 1000000000}}};
    const char *path = in_folder(&folder, "x.npy");
    float data[120];
    for (int i = 0; i < 120; i++) data[i] = attn_normal(1, 1, (uint64_t)i);
    data[0] = -0.0f, data[1] = INFINITY, data[2] = NAN, data[3] = 0x1p-149f;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int dims = shapes[i].dims;
        assert_ok(attn_npy_write(path, dims, shapes[i].shape, data));
        attn_array array;
        assert_ok(attn_npy_read(path, &array));
        ck_assert_int_eq(array.dims, dims);
        size_t elements = 1;
        for (int d = 0; d < dims; d++) {
            ck_assert_int_eq(array.shape[d], shapes[i].shape[d]);
            elements *= (size_t)array.shape[d];
        }
        ck_assert(memcmp(array.data, data, elements * sizeof(float)) == 0);
        struct stat facts; // the data begins at a multiple of 64 bytes, as the format asks
        ck_assert_int_eq(stat(path, &facts), 0);
        ck_assert_uint_eq(((size_t)facts.st_size - elements * sizeof(float)) % 64, 0);
        attn_array_free(&array);
    }
    assert_ok(attn_npy_write(path, 1, (const int64_t[]){0}, NULL));
    ck_assert_int_eq(count_entries(folder.path), 1);
}
END_TEST

// tests/golden was written by NumPy.
START_TEST(files_are_byte_for_byte_numpys) {
    static const char *const files[] = {"tests/golden/dense/q.npy", "tests/golden/gqa/k.npy",
                                        "tests/golden/one/o.npy", "tests/golden/ragged/lse.npy"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        attn_array array;
        assert_ok(attn_npy_read(files[i], &array));
        const char *copy = in_folder(&folder, "copy.npy");
        assert_ok(attn_npy_write(copy, array.dims, array.shape, array.data));
        attn_array_free(&array);
        size_t size, copy_size;
        char *theirs = read_bytes(files[i], &size), *ours = read_bytes(copy, &copy_size);
        ck_assert_uint_eq(size, copy_size);
        ck_assert_msg(memcmp(theirs, ours, size) == 0, "%s: the copy differs", files[i]);
        free(theirs), free(ours);
    }
}
END_TEST

START_TEST(written_files_are_as_readable_as_any) {
    mode_t before = umask(022);
    const char *path = in_folder(&folder, "x.npy");
    assert_ok(attn_npy_write(path, 1, (const int64_t[]){1}, (const float[]){1}));
    umask(before);
    struct stat facts;
    ck_assert_int_eq(stat(path, &facts), 0);
    ck_assert_uint_eq(facts.st_mode & 0777, 0644);
}
END_TEST

START_TEST(writing_where_one_cannot_is_refused) {
    float data[1] = {1};
    const int64_t shape[] = {1};
    assert_refused(attn_npy_write(in_folder(&folder, "no/x.npy"), 1, shape, data), ATTN_IO,
                   "no/x.npy|cannot write|No such file");
    write_text(in_folder(&folder, "file"), "");
    assert_refused(attn_npy_write(in_folder(&folder, "file/x.npy"), 1, shape, data), ATTN_IO,
                   "file/x.npy|Not a directory");
    ck_assert_int_eq(mkdir(in_folder(&folder, "x.npy"), 0777), 0);
    assert_refused(attn_npy_write(in_folder(&folder, "x.npy"), 1, shape, data), ATTN_IO,
                   "x.npy|Is a directory");
    ck_assert_int_eq(count_entries(folder.path), 2); // "file" and the folder, nothing temporary
}
END_TEST

// A full disk, played by a limit on the size of files: old files stay, and no part of a new one.
START_TEST(a_full_disk_leaves_the_old_files) {
    static float data[100000];
    const char *small = in_folder(&folder, "a.npy"), *large = in_folder(&folder, "b.npy");
    assert_ok(attn_npy_write(small, 1, (const int64_t[]){1}, (const float[]){41}));
    assert_ok(attn_npy_write(large, 1, (const int64_t[]){1}, (const float[]){42}));

    struct rlimit before, limited;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limited = before, limited.rlim_cur = 50000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limited), 0);
    const attn_npy_output outputs[] = {{small, 1, {2}, data}, {large, 1, {100000}, data}};
    attn_status status = attn_npy_write_all(outputs, 2);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);

    assert_refused(status, ATTN_IO, "b.npy|cannot write|too large");
    ck_assert_int_eq(count_entries(folder.path), 2);
    attn_array a, b;
    assert_ok(attn_npy_read(small, &a));
    assert_ok(attn_npy_read(large, &b));
    ck_assert_int_eq(a.shape[0], 1);
    ck_assert_float_eq(a.data[0], 41);
    ck_assert_float_eq(b.data[0], 42);
    attn_array_free(&a), attn_array_free(&b);
}
END_TEST

START_TEST(shapes_are_shown) {
    char text[64], tiny[6];
    attn_shape_text(3, (const int64_t[]){1, 8, 65}, text, sizeof text);
    ck_assert_str_eq(text, "[1][8][65]");
    attn_shape_text(0, NULL, text, sizeof text);
    ck_assert_str_eq(text, "[]");
    attn_shape_text(3, (const int64_t[]){1, 800, 65}, tiny, sizeof tiny);
    ck_assert_str_eq(tiny, "[1][8");
}
END_TEST

Suite *npy_suite(void);
Suite *npy_suite(void) {
    Suite *suite = suite_create("npy");
    TCase *tests = tcase_create("npy");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, headers_in_every_spelling_are_read);
    tcase_add_test(tests, big_endian_is_converted);
    tcase_add_test(tests, scalars_vectors_and_empty_arrays_are_read);
    tcase_add_test(tests, fortran_order_that_changes_nothing_is_read);
    tcase_add_test(tests, other_arrays_are_refused_with_the_way_out);
    tcase_add_test(tests, malformed_headers_are_refused);
    tcase_add_test(tests, other_files_are_refused);
    tcase_add_test(tests, every_cut_is_noticed);
    tcase_add_test(tests, what_is_no_readable_file_is_refused);
    tcase_add_test(tests, damaged_files_do_no_harm);
    tcase_add_test(tests, what_is_written_is_read_again);
    tcase_add_test(tests, files_are_byte_for_byte_numpys);
    tcase_add_test(tests, written_files_are_as_readable_as_any);
    tcase_add_test(tests, writing_where_one_cannot_is_refused);
    tcase_add_test(tests, a_full_disk_leaves_the_old_files);
    tcase_add_test(tests, shapes_are_shown);
    suite_add_tcase(suite, tests);
    return suite;
}
