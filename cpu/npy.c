// npy.c -- see npy.h. Reading; writing is in npy_write.c.
#include "cpu/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data is taken as it lies in the file");

enum {
    PREFIX_BYTES = 8,           // "\x93NUMPY", major and minor version
    MAX_HEADER_BYTES = 1 << 16, // more than any float32 array of four dimensions needs
};

void attn_array_free(attn_array *array) {
    free(array->data);
    memset(array, 0, sizeof *array);
}

void attn_shape_text(int dims, const int64_t *shape, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, dims == 0 ? "[]" : "");
    for (int i = 0; i < dims && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "[%lld]", (long long)shape[i]);
}

// ---- the header: a Python dictionary literal with exactly three keys ----

typedef struct header {
    char type[16]; // "<f4"
    int fortran_order;
    int dims;
    int64_t shape[ATTN_NPY_MAX_DIMS];
} header;

// A place in the header's text, which ends in a zero byte.
typedef struct cursor {
    const char *at;
} cursor;

static void skip_space(cursor *c) {
    c->at += strspn(c->at, " \t\r\n");
}

// Steps over `token` when it is what comes next.
static int take(cursor *c, const char *token) {
    skip_space(c);
    size_t length = strlen(token);
    if (strncmp(c->at, token, length) != 0) return 0;
    c->at += length;
    return 1;
}

// A quoted string of printable ASCII without escapes, since it is shown in sentences. Longer than
// fits: not one of ours.
static int take_string(cursor *c, char *text, size_t size) {
    skip_space(c);
    char quote = *c->at;
    if (quote != '\'' && quote != '"') return 0;
    const char *begin = c->at + 1, *end = strchr(begin, quote);
    if (end == NULL || (size_t)(end - begin) >= size) return 0;
    memcpy(text, begin, (size_t)(end - begin));
    text[end - begin] = 0;
    for (const char *letter = text; *letter != 0; letter++)
        if (*letter < ' ' || *letter > '~') return 0;
    c->at = end + 1;
    return 1;
}

static int take_size(cursor *c, int64_t *value) {
    skip_space(c);
    if (*c->at < '0' || *c->at > '9') return 0;
    *value = 0;
    for (; *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (__builtin_mul_overflow(*value, 10, value)) return 0;
        if (__builtin_add_overflow(*value, *c->at - '0', value)) return 0;
    }
    return 1;
}

static attn_status malformed(const char *path, const char *what) {
    return attn_error(ATTN_BAD_INPUT, "%s: the header of this .npy file is malformed: %s", path,
                      what);
}

static attn_status parse_shape(const char *path, cursor *c, header *h) {
    if (!take(c, "(")) return malformed(path, "shape is not a tuple");
    while (!take(c, ")")) {
        int64_t size;
        if (!take_size(c, &size))
            return malformed(path, "shape has an entry that is not an integer from 0 to 2^63-1");
        if (h->dims == ATTN_NPY_MAX_DIMS)
            return attn_error(ATTN_BAD_INPUT,
                              "%s: the array has more than %d dimensions; reshape it to "
                              "[batch][heads][length][head_dim] or fewer",
                              path, ATTN_NPY_MAX_DIMS);
        h->shape[h->dims++] = size;
        if (take(c, ",")) continue;
        // "(3)" is a number in Python, not a tuple; only the last of several needs no comma.
        if (h->dims == 1 || !take(c, ")")) return malformed(path, "shape lacks a comma");
        break;
    }
    return attn_ok();
}

