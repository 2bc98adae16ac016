// plain.c -- the emulator without the checks: counts bytes, finds what it meets on the way.
#include "gpu/emulator/runtime.h"

const emu_checks *const emu_check = NULL;
const char *const emu_device_kind = "emulator";
