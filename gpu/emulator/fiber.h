// fiber.h -- one GPU thread's stack and place of execution; switching costs a few nanoseconds.
//
// Hand-written for x86-64 and aarch64 (fiber.c), <ucontext.h> elsewhere or with EMU_UCONTEXT defined.
// AddressSanitizer is told of every switch, so that sanitized kernels run as usual.
#ifndef GPU_EMULATOR_FIBER_H
#define GPU_EMULATOR_FIBER_H

#include <stddef.h>

#if !defined(EMU_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define EMU_UCONTEXT
#endif
#if defined(EMU_UCONTEXT)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMU_ASAN 1
#endif
#endif

typedef struct emu_fiber {
#if defined(EMU_UCONTEXT)
    ucontext_t context;
#else
    void *stack_pointer;
#endif
    const void *stack; // lowest address; of a home fiber known only to AddressSanitizer
    size_t stack_bytes;
    void *fake_stack; // AddressSanitizer's
} emu_fiber;

// Makes `entry` what the next switch to the fiber starts, at the top of the given stack.
void emu_fiber_prepare(emu_fiber *fiber, char *stack, size_t bytes, void (*entry)(void));

// `entry` calls this first; `home` is the fiber (the OS thread's own) that started the first one.
void emu_fiber_started(emu_fiber *home);

// Saves the caller in `from` and continues `to`; returns when something continues `from`.
void emu_fiber_switch(emu_fiber *from, emu_fiber *to);

// Continues `to` for good: what is on `from`'s stack is given up.
void emu_fiber_leave(emu_fiber *from, emu_fiber *to) __attribute__((noreturn));

// Clears what AddressSanitizer remembers of frames that were given up.
void emu_fiber_forget(emu_fiber *fiber);

#endif
