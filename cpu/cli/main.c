// main.c -- build/attention: the one program behind all make targets.
#include "cpu/cli/commands.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

int attn_complain(attn_status status) {
    if (status.code == ATTN_OK) return 0;
    fflush(stdout);
    fprintf(stderr, "attention: %s\n", status.text);
    return attn_exit_status(status);
}

attn_status attn_load_devices(const char *only, attn_modules *modules) {
    memset(modules, 0, sizeof *modules);
    if (only) ATTN_TRY(attn_device_usable(only));
    ATTN_TRY(attn_modules_load("host", modules));
    for (int i = 0; attn_device_kinds[i]; i++) {
        const char *kind = attn_device_kinds[i];
        const int wanted = only ? strcmp(kind, only) == 0
                                : strcmp(kind, "check") != 0 && strcmp(kind, "count") != 0;
        if (wanted && strcmp(kind, "host") != 0) ATTN_TRY(attn_modules_load(kind, modules));
    }
    if (modules->module_count == 0)
        return attn_error(ATTN_IO, "no chapter is built in %s: run make chapters",
                          attn_modules_folder());
    return attn_ok();
}

static void print_usage(void) {
    printf("attention: runs, proves and measures the stages of all chapters\n\n");
    attn_command_list();
    printf("\nattention COMMAND --help says more. Exit status: 0 good, 1 a check failed, "
           "2 refused.\n");
}

static int run_command(attn_command command, const attn_options *options) {
    switch (command) {
    case ATTN_COMMAND_LIST:
        return attn_command_list_stages(options);
    case ATTN_COMMAND_RUN:
        return attn_command_run(options);
    case ATTN_COMMAND_CHECK:
        return attn_command_check(options);
    case ATTN_COMMAND_CHAPTER:
        return attn_command_chapter(options);
    case ATTN_COMMAND_BENCH:
        return attn_command_bench(options);
    case ATTN_COMMAND_PASS:
        return attn_command_pass(options);
    case ATTN_COMMAND_TRAFFIC:
        return attn_command_traffic(options);
    case ATTN_COMMAND_TILES:
        return attn_command_tiles(options);
    case ATTN_COMMAND_FEATURES:
        return attn_command_features(options);
    case ATTN_COMMAND_TRACE:
        return attn_command_trace(options);
    case ATTN_COMMAND_SCENARIOS:
        return attn_command_scenarios(options);
    }
    return 2;
}

// What could not be written, to a full disk say, was not said: half a table is no answer.
static int check_output(int exit_status) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return exit_status;
    fprintf(stderr, "attention: the output could not be written\n");
    return 2;
}

int main(int argc, char **argv) {
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); // a file too large is then an error of write, with a sentence
#endif
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage();
        return check_output(argc < 2 ? 2 : 0);
    }
    const attn_command command = attn_command_of(argv[1]);
    if (command == 0)
        return attn_complain(
            attn_error(ATTN_BAD_INPUT, "there is no command '%s'; see attention --help", argv[1]));
    attn_options options;
    const attn_status status = attn_options_parse(command, argc, argv, &options);
    if (status.code != ATTN_OK) return attn_complain(status);
    if (options.help) {
        attn_options_help(command);
        return check_output(0);
    }
    return check_output(run_command(command, &options));
}
