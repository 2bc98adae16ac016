// plain.c -- the emulator without the checks: counts bytes, finds what it meets on the way.
#include "gpu/emulator/runtime.h"

// Weak: where check.c is linked as well, its definitions are taken.
const emu_checks *const emu_check __attribute__((weak)) = NULL;
const char *const emu_device_kind __attribute__((weak)) = "emulator";
