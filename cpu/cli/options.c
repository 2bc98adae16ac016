// options.c -- see options.h.
#include "cpu/cli/options.h"
#include "cpu/runner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command_row {
    attn_command command;
    const char *name, *operand, *does;
} command_row;

static const command_row commands[] = {
    {ATTN_COMMAND_LIST, "list", NULL,
     "lists the stages of all chapters and the devices they run on"},
    {ATTN_COMMAND_CHAPTER, "chapter", "N", "proves chapter N's stages, then measures them"},
    {ATTN_COMMAND_RUN, "run", "STAGE", "computes o and lse (and dq, dk, dv) of a case folder"},
    {ATTN_COMMAND_CHECK, "check", "STAGE|all", "compares stages with what a case folder expects"},
    {ATTN_COMMAND_BENCH, "bench", NULL,
     "times the host's stages against an FMA probe, or the GPU's"},
    {ATTN_COMMAND_PASS, "pass", "STAGE",
     "runs one pass of a stage once, from an empty L2 cache, for a profiler to watch"},
    {ATTN_COMMAND_TRAFFIC, "traffic", NULL,
     "bytes of all stages: asked for by the formula, by count, and what reaches DRAM"},
    {ATTN_COMMAND_TILES, "tiles", NULL,
     "bytes by tile sizes, the shared memory a block needs, and which GPUs have it"},
    {ATTN_COMMAND_FEATURES, "features", NULL,
     "what each feature costs the stage that does them all: error, FLOPs, bytes, time"},
    {ATTN_COMMAND_TRACE, "trace", "N",
     "a tiny problem step by step, as chapter N's code computes it (make traceN builds it)"},
    {ATTN_COMMAND_SCENARIOS, "scenarios", NULL,
     "training, prefill and decoding: FLOPs, bytes, memory, blocks, and times where there are "
     "some"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

enum {
    BYTES = ATTN_COMMAND_PASS | ATTN_COMMAND_TRAFFIC | ATTN_COMMAND_TILES,
    PROBLEM = ATTN_COMMAND_CHAPTER | ATTN_COMMAND_BENCH | BYTES,
    SIZES = PROBLEM | ATTN_COMMAND_FEATURES, // which turns on one feature after the other by itself
    CASE = ATTN_COMMAND_RUN | ATTN_COMMAND_CHECK,
    EVERY = 0x7ff,
    TINY = PROBLEM | ATTN_COMMAND_TRACE, // what a tiny problem has, too
    SIZE = TINY | ATTN_COMMAND_FEATURES,
};

typedef struct option_row {
    const char *name, *value; // value NULL: a switch
    int commands;
    const char *help;
    int is_size;
} option_row;

static const option_row rows[] = {
    {"--n", "N", SIZE, "queries and keys (1024)", 1},
    {"--qlen", "N", SIZE, "queries, when they are not as many as the keys", 1},
    {"--kvlen", "N", SIZE, "keys, when they are not as many as the queries", 1},
    {"--batch", "B", SIZES, "batch (1)", 1},
    {"--heads", "H", SIZES, "query heads (4)", 1},
    {"--kvheads", "H", PROBLEM,
     "key and value heads, of which the query heads are a multiple (as many)", 1},
    {"--dim", "D", SIZE, "head dimension d (64)", 1},
    {"--scale", "X", SIZE, "factor on Q K^T, any finite number (1/sqrt(d))", 0},
    {"--causal", "0|1", TINY, "1: query i sees key j when j <= i + kv_len - q_len", 0},
    {"--window", "W", TINY, "each query sees the W keys up to its own position, 0: all", 0},
    {"--window-right", "W", TINY, "each query sees the W keys from its own position on, 0: all", 0},
    {"--align", "CORNER", TINY,
     "where causal's diagonal ends, bottom-right or top-left: query i then sees keys j <= i", 0},
    {"--lengths", "A,B,...", PROBLEM,
     "variable lengths: queries and keys of each sequence, packed; instead of --n", 1},
    {"--softcap", "X", PROBLEM, "scores become X tanh(score / X), 0: off", 0},
    {"--alibi", "0|1", PROBLEM, "1: scores fall with the distance, by a slope of each head", 0},
    {"--bias", "HOW", PROBLEM, "adds a random bias: none, one for all heads, or each its own", 0},
    {"--dbias", "0|1", PROBLEM, "1: the bias has a gradient", 0},
    {"--mask", "HOW", PROBLEM, "a random mask of bytes: none, one for all heads, or each its own",
     0},
    {"--dropout", "P", PROBLEM, "probability that a weight is dropped, 0 to below 1", 0},
    {"--layout", "LAYOUT", PROBLEM, "in memory: bhnd, or bnhd, where heads lie within rows (bhnd)",
     0},
    {"--br", "BR", TINY, "queries a tile, for stages whose tiles can be chosen", 0},
    {"--bc", "BC", TINY, "keys a tile", 0},
    {"--seed", "S", SIZE, "seed of the random input (1; of trace 161)", 0},
    {"--kind", "KIND", SIZE, "random input: normal, outliers, wide, equal or rising", 0},
    {"--input", "DIR", ATTN_COMMAND_CHAPTER, "measure on q.npy, k.npy, v.npy of this folder", 0},
    {"--case", "DIR", CASE, "the case: q.npy, k.npy, v.npy, case.txt and what is expected", 0},
    {"--out", "DIR", ATTN_COMMAND_RUN, "where the results go: o.npy, lse.npy and the gradients", 0},
    {"--device", "DEVICE", CASE | SIZES | ATTN_COMMAND_LIST, "host, emulator, check, gpu or count",
     0},
    {"--no-fallback", NULL, ATTN_COMMAND_RUN | ATTN_COMMAND_CHAPTER,
     "refuse what the stage, or all of the chapter's, cannot do; else another takes its place", 0},
    {"--pass", "PASS", BYTES, "forward or backward (forward)", 0},
    {"--to", "N", ATTN_COMMAND_TRAFFIC, "doubles N from --n up to this one", 0},
    {"--count-to", "N", ATTN_COMMAND_TRAFFIC,
     "counts up to this N, and beyond it shows the formula alone (counts all)", 0},
    {"--repeat", "R", SIZES & ~BYTES,
     "runs of each pass, of which the median time is shown (5; chapter: and what differs between "
     "them)",
     0},
    {"--rounds", "R", ATTN_COMMAND_BENCH | ATTN_COMMAND_FEATURES,
     "interleaved rounds of which the median is shown (7)", 0},
    {"--write-table", "FILE", ATTN_COMMAND_BENCH | ATTN_COMMAND_LIST,
     "renew the generated table in this file; may be repeated", 0},
    {"--csv", NULL, EVERY & ~ATTN_COMMAND_RUN & ~ATTN_COMMAND_PASS & ~ATTN_COMMAND_TRACE,
     "print comma-separated values", 0},
    {"--help", NULL, EVERY, "this text", 0},
};
enum { ROWS = sizeof rows / sizeof rows[0] };
_Static_assert(ROWS <= 64, "attn_options_parse has a bit for each");

attn_command attn_command_of(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return commands[i].command;
    return (attn_command)0;
}

static const command_row *row_of_command(attn_command command) {
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i].command == command) return &commands[i];
    return NULL;
}

