// options.h -- the command line: one table of options, from which parsing and --help both follow.
#ifndef ATTN_OPTIONS_H
#define ATTN_OPTIONS_H

#include "cpu/input.h"
#include "cpu/problem.h"
#include "cpu/stage.h"

typedef enum attn_command {
    ATTN_COMMAND_LIST = 1,
    ATTN_COMMAND_CHAPTER = 2,
    ATTN_COMMAND_RUN = 4,
    ATTN_COMMAND_CHECK = 8,
    ATTN_COMMAND_BENCH = 16,
    ATTN_COMMAND_PASS = 32,
    ATTN_COMMAND_TRAFFIC = 64,
    ATTN_COMMAND_TILES = 128,
    ATTN_COMMAND_FEATURES = 256,
    ATTN_COMMAND_TRACE = 512,
    ATTN_COMMAND_SCENARIOS = 1024,
} attn_command;

typedef struct attn_options {
    const char
        *operand; // STAGE of run and check, N of chapter and trace; NULL when the command has none
    const char
        *device; // "host", "emulator", "check", "gpu", "count"; NULL: the command's own choice

    attn_problem problem;   // from the knobs; B=1 H=4 N=1024 d=64 where they are silent; of
                            // trace H=1 d=2 scale 1, and lengths of 0
    int32_t cumulative[65]; // the problem's, when --lengths is given
    int sizes_given;        // 1: some size was set, not only left at its default
    uint64_t seed;
    attn_input_kind input;

    const char *case_folder, *out_folder, *input_folder;
    int repeats, rounds;
    int repeats_given; // 1: the runs are also compared with each other
    attn_pass pass;    // of pass, traffic and tiles
    int64_t most_n;    // traffic: N doubles up to this one, from kv_len on; 0: one problem
    int64_t counted_n; // traffic: up to this N it is counted, beyond it the formula stands alone
    int csv, no_fallback, help;
    const char *write_table[4]; // bench: the files whose generated table it renews
    int write_tables;
} attn_options;

// Reads argv[2..]. ATTN_BAD_INPUT: an option that the command does not have or that is given twice, a
// value that is no number or out of range, a missing or superfluous operand.
attn_status attn_options_parse(attn_command command, int argc, char **argv, attn_options *options);

// Prints what the command does and each of its options.
void attn_options_help(attn_command command);
const char *attn_command_name(attn_command command);
// The command of that name, 0 when there is none.
attn_command attn_command_of(const char *name);
void attn_command_list(void); // one line each

#endif