static attn_status parse_header(const char *path, const char *text, header *h) {
    memset(h, 0, sizeof *h);
    cursor c = {text};
    int has_type = 0, has_order = 0, has_shape = 0;
    if (!take(&c, "{")) return malformed(path, "it is not a dictionary");
    while (!take(&c, "}")) {
        char key[16];
        if (!take_string(&c, key, sizeof key) || !take(&c, ":"))
            return malformed(path, "a key is missing or unknown");
        if (strcmp(key, "descr") == 0 && !has_type++) {
            if (take(&c, "["))
                return attn_error(ATTN_BAD_INPUT,
                                  "%s: the array holds structures, but must hold float32; save one "
                                  "field, as x['field'].astype(np.float32)",
                                  path);
            if (!take_string(&c, h->type, sizeof h->type))
                return malformed(path, "descr is not a type");
        } else if (strcmp(key, "fortran_order") == 0 && !has_order++) {
            h->fortran_order = take(&c, "True");
            if (!h->fortran_order && !take(&c, "False"))
                return malformed(path, "fortran_order is neither True nor False");
        } else if (strcmp(key, "shape") == 0 && !has_shape++) {
            ATTN_TRY(parse_shape(path, &c, h));
        } else {
            return malformed(path, "it has a key other than descr, fortran_order and shape, or "
                                   "one of them twice");
        }
        if (take(&c, ",")) continue;
        if (!take(&c, "}")) return malformed(path, "a comma is missing");
        break;
    }
    skip_space(&c);
    if (*c.at != 0) return malformed(path, "something follows the dictionary");
    if (!has_type || !has_order || !has_shape)
        return malformed(path, "it lacks descr, fortran_order or shape");
    return attn_ok();
}

// ---- what of it we take ----

// Sets *elements and *swapped when the array is one that we can read.
static attn_status check_header(const char *path, const header *h, uint64_t *elements,
                                int *swapped) {
    *swapped = strcmp(h->type, ">f4") == 0;
    if (!*swapped && strcmp(h->type, "<f4") != 0)
        return attn_error(ATTN_BAD_INPUT,
                          "%s: the elements are of type '%s', but must be float32 ('<f4'); save "
                          "x.astype(np.float32)",
                          path, h->type);

    *elements = 1;
    int too_large = 0;
    for (int i = 0; i < h->dims; i++)
        if (h->shape[i] == 0) *elements = 0;
    for (int i = 0; i<h->dims && * elements> 0; i++)
        too_large |= __builtin_mul_overflow(*elements, (uint64_t)h->shape[i], elements);
    if (too_large || *elements > INT64_MAX / sizeof(float))
        return attn_error(ATTN_BAD_INPUT,
                          "%s: the shape in the header has 2^61 elements or more, which no file "
                          "holds",
                          path);

    int long_dims = 0; // with at most one of these both orders are the same
    for (int i = 0; i < h->dims; i++) long_dims += h->shape[i] > 1;
    if (h->fortran_order && long_dims > 1 && *elements > 0)
        return attn_error(ATTN_BAD_INPUT,
                          "%s: the array is in Fortran order, but must be in C order; save "
                          "np.ascontiguousarray(x)",
                          path);
    return attn_ok();
}

static void swap_bytes(float *data, size_t elements) {
    for (size_t i = 0; i < elements; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof bits);
        bits = __builtin_bswap32(bits);
        memcpy(&data[i], &bits, sizeof bits);
    }
}

// ---- the file ----

static attn_status cut_short(const char *path) {
    return attn_error(ATTN_BAD_INPUT, "%s: the file ends within its header; it was cut short",
                      path);
}