const char *attn_command_name(attn_command command) {
    return row_of_command(command)->name;
}

void attn_command_list(void) {
    for (int i = 0; i < COMMANDS; i++) {
        char usage[40];
        snprintf(usage, sizeof usage, "%s %s", commands[i].name,
                 commands[i].operand ? commands[i].operand : "");
        printf("  attention %-17s %s\n", usage, commands[i].does);
    }
}

void attn_options_help(attn_command command) {
    const command_row *row = row_of_command(command);
    printf("attention %s%s%s [options]: %s\n\n", row->name, row->operand ? " " : "",
           row->operand ? row->operand : "", row->does);
    for (int i = 0; i < ROWS; i++) {
        char usage[40];
        if (!(rows[i].commands & command)) continue;
        snprintf(usage, sizeof usage, "%s %s", rows[i].name, rows[i].value ? rows[i].value : "");
        printf("  %-20s %s\n", usage, rows[i].help);
    }
}

// What a number may be, and where it goes.
static attn_status parse_whole(const char *name, const char *text, int64_t least, int64_t most,
                               int64_t *out) {
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != 0)
        return attn_error(ATTN_BAD_INPUT, "%s is '%s'; it must be a whole number", name, text);
    if (errno == ERANGE || value < least || value > most)
        return attn_error(ATTN_BAD_INPUT, "%s is %s; it must be from %lld to %lld", name, text,
                          (long long)least, (long long)most);
    *out = value;
    return attn_ok();
}

