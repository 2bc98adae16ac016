// case.c -- see case.h.
#include "cpu/case.h"

#include "cpu/npy.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static attn_status join(const char *folder, const char *name, char path[PATH_MAX]) {
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_MAX)
        return attn_error(ATTN_IO, "%.200s...: the path has %d characters; at most %d work", folder,
                          length, PATH_MAX - 1);
    return attn_ok();
}

static int exists(const char *path) {
    return access(path, F_OK) == 0;
}

// ---- case.txt ----

enum key {
    BATCH,
    HEADS,
    KV_HEADS,
    Q_LEN,
    KV_LEN,
    HEAD_DIM,
    CAUSAL,
    WINDOW,
    WINDOW_RIGHT,
    TOP_LEFT,
    ALIBI,
    BIAS_GRADIENT,
    DROPOUT_SEED,
    DROPOUT_OFFSET,
    SCALE, // from here on real numbers
    SOFTCAP,
    DROPOUT,
    Q_CUMULATIVE, // from here on lists
    KV_CUMULATIVE,
    KEYS
};
enum { NEEDED_KEYS = WINDOW_RIGHT, MOST_LENGTHS = 256 }; // those before it

static const char *const key_names[KEYS] = {"batch",        "heads",          "kv_heads",
                                            "q_len",        "kv_len",         "head_dim",
                                            "causal",       "window",         "window_right",
                                            "top_left",     "alibi",          "bias_gradient",
                                            "dropout_seed", "dropout_offset", "scale",
                                            "softcap",      "dropout",        "q_cumulative",
                                            "kv_cumulative"};

typedef struct list {
    int count;
    int32_t value[MOST_LENGTHS + 1];
} list;

typedef struct case_text {
    const char *path;
    int line;
    int seen[KEYS]; // the line where the key stood, 0 before
    int64_t value[KEYS];
    float real[KEYS];
    list q_cumulative, kv_cumulative;
} case_text;

static attn_status parse_real(case_text *t, enum key key, const char *text) {
    char *end;
    t->real[key] = strtof(text, &end);
    const int lost = t->real[key] == 0 && strtod(text, NULL) != 0; // to a float
    if (end == text || *end != 0 || !isfinite(t->real[key]) || lost)
        return attn_error(ATTN_BAD_INPUT,
                          "%s:%d: %s is '%.40s', but must be a finite number that a float can hold",
                          t->path, t->line, key_names[key], text);
    return attn_ok();
}

static attn_status parse_size(case_text *t, enum key key, const char *text) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != 0 || errno == ERANGE || number < 0)
        return attn_error(ATTN_BAD_INPUT,
                          "%s:%d: %s is '%.40s', but must be an integer from 0 to 2^63-1", t->path,
                          t->line, key_names[key], text);
    const int is_switch = key == CAUSAL || key == TOP_LEFT || key == ALIBI || key == BIAS_GRADIENT;
    if (is_switch && number > 1)
        return attn_error(ATTN_BAD_INPUT, "%s:%d: %s is %lld, but must be 0 or 1", t->path, t->line,
                          key_names[key], number);
    t->value[key] = number;
    return attn_ok();
}

// Cumulative lengths; whether they begin with 0 and so on, attn_problem_check asks.
static attn_status parse_list(case_text *t, enum key key, const char *first, char **rest) {
    list *lengths = key == Q_CUMULATIVE ? &t->q_cumulative : &t->kv_cumulative;
    for (const char *text = first; text; text = strtok_r(NULL, " \t\r\n", rest)) {
        char *end;
        const long long number = strtoll(text, &end, 10);
        if (end == text || *end != 0 || number < 0 || number > INT32_MAX ||
            lengths->count > MOST_LENGTHS)
            return attn_error(ATTN_BAD_INPUT,
                              "%s:%d: %s has '%.40s', but must be up to %d integers from 0 to "
                              "2^31-1, with blanks between",
                              t->path, t->line, key_names[key], text, MOST_LENGTHS + 1);
        lengths->value[lengths->count++] = (int32_t)number;
    }
    return attn_ok();
}

