// trap.c -- a fault inside a kernel becomes a finding: an access to device memory without its mark, a
// stack that overflows, a wild pointer.
//
// The signal handler only notes the address and lets the faulting thread continue in fault_finding,
// on its own stack; that one words the finding and leaves the fiber for good. Where the registers
// that this takes are not known, the sentence is printed and the process ends with status 99.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // REG_RIP
#endif
#include "gpu/emulator/memory.h"
#include "gpu/emulator/runtime.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <sys/ucontext.h>
#endif

static struct sigaction previous_segv, previous_bus;

static void describe(const emu_thread *thread, const char *address, char *text, size_t size) {
    const char *stack = thread->fiber.stack;
    char place[80];
    if (emu_memory_is_device(address)) {
        emu_memory_describe(address, place, sizeof place);
        snprintf(text, size, "access to device memory without hbm_load or hbm_store, %s", place);
    } else if (address >= stack - emu_stack_guard && address < stack + 64) {
        snprintf(text, size, "the thread's stack overflows (%zu bytes)", emu_stack_bytes);
    } else {
        snprintf(text, size, "access to an address that is no memory (%p)", (const void *)address);
    }
}

static void fault_finding(void) {
    emu_thread *thread = emu_current();
    char text[200];
    describe(thread, thread->fault, text, sizeof text);
    // Sites of code are return addresses: they stand behind the instruction meant.
    const emu_site site = {NULL, (const char *)thread->fault_code + 1};
    emu_finding(site, "%s", text);
}

// Makes the interrupted code continue at `function` with the given stack; 0 where it is not known how.
static int continue_at(void *context, uintptr_t stack_top, void (*function)(void),
                       const void **instruction) {
    ucontext_t *c = context;
    stack_top &= ~(uintptr_t)15;
#if defined(__linux__) && defined(__x86_64__)
    *instruction = (const void *)c->uc_mcontext.gregs[REG_RIP];
    c->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)function;
    c->uc_mcontext.gregs[REG_RSP] = (greg_t)(stack_top - 8); // as after a call
    return 1;
#elif defined(__linux__) && defined(__aarch64__)
    *instruction = (const void *)c->uc_mcontext.pc;
    c->uc_mcontext.pc = (uintptr_t)function;
    c->uc_mcontext.sp = stack_top;
    return 1;
#elif defined(__APPLE__) && defined(__aarch64__)
    *instruction = (const void *)c->uc_mcontext->__ss.__pc;
    c->uc_mcontext->__ss.__pc = (uintptr_t)function;
    c->uc_mcontext->__ss.__sp = stack_top;
    return 1;
#elif defined(__APPLE__) && defined(__x86_64__)
    *instruction = (const void *)c->uc_mcontext->__ss.__rip;
    c->uc_mcontext->__ss.__rip = (uintptr_t)function;
    c->uc_mcontext->__ss.__rsp = stack_top - 8;
    return 1;
#else
    (void)c, (void)function, (void)instruction;
    return 0;
#endif
}

static void print_and_end(const char *text) {
    if (write(2, "emulator: ", 10) < 0 || write(2, text, strlen(text)) < 0 || write(2, "\n", 1) < 0)
        _exit(99);
    _exit(99);
}

static void pass_on(int number, siginfo_t *info, void *context) {
    struct sigaction *previous = number == SIGBUS ? &previous_bus : &previous_segv;
    if (previous->sa_flags & SA_SIGINFO && previous->sa_sigaction)
        previous->sa_sigaction(number, info, context);
    else if (previous->sa_handler != SIG_DFL && previous->sa_handler != SIG_IGN)
        previous->sa_handler(number);
    else
        sigaction(number, previous, NULL); // the instruction faults again, and ends the process
}

static void on_fault(int number, siginfo_t *info, void *context) {
    emu_thread *thread = emu_current();
    const char *address = info->si_addr;
    char text[200];
    if (thread) { // a kernel of this module runs on this OS thread: the fault is its own
        thread->fault = address;
        emu_fiber_forget(&thread->fiber);
        if (continue_at(context, (uintptr_t)thread->fiber.stack + thread->fiber.stack_bytes,
                        fault_finding, &thread->fault_code))
            return;
        describe(thread, address, text, sizeof text);
        print_and_end(text);
    }
    if (emu_memory_is_device(address)) {
        char place[80];
        emu_memory_describe(address, place, sizeof place);
        snprintf(text, sizeof text, "host code touches device memory, %s: download it first",
                 place);
        print_and_end(text);
    }
    pass_on(number, info, context);
}

void emu_trap_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus); // what macOS sends for inaccessible pages
}

// Without a stack of its own, the handler could not run when a fiber's stack has overflowed.
void emu_trap_enter_os_thread(void) {
    static EMU_THREAD_LOCAL int done;
    if (done) return;
    done = 1;
    stack_t stack;
    if (sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE)) return; // a sanitizer's
    const size_t bytes = 128 * 1024;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (memory == MAP_FAILED) return;
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = memory, stack.ss_size = bytes;
    sigaltstack(&stack, NULL);
}