static attn_status parse_real(const char *name, const char *text, float *out) {
    char *end = NULL;
    const float value = strtof(text, &end);
    if (end == text || *end != 0)
        return attn_error(ATTN_BAD_INPUT, "%s is '%s'; it must be a number", name, text);
    if (value == 0 && strtod(text, NULL) != 0)
        return attn_error(ATTN_BAD_INPUT, "%s is %s, which a float cannot tell from 0", name, text);
    *out = value; // NaN and infinity are refused where the problem is checked
    return attn_ok();
}

static attn_status parse_pass(const char *text, attn_pass *out) {
    if (strcmp(text, "forward") != 0 && strcmp(text, "backward") != 0)
        return attn_error(ATTN_BAD_INPUT, "--pass is '%s'; it must be forward or backward", text);
    *out = text[0] == 'f' ? ATTN_FORWARD : ATTN_BACKWARD;
    return attn_ok();
}

static attn_status parse_device(const char *text, const char **out) {
    static const char *const known[] = {"host", "emulator", "check", "gpu", "count"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(text, known[i]) == 0) return *out = known[i], attn_ok();
    return attn_error(ATTN_BAD_INPUT,
                      "--device is '%s'; it must be host, emulator, check, gpu or count", text);
}

// One of the words in `known` ("none|one|each"), as its number.
static attn_status parse_word(const char *name, const char *text, const char *known, int *out) {
    const size_t length = strlen(text);
    int number = 0;
    for (const char *word = known; word; number++) {
        if (length > 0 && strncmp(word, text, length) == 0 &&
            (word[length] == '|' || word[length] == 0))
            return *out = number, attn_ok();
        word = strchr(word, '|');
        if (word) word++;
    }
    return attn_error(ATTN_BAD_INPUT, "%s is '%s'; it must be one of %s", name, text, known);
}

// "100,0,28" as cumulative lengths.
static attn_status parse_lengths(const char *text, attn_options *o) {
    enum { MOST = sizeof o->cumulative / sizeof o->cumulative[0] - 1 };
    int64_t total = 0, count = 0;
    for (const char *at = text;; at++) {
        char *end = NULL;
        const long long length = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
        if (length < 0 || length >= 1 << 30 || (*end != ',' && *end != 0) || count == MOST)
            return attn_error(ATTN_BAD_INPUT,
                              "--lengths (LENGTHS) is '%.80s'; it must be up to %d whole numbers "
                              "below 2^30 with commas between, like 100,0,28",
                              text, (int)MOST);
        total += length;
        if (total >= 1 << 30)
            return attn_error(ATTN_BAD_INPUT, "--lengths (LENGTHS) adds up to 2^30 or more");
        o->cumulative[++count] = (int32_t)total;
        if (*end == 0) break;
        at = end;
    }
    o->problem.sequences = count;
    return attn_ok();
}

typedef struct raw_knobs { // before defaults depend on each other
    int64_t n, q_len, kv_len, kv_heads, causal;
    int scale_given, rows_given, top_left, bias, mask, rows_outside;
} raw_knobs;