// A "name value" line.
static attn_status parse_line(case_text *t, char *text) {
    char *rest;
    char *name = strtok_r(text, " \t\r\n", &rest);
    if (name == NULL || name[0] == '#') return attn_ok();
    int key = 0;
    while (key < KEYS && strcmp(name, key_names[key]) != 0) key++;
    char *number = strtok_r(NULL, " \t\r\n", &rest);
    if (number == NULL || (key < Q_CUMULATIVE && strtok_r(NULL, " \t\r\n", &rest) != NULL))
        return attn_error(ATTN_BAD_INPUT, "%s:%d: '%.40s' must be followed by one value%s", t->path,
                          t->line, name, key < Q_CUMULATIVE ? "" : " at least");
    if (key == KEYS)
        return attn_error(ATTN_BAD_INPUT,
                          "%s:%d: '%.40s' is unknown; there are batch, heads, kv_heads, q_len, "
                          "kv_len, head_dim, causal, window, window_right, top_left, scale, "
                          "softcap, alibi, bias_gradient, dropout, dropout_seed, dropout_offset, "
                          "q_cumulative and kv_cumulative",
                          t->path, t->line, name);
    if (t->seen[key] != 0)
        return attn_error(ATTN_BAD_INPUT, "%s:%d: %s was given already, in line %d", t->path,
                          t->line, name, t->seen[key]);
    t->seen[key] = t->line;
    if (key >= Q_CUMULATIVE) return parse_list(t, (enum key)key, number, &rest);
    if (key >= SCALE) return parse_real(t, (enum key)key, number);
    return parse_size(t, (enum key)key, number);
}

static attn_status parse_case_text(case_text *t, FILE *file) {
    char text[4096];
    while (fgets(text, sizeof text, file) != NULL) {
        t->line++;
        if (strchr(text, '\n') == NULL && !feof(file))
            return attn_error(ATTN_BAD_INPUT,
                              "%s:%d: the line is longer than %d characters or contains a zero "
                              "byte; a name and a value are enough",
                              t->path, t->line, (int)sizeof text - 2);
        ATTN_TRY(parse_line(t, text));
    }
    if (ferror(file))
        return attn_error(ATTN_IO, "%s: cannot read it: %s", t->path, strerror(errno));
    for (int key = 0; key < NEEDED_KEYS; key++)
        if (t->seen[key] == 0)
            return attn_error(ATTN_BAD_INPUT, "%s: %s is missing; add a line '%s <integer>'",
                              t->path, key_names[key], key_names[key]);
    return attn_ok();
}

static attn_status set_sequences(const case_text *t, attn_case *c) {
    const list *q = &t->q_cumulative, *kv = &t->kv_cumulative;
    if (q->count == 0 && kv->count == 0) return attn_ok();
    if (q->count != kv->count || q->count < 2)
        return attn_error(ATTN_BAD_INPUT,
                          "%s: q_cumulative has %d values and kv_cumulative %d; both must have one "
                          "more than there are sequences",
                          t->path, q->count, kv->count);
    const size_t bytes = sizeof *q->value * (size_t)q->count;
    c->q_cumulative = malloc(bytes), c->kv_cumulative = malloc(bytes);
    if (!c->q_cumulative || !c->kv_cumulative)
        return attn_error(ATTN_NO_MEMORY, "%s: no memory for the lengths", t->path);
    memcpy(c->q_cumulative, q->value, bytes);
    memcpy(c->kv_cumulative, kv->value, bytes);
    c->problem.sequences = q->count - 1;
    c->problem.q_cumulative = c->q_cumulative, c->problem.kv_cumulative = c->kv_cumulative;
    return attn_ok();
}

static attn_status set_problem(const case_text *t, attn_case *c) {
    attn_problem *p = &c->problem;
    *p = attn_problem_of(t->value[Q_LEN], t->value[KV_LEN], t->value[HEAD_DIM]);
    p->batch = t->value[BATCH];
    p->heads = t->value[HEADS], p->kv_heads = t->value[KV_HEADS];
    if (t->value[TOP_LEFT] && !t->value[CAUSAL])
        return attn_error(ATTN_BAD_INPUT,
                          "%s:%d: top_left says where causal's diagonal ends; without causal 1 "
                          "there is none",
                          t->path, t->seen[TOP_LEFT]);
    if (t->value[CAUSAL])
        p->causal = t->value[TOP_LEFT] ? ATTN_CAUSAL_TOP_LEFT : ATTN_CAUSAL_BOTTOM_RIGHT;
    p->window_left = t->value[WINDOW], p->window_right = t->value[WINDOW_RIGHT];
    p->softcap = t->real[SOFTCAP], p->alibi = (int)t->value[ALIBI];
    p->bias_gradient = (int)t->value[BIAS_GRADIENT];
    p->dropout = t->real[DROPOUT];
    p->dropout_seed = (uint64_t)t->value[DROPOUT_SEED];
    p->dropout_offset = (uint64_t)t->value[DROPOUT_OFFSET];
    if (t->seen[SCALE] != 0) p->scale = t->real[SCALE];
    return set_sequences(t, c);
}

