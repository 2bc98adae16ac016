// commands.h -- the subcommands of build/attention. Each returns the exit status: 0, or 1 where a check
// failed, or 2 where something was refused.
#ifndef ATTN_COMMANDS_H
#define ATTN_COMMANDS_H

#include "cpu/cli/options.h"
#include "cpu/modules.h"

int attn_command_list_stages(const attn_options *options);
int attn_command_run(const attn_options *options);
int attn_command_check(const attn_options *options);
int attn_command_chapter(const attn_options *options);
int attn_command_bench(const attn_options *options);
int attn_command_pass(const attn_options *options);
int attn_command_traffic(const attn_options *options);
int attn_command_tiles(const attn_options *options);
int attn_command_features(const attn_options *options);
int attn_command_trace(const attn_options *options);
int attn_command_scenarios(const attn_options *options);

// Prints "attention: <sentence>" on standard error; returns the status' exit status.
int attn_complain(attn_status status);

// Loads the stages of the devices on this machine: of `only` when given, else host, emulator and gpu.
// With `only`, the device must be there. The host's naive stage is always loaded: it is the yardstick.
attn_status attn_load_devices(const char *only, attn_modules *modules);

#endif