static attn_status set_option(const char *name, const char *value, attn_options *o,
                              raw_knobs *raw) {
    const int64_t any = ((int64_t)1 << 30) - 1; // attn_problem_check has the finer limits
    int64_t number = 0;
    attn_problem *p = &o->problem;
#define IS(text) (strcmp(name, text) == 0)
    raw->rows_given |= IS("--n") || IS("--qlen") || IS("--kvlen");
    if (IS("--n")) return parse_whole("--n (N)", value, 0, any, &raw->n);
    if (IS("--qlen")) return parse_whole("--qlen (QLEN)", value, 0, any, &raw->q_len);
    if (IS("--kvlen")) return parse_whole("--kvlen (KVLEN)", value, 0, any, &raw->kv_len);
    if (IS("--batch")) return parse_whole("--batch (BATCH)", value, 0, any, &p->batch);
    if (IS("--heads")) return parse_whole("--heads (HEADS)", value, 1, any, &p->heads);
    if (IS("--kvheads")) return parse_whole("--kvheads (KVHEADS)", value, 1, any, &raw->kv_heads);
    if (IS("--dim")) return parse_whole("--dim (DIM)", value, 1, any, &p->head_dim);
    if (IS("--scale")) return raw->scale_given = 1, parse_real("--scale (SCALE)", value, &p->scale);
    if (IS("--causal")) return parse_whole("--causal (CAUSAL)", value, 0, 1, &raw->causal);
    if (IS("--window")) return parse_whole("--window (WINDOW)", value, 0, any, &p->window_left);
    if (IS("--window-right"))
        return parse_whole("--window-right (WINDOWRIGHT)", value, 0, any, &p->window_right);
    if (IS("--align"))
        return parse_word("--align (ALIGN)", value, "bottom-right|top-left", &raw->top_left);
    if (IS("--lengths")) return parse_lengths(value, o);
    if (IS("--softcap")) return parse_real("--softcap (SOFTCAP)", value, &p->softcap);
    if (IS("--dropout")) return parse_real("--dropout (DROPOUT)", value, &p->dropout);
    if (IS("--alibi") || IS("--dbias")) {
        ATTN_TRY(parse_whole(IS("--alibi") ? "--alibi (ALIBI)" : "--dbias (DBIAS)", value, 0, 1,
                             &number));
        return *(IS("--alibi") ? &p->alibi : &p->bias_gradient) = (int)number, attn_ok();
    }
    if (IS("--bias")) return parse_word("--bias (BIAS)", value, "none|one|each", &raw->bias);
    if (IS("--mask")) return parse_word("--mask (MASK)", value, "none|one|each", &raw->mask);
    if (IS("--layout"))
        return parse_word("--layout (LAYOUT)", value, "bhnd|bnhd", &raw->rows_outside);
    if (IS("--br")) return parse_whole("--br (BR)", value, 1, any, &p->br);
    if (IS("--bc")) return parse_whole("--bc (BC)", value, 1, any, &p->bc);
    if (IS("--seed")) {
        ATTN_TRY(parse_whole("--seed (SEED)", value, 0, INT64_MAX, &number));
        return o->seed = (uint64_t)number, attn_ok();
    }
    if (IS("--repeat")) {
        ATTN_TRY(parse_whole("--repeat (REPEAT)", value, 1, ATTN_MAX_REPEATS, &number));
        return o->repeats = (int)number, o->repeats_given = 1, attn_ok();
    }
    if (IS("--rounds")) {
        ATTN_TRY(parse_whole(name, value, 1, 64, &number));
        return o->rounds = (int)number, attn_ok();
    }
    if (IS("--kind")) return attn_input_parse(value, &o->input);
    if (IS("--pass")) return parse_pass(value, &o->pass);
    if (IS("--to")) return parse_whole("--to (TO)", value, 1, any, &o->most_n);
    if (IS("--count-to")) return parse_whole("--count-to (COUNT)", value, 0, any, &o->counted_n);
    if (IS("--device")) return parse_device(value, &o->device);
    if (IS("--input")) return o->input_folder = value, attn_ok();
    if (IS("--case")) return o->case_folder = value, attn_ok();
    if (IS("--out")) return o->out_folder = value, attn_ok();
    if (IS("--write-table")) {
        if (o->write_tables == sizeof o->write_table / sizeof o->write_table[0])
            return attn_error(ATTN_BAD_INPUT, "--write-table is given more than 4 times");
        return o->write_table[o->write_tables++] = value, attn_ok();
    }
    if (IS("--no-fallback")) return o->no_fallback = 1, attn_ok();
    if (IS("--csv")) return o->csv = 1, attn_ok();
    if (IS("--help")) return o->help = 1, attn_ok();
#undef IS
    return attn_error(ATTN_BAD_INPUT, "unknown option %s", name);
}