static attn_status read_case_text(const char *path, attn_case *c) {
    case_text t = {.path = path};
    FILE *file = fopen(path, "r");
    if (file == NULL) return attn_error(ATTN_IO, "%s: cannot open it: %s", path, strerror(errno));
    const attn_status status = parse_case_text(&t, file);
    fclose(file);
    return status.code == ATTN_OK ? set_problem(&t, c) : status;
}

// ---- tensors ----

// The sizes of a tensor of the problem; lse has the first three.
typedef struct tensor_shape {
    int dims;
    int64_t size[4];
} tensor_shape;

// 'q' like q, 'k' like k, 'l' lse, 'b' bias, 'm' mask
static tensor_shape shape_of(const attn_problem *p, char kind) {
    if (kind == 'b') return (tensor_shape){4, {p->bias_batch, p->bias_heads, p->q_len, p->kv_len}};
    if (kind == 'm') return (tensor_shape){4, {p->mask_batch, p->mask_heads, p->q_len, p->kv_len}};
    if (kind == 'k') return (tensor_shape){4, {p->batch, p->kv_heads, p->kv_len, p->head_dim}};
    if (kind == 'l') return (tensor_shape){3, {p->batch, p->heads, p->q_len}};
    return (tensor_shape){4, {p->batch, p->heads, p->q_len, p->head_dim}};
}

// Equal, where leading dimensions of 1 may be left out.
static int same_shape(const attn_array *array, tensor_shape expected) {
    int left_out = expected.dims - array->dims;
    if (left_out < 0) return 0;
    for (int i = 0; i < expected.dims; i++) {
        int64_t size = i < left_out ? 1 : array->shape[i - left_out];
        if (size != expected.size[i]) return 0;
    }
    return 1;
}

// *data is NULL when the file is absent and not `needed`.
static attn_status load_tensor(const char *folder, const char *name, const attn_problem *problem,
                               char kind, int needed, float **data) {
    char path[PATH_MAX];
    ATTN_TRY(join(folder, name, path));
    if (!needed && !exists(path)) return attn_ok();
    attn_array array;
    ATTN_TRY(attn_npy_read(path, &array));
    tensor_shape expected = shape_of(problem, kind);
    if (!same_shape(&array, expected)) {
        char is[96], should[96];
        attn_shape_text(array.dims, array.shape, is, sizeof is);
        attn_shape_text(expected.dims, expected.size, should, sizeof should);
        attn_array_free(&array);
        return attn_error(ATTN_BAD_INPUT, "%s: its shape is %s, but must be %s = %s", path, is,
                          should,
                          kind == 'k'   ? "[batch][kv_heads][kv_len][head_dim]"
                          : kind == 'b' ? "[bias_batch][bias_heads][q_len][kv_len]"
                          : kind == 'm' ? "[mask_batch][mask_heads][q_len][kv_len]"
                          : kind == 'l' ? "[batch][heads][q_len]"
                                        : "[batch][heads][q_len][head_dim]");
    }
    *data = array.data;
    return attn_ok();
}