// Reads the header's text into *text (malloc'ed) and leaves the file where the data begins.
static attn_status read_header_text(const char *path, FILE *file, uint64_t file_bytes, char **text,
                                    uint64_t *data_offset) {
    unsigned char prefix[PREFIX_BYTES];
    size_t got = fread(prefix, 1, sizeof prefix, file);
    if (got < 6 || memcmp(prefix, "\x93NUMPY", 6) != 0)
        return attn_error(ATTN_BAD_INPUT,
                          "%s: this is not a .npy file (it does not begin with \\x93NUMPY); write "
                          "it with np.save",
                          path);
    if (got < sizeof prefix) return cut_short(path);
    int version = prefix[6];
    if (version < 1 || version > 3 || prefix[7] != 0)
        return attn_error(ATTN_BAD_INPUT,
                          "%s: the file is of .npy version %d.%d, but must be 1.0, 2.0 or 3.0",
                          path, version, prefix[7]);

    size_t length_bytes = version == 1 ? 2 : 4; // the header's length, little-endian
    unsigned char length[4] = {0};
    if (fread(length, 1, length_bytes, file) < length_bytes) return cut_short(path);
    uint64_t bytes = length[0] | (uint64_t)length[1] << 8 | (uint64_t)length[2] << 16 |
                     (uint64_t)length[3] << 24;
    *data_offset = PREFIX_BYTES + length_bytes + bytes;
    if (*data_offset > file_bytes) return cut_short(path);
    if (bytes > MAX_HEADER_BYTES)
        return attn_error(ATTN_BAD_INPUT,
                          "%s: the header has %llu bytes, but no float32 array needs more than %d",
                          path, (unsigned long long)bytes, MAX_HEADER_BYTES);

    *text = malloc(bytes + 1);
    if (*text == NULL)
        return attn_error(ATTN_NO_MEMORY, "%s: no memory for a header of %llu bytes", path,
                          (unsigned long long)bytes);
    got = fread(*text, 1, bytes, file);
    (*text)[got] = 0;
    if (got < bytes) return cut_short(path);
    if (strlen(*text) < bytes) return malformed(path, "it contains a zero byte");
    return attn_ok();
}

static attn_status read_data(const char *path, FILE *file, uint64_t present, const header *h,
                             attn_array *array) {
    uint64_t elements = 0;
    int swapped = 0;
    ATTN_TRY(check_header(path, h, &elements, &swapped));
    uint64_t bytes = elements * sizeof(float);
    if (bytes != present) {
        char shape[96];
        attn_shape_text(h->dims, h->shape, shape, sizeof shape);
        return attn_error(ATTN_BAD_INPUT,
                          "%s: %llu bytes follow the header, but float32 of shape %s needs %llu; "
                          "the file %s",
                          path, (unsigned long long)present, shape, (unsigned long long)bytes,
                          present < bytes ? "was cut short" : "is too long");
    }

    array->data = malloc(bytes > 0 ? bytes : 1);
    if (array->data == NULL)
        return attn_error(ATTN_NO_MEMORY, "%s: no memory for its %llu bytes", path,
                          (unsigned long long)bytes);
    array->dims = h->dims;
    memcpy(array->shape, h->shape, sizeof array->shape);
    if (fread(array->data, 1, bytes, file) < bytes)
        return attn_error(ATTN_IO, "%s: cannot read it to the end: %s", path,
                          ferror(file) ? strerror(errno) : "it became shorter meanwhile");
    if (swapped) swap_bytes(array->data, elements);
    return attn_ok();
}

static attn_status read_file(const char *path, FILE *file, uint64_t file_bytes, attn_array *array) {
    char *text = NULL;
    uint64_t data_offset = 0;
    attn_status status = read_header_text(path, file, file_bytes, &text, &data_offset);
    header h;
    if (status.code == ATTN_OK) status = parse_header(path, text, &h);
    free(text);
    ATTN_TRY(status);
    return read_data(path, file, file_bytes - data_offset, &h, array);
}

attn_status attn_npy_read(const char *path, attn_array *array) {
    memset(array, 0, sizeof *array);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // so that a pipe does not block
    if (descriptor < 0) return attn_error(ATTN_IO, "%s: cannot open it: %s", path, strerror(errno));
    struct stat facts;
    if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        close(descriptor);
        return attn_error(ATTN_IO, "%s: this is a folder or a device, but must be a .npy file",
                          path);
    }
    FILE *file = fdopen(descriptor, "rb");
    if (file == NULL) {
        close(descriptor);
        return attn_error(ATTN_NO_MEMORY, "%s: no memory to read it", path);
    }
    attn_status status = read_file(path, file, (uint64_t)facts.st_size, array);
    fclose(file);
    if (status.code != ATTN_OK) attn_array_free(array);
    return status;
}
