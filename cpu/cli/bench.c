// bench.c -- placeholder
#include "cpu/cli/commands.h"
int attn_command_bench(const attn_options *options) {
    (void)options;
    return 2;
}