static attn_status load_tensors(const char *folder, attn_case *c) {
    const attn_problem *p = &c->problem;
    ATTN_TRY(load_tensor(folder, "q.npy", p, 'q', 1, &c->q));
    ATTN_TRY(load_tensor(folder, "k.npy", p, 'k', 1, &c->k));
    ATTN_TRY(load_tensor(folder, "v.npy", p, 'k', 1, &c->v));
    ATTN_TRY(load_tensor(folder, "o.npy", p, 'q', 0, &c->o));
    ATTN_TRY(load_tensor(folder, "lse.npy", p, 'l', 0, &c->lse));
    ATTN_TRY(load_tensor(folder, "do.npy", p, 'q', 0, &c->d_o));
    ATTN_TRY(load_tensor(folder, "dq.npy", p, 'q', 0, &c->dq));
    ATTN_TRY(load_tensor(folder, "dk.npy", p, 'k', 0, &c->dk));
    ATTN_TRY(load_tensor(folder, "dv.npy", p, 'k', 0, &c->dv));
    if (p->mask_heads != 0) {
        float *mask = NULL;
        ATTN_TRY(load_tensor(folder, "mask.npy", p, 'm', 1, &mask));
        c->mask = malloc(attn_mask_elements(p) + 1);
        for (size_t e = 0; c->mask && e < attn_mask_elements(p); e++) c->mask[e] = mask[e] != 0;
        free(mask);
        if (!c->mask) return attn_error(ATTN_NO_MEMORY, "%s: no memory for the mask", folder);
    }
    if (p->bias_heads != 0) ATTN_TRY(load_tensor(folder, "bias.npy", p, 'b', 1, &c->bias));
    return p->bias_gradient ? load_tensor(folder, "dbias.npy", p, 'b', 0, &c->dbias) : attn_ok();
}

// ---- a folder without case.txt ----

// The sizes of folder/name, with leading dimensions of 1 put where they were left out.
static attn_status read_shape(const char *folder, const char *name, int64_t size[4]) {
    char path[PATH_MAX];
    ATTN_TRY(join(folder, name, path));
    attn_array array;
    ATTN_TRY(attn_npy_read(path, &array));
    int dims = array.dims;
    for (int i = 0; i < 4; i++) size[i] = i < 4 - dims ? 1 : array.shape[i - (4 - dims)];
    attn_array_free(&array);
    if (dims < 2)
        return attn_error(ATTN_BAD_INPUT,
                          "%s: it has %d dimension%s, but must be [length][head_dim], "
                          "[heads][length][head_dim] or [batch][heads][length][head_dim]",
                          path, dims, dims == 1 ? "" : "s");
    return attn_ok();
}

// A bias or a mask is there when its file is, and broadcast where its shape says so.
static attn_status find_broadcast(const char *folder, const char *name, int64_t *batch,
                                  int64_t *heads) {
    char path[PATH_MAX];
    int64_t size[4];
    ATTN_TRY(join(folder, name, path));
    if (!exists(path)) return attn_ok();
    ATTN_TRY(read_shape(folder, name, size));
    *batch = size[0], *heads = size[1];
    return attn_ok();
}

// q.npy and k.npy say it all; that they and v.npy agree is then checked as for any case.
static attn_status problem_from_shapes(const char *folder, attn_problem *problem) {
    int64_t q[4], k[4];
    ATTN_TRY(read_shape(folder, "q.npy", q));
    ATTN_TRY(read_shape(folder, "k.npy", k));
    *problem = attn_problem_of(q[2], k[2], q[3]);
    problem->batch = q[0], problem->heads = q[1], problem->kv_heads = k[1];
    return attn_ok();
}

// ---- a whole case ----

static attn_status load(const char *folder, attn_case *loaded) {
    char path[PATH_MAX];
    ATTN_TRY(join(folder, "case.txt", path));
    struct stat facts;
    if (stat(folder, &facts) != 0)
        return attn_error(ATTN_IO, "%s: cannot open this folder: %s", folder, strerror(errno));
    if (!S_ISDIR(facts.st_mode))
        return attn_error(ATTN_IO,
                          "%s: this is a file, but must be a folder with q.npy, k.npy and "
                          "v.npy",
                          folder);
    if (exists(path))
        ATTN_TRY(read_case_text(path, loaded));
    else
        ATTN_TRY(problem_from_shapes(folder, &loaded->problem));
    attn_problem *p = &loaded->problem;
    ATTN_TRY(find_broadcast(folder, "bias.npy", &p->bias_batch, &p->bias_heads));
    ATTN_TRY(find_broadcast(folder, "mask.npy", &p->mask_batch, &p->mask_heads));
    attn_status status = attn_problem_check(p);
    if (status.code != ATTN_OK) return attn_error(status.code, "%s: %s", folder, status.text);
    return load_tensors(folder, loaded);
}