static attn_status finish_problem(attn_options *o, const raw_knobs *raw) {
    attn_problem *p = &o->problem;
    p->q_len = raw->q_len != INT64_MIN ? raw->q_len : raw->n;
    p->kv_len = raw->kv_len != INT64_MIN ? raw->kv_len : raw->n;
    p->kv_heads = raw->kv_heads != INT64_MIN ? raw->kv_heads : p->heads;
    p->causal = raw->causal ? ATTN_CAUSAL_BOTTOM_RIGHT : ATTN_CAUSAL_OFF;
    if (raw->top_left && !raw->causal)
        return attn_error(ATTN_BAD_INPUT, "--align top-left says where the diagonal of --causal 1 "
                                          "ends; without it there is none");
    if (raw->top_left) p->causal = ATTN_CAUSAL_TOP_LEFT;
    if (p->sequences != 0) {
        if (raw->rows_given)
            return attn_error(ATTN_BAD_INPUT,
                              "--lengths (LENGTHS) already says how many queries and keys there "
                              "are: leave --n, --qlen and --kvlen (N, QLEN, KVLEN) away");
        p->q_cumulative = p->kv_cumulative = o->cumulative;
        p->q_len = p->kv_len = o->cumulative[p->sequences];
    }
    if (raw->bias) p->bias_batch = raw->bias == 1 ? 1 : p->batch;
    if (raw->bias) p->bias_heads = raw->bias == 1 ? 1 : p->heads;
    if (raw->mask) p->mask_batch = raw->mask == 1 ? 1 : p->batch;
    if (raw->mask) p->mask_heads = raw->mask == 1 ? 1 : p->heads;
    p->dropout_seed = o->seed;
    if (raw->rows_outside) {
        const int64_t d = p->head_dim, row = p->heads * d, kv_row = p->kv_heads * d;
        p->q_stride = p->o_stride = (attn_stride){p->q_len * row, d, row};
        p->k_stride = p->v_stride = (attn_stride){p->kv_len * kv_row, d, kv_row};
    }
    // As in a case's `window`: the W keys up to the query's own. Without CAUSAL=1 later keys are seen.
    if (!raw->scale_given) p->scale = attn_default_scale(p->head_dim);
    if (o->most_n && o->most_n < p->kv_len)
        return attn_error(ATTN_BAD_INPUT,
                          "--to (TO) is %lld, less than the %lld keys it starts from",
                          (long long)o->most_n, (long long)p->kv_len);
    return attn_problem_check(p);
}

static attn_status check_operand(attn_command command, const attn_options *o) {
    const char *operand = row_of_command(command)->operand;
    if (operand && !o->operand)
        return attn_error(ATTN_BAD_INPUT, "attention %s needs %s; see attention %s --help",
                          attn_command_name(command), operand, attn_command_name(command));
    if (command & CASE && !o->case_folder)
        return attn_error(ATTN_BAD_INPUT, "attention %s needs --case DIR",
                          attn_command_name(command));
    if (command == ATTN_COMMAND_RUN && !o->out_folder)
        return attn_error(ATTN_BAD_INPUT, "attention run needs --out DIR");
    return attn_ok();
}

attn_status attn_options_parse(attn_command command, int argc, char **argv, attn_options *o) {
    memset(o, 0, sizeof *o);
    o->problem = attn_problem_of(1024, 1024, 64);
    o->problem.heads = 4;
    o->seed = 1, o->repeats = 5, o->rounds = 7, o->counted_n = INT64_MAX;
    raw_knobs raw = {.n = 1024, .q_len = INT64_MIN, .kv_len = INT64_MIN, .kv_heads = INT64_MIN};
    if (command == ATTN_COMMAND_TRACE) {
        o->problem = attn_problem_of(0, 0, 2);
        o->problem.scale = 1, raw.n = 0, raw.scale_given = 1;
        o->seed = 161; // a problem in which the maximum moves late, too
    }
    uint64_t given = 0; // a bit for each of rows[]
    for (int i = 2; i < argc; i++) {
        const option_row *row = NULL;
        if (argv[i][0] != '-') {
            if (o->operand || !row_of_command(command)->operand)
                return attn_error(ATTN_BAD_INPUT, "attention %s does not take '%s'",
                                  attn_command_name(command), argv[i]);
            o->operand = argv[i];
            continue;
        }
        for (int r = 0; r < ROWS; r++)
            if (rows[r].commands & command && strcmp(rows[r].name, argv[i]) == 0) row = &rows[r];
        if (!row)
            return attn_error(ATTN_BAD_INPUT,
                              "attention %s has no option %s; see attention %s --help",
                              attn_command_name(command), argv[i], attn_command_name(command));
        // Which of two values is meant, nobody can know. Files to write to may be several.
        if (given & (uint64_t)1 << (row - rows) && strcmp(row->name, "--write-table") != 0)
            return attn_error(ATTN_BAD_INPUT, "%s is given twice", row->name);
        given |= (uint64_t)1 << (row - rows);
        if (row->value && i + 1 == argc)
            return attn_error(ATTN_BAD_INPUT, "%s needs a value: %s %s", row->name, row->name,
                              row->value);
        o->sizes_given |= row->is_size;
        ATTN_TRY(set_option(row->name, row->value ? argv[++i] : NULL, o, &raw));
    }
    if (o->help) return attn_ok();
    ATTN_TRY(check_operand(command, o));
    return finish_problem(o, &raw);
}
