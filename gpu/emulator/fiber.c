// fiber.c -- see fiber.h.
//
// A switch saves what the calling convention says a callee must keep, on the stack it leaves, and
// swaps stack pointers: 6 registers on x86-64, 12 and the low halves of 8 vector registers on
// aarch64. The floating-point control words are the same in all fibers.
#if defined(__APPLE__)
#define _XOPEN_SOURCE 700 // for ucontext.h
#define _DARWIN_C_SOURCE
#endif
#include "gpu/emulator/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(EMU_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define BEFORE_SWITCH(save, to) \
    __sanitizer_start_switch_fiber((save), (to)->stack, (to)->stack_bytes)
#define AFTER_SWITCH(saved, bottom, bytes) \
    __sanitizer_finish_switch_fiber((saved), (bottom), (bytes))
#else
#define BEFORE_SWITCH(save, to)
#define AFTER_SWITCH(saved, bottom, bytes)
#endif

#if defined(EMU_UCONTEXT)

static void swap(emu_fiber *from, emu_fiber *to) {
    swapcontext(&from->context, &to->context);
}

static void set_up(emu_fiber *fiber, void (*entry)(void)) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = (void *)fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_bytes;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, entry, 0);
}

#else

// Not .globl: each module has its own, and nothing outside this file calls it.
__attribute__((visibility("hidden"))) void emu_swap_stacks(void **save, void *to);

#define SYMBOL_2(prefix, name) #prefix #name
#define SYMBOL_1(prefix, name) SYMBOL_2(prefix, name)
#define SYMBOL(name)           SYMBOL_1(__USER_LABEL_PREFIX__, name)

#if defined(__x86_64__)
enum { SAVED = 6, RETURN_TO = 6 }; // words pushed; where `ret` finds its address
__asm__(".text\n.p2align 4\n" SYMBOL(
    emu_swap_stacks) ":\n"
                     "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
                     "movq %rsp, (%rdi)\n"
                     "movq %rsi, %rsp\n"
                     "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
                     "ret\n");
#else
enum { SAVED = 20, RETURN_TO = 11 }; // x19 to x30, d8 to d15; x30 holds the return address
__asm__(".text\n.p2align 4\n" SYMBOL(
    emu_swap_stacks) ":\n"
                     "sub sp, sp, #160\n"
                     "stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
                     "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n"
                     "stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n"
                     "stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
                     "mov x9, sp\n str x9, [x0]\n"
                     "mov sp, x1\n"
                     "ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n"
                     "ldp x25, x26, [sp, #48]\n ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n"
                     "ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n"
                     "ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
                     "add sp, sp, #160\n"
                     "ret\n");
#endif

static void swap(emu_fiber *from, emu_fiber *to) {
    emu_swap_stacks(&from->stack_pointer, to->stack_pointer);
}

static void set_up(emu_fiber *fiber, void (*entry)(void)) {
    uintptr_t top = ((uintptr_t)fiber->stack + fiber->stack_bytes) & ~(uintptr_t)15;
    // Above the saved registers: a null return address for `entry`, which never returns, placed so
    // that the stack is aligned at its first instruction as after a call.
    void **words = (void **)top - 2 - (SAVED & 1);
    words[0] = words[1] = NULL;
    words -= SAVED;
    memset(words, 0, SAVED * sizeof *words);
    words[RETURN_TO] = (void *)entry;
    fiber->stack_pointer = words;
}

#endif

void emu_fiber_prepare(emu_fiber *fiber, char *stack, size_t bytes, void (*entry)(void)) {
    fiber->stack = stack;
    fiber->stack_bytes = bytes;
    fiber->fake_stack = NULL;
    set_up(fiber, entry);
}

void emu_fiber_started(emu_fiber *home) {
    (void)home;
#if defined(EMU_ASAN)
    // The first fiber is entered from home, and this is where home's stack becomes known.
    if (home->stack)
        AFTER_SWITCH(NULL, NULL, NULL);
    else
        AFTER_SWITCH(NULL, &home->stack, &home->stack_bytes);
#endif
}

void emu_fiber_switch(emu_fiber *from, emu_fiber *to) {
    BEFORE_SWITCH(&from->fake_stack, to);
    swap(from, to);
    AFTER_SWITCH(from->fake_stack, NULL, NULL);
}

void emu_fiber_leave(emu_fiber *from, emu_fiber *to) {
    BEFORE_SWITCH(NULL, to);
    swap(from, to);
    abort(); // nothing continues a fiber that has left
}

void emu_fiber_forget(emu_fiber *fiber) {
    (void)fiber;
#if defined(EMU_ASAN)
    ASAN_UNPOISON_MEMORY_REGION(fiber->stack, fiber->stack_bytes);
#endif
}