attn_status attn_case_load(const char *folder, attn_case *loaded) {
    memset(loaded, 0, sizeof *loaded);
    attn_status status = load(folder, loaded);
    if (status.code != ATTN_OK) attn_case_free(loaded);
    return status;
}

void attn_case_free(attn_case *loaded) {
    void *const tensors[] = {loaded->q,
                             loaded->k,
                             loaded->v,
                             loaded->o,
                             loaded->lse,
                             loaded->d_o,
                             loaded->dq,
                             loaded->dk,
                             loaded->dv,
                             loaded->bias,
                             loaded->dbias,
                             loaded->mask,
                             loaded->q_cumulative,
                             loaded->kv_cumulative};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) free(tensors[i]);
    memset(loaded, 0, sizeof *loaded);
}

// ---- a case made up ----

static attn_status make_random(attn_input_kind kind, uint64_t seed, int with_d_o, attn_case *c) {
    const attn_problem *p = &c->problem;
    const size_t q = attn_q_elements(p), kv = attn_kv_elements(p);
    const size_t bias = attn_bias_elements(p), mask = attn_mask_elements(p);
    c->q = malloc(4 * q + 1), c->k = malloc(4 * kv + 1), c->v = malloc(4 * kv + 1);
    c->d_o = with_d_o ? malloc(4 * q + 1) : NULL;
    c->bias = p->bias_heads != 0 ? malloc(4 * bias + 1) : NULL;
    c->mask = p->mask_heads != 0 ? malloc(mask + 1) : NULL;
    if (!c->q || !c->k || !c->v || (with_d_o && !c->d_o) || (p->bias_heads != 0 && !c->bias) ||
        (p->mask_heads != 0 && !c->mask))
        return attn_error(ATTN_NO_MEMORY, "the problem's tensors need %.1f MB of memory",
                          4e-6 * ((with_d_o ? 2.0 : 1.0) * (double)q + 2.0 * (double)kv +
                                  (double)bias + (double)mask / 4));
    attn_input_fill(kind, seed, p, c->q, c->k, c->v, c->d_o);
    attn_input_fill_scores(seed, p, c->bias, c->mask);
    return attn_ok();
}

attn_status attn_case_random(const attn_problem *problem, attn_input_kind kind, uint64_t seed,
                             int with_d_o, attn_case *made) {
    memset(made, 0, sizeof *made);
    made->problem = *problem;
    const attn_status status = make_random(kind, seed, with_d_o, made);
    if (status.code != ATTN_OK) attn_case_free(made);
    return status;
}

attn_inputs attn_case_inputs(const attn_case *c) {
    return (attn_inputs){c->q, c->k, c->v, c->d_o, c->bias, c->mask};
}

// ---- results ----

attn_status attn_case_save_output(const char *folder, const attn_problem *problem, const float *o,
                                  const float *lse, const float *dq, const float *dk,
                                  const float *dv, const float *dbias) {
    const struct {
        const char *name;
        char kind;
        const float *data;
    } tensors[] = {{"o.npy", 'q', o},   {"lse.npy", 'l', lse}, {"dq.npy", 'q', dq},
                   {"dk.npy", 'k', dk}, {"dv.npy", 'k', dv},   {"dbias.npy", 'b', dbias}};
    enum { TENSORS = sizeof tensors / sizeof tensors[0] };

    char path[TENSORS][PATH_MAX];
    attn_npy_output outputs[TENSORS];
    int count = 0;
    for (int i = 0; i < TENSORS; i++) {
        if (tensors[i].data == NULL) continue;
        ATTN_TRY(join(folder, tensors[i].name, path[count]));
        tensor_shape shape = shape_of(problem, tensors[i].kind);
        outputs[count] =
            (attn_npy_output){.path = path[count], .dims = shape.dims, .data = tensors[i].data};
        memcpy(outputs[count].shape, shape.size, sizeof outputs[count].shape);
        count++;
    }

    int made = mkdir(folder, 0777) == 0;
    if (!made && errno != EEXIST)
        return attn_error(ATTN_IO, "%s: cannot make this folder: %s", folder, strerror(errno));
    attn_status status = attn_npy_write_all(outputs, count);
    if (status.code != ATTN_OK && made) rmdir(folder); // only if it is still empty
    return status;
}
