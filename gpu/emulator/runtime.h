// runtime.h -- the emulator from the inside: threads, warps, blocks, and how they reach one another.
//
// A block runs on one OS thread; its threads are fibers that hand over only where they wait, so a
// block's run is the same every time. Blocks are spread over OpenMP threads. All state is hidden in
// the module that the emulator is linked into: several live side by side in one program.
#ifndef GPU_EMULATOR_RUNTIME_H
#define GPU_EMULATOR_RUNTIME_H

#include "cpu/status.h"
#include "gpu/emulator/fiber.h"
#include "gpu/emulator/interface.h"

#include <stdio.h>

enum { EMU_MAX_THREADS = 1024, EMU_WARP = 32, EMU_MAX_SHARED_ARRAYS = 32, EMU_RED_ZONE = 64 };
// Room for the largest limit of any GPU, and the red zones.
enum { EMU_SHARED_ARENA = 227 * 1024 + EMU_MAX_SHARED_ARRAYS * (EMU_RED_ZONE + 128) };

typedef struct emu_thread emu_thread;
typedef struct emu_warp emu_warp;
typedef struct emu_block emu_block;
typedef struct emu_launch_state emu_launch_state;
typedef struct emu_recorder emu_recorder;

// What the last lane to arrive does for all lanes of `mask`; NULL: a barrier alone.
typedef void emu_collective(emu_warp *warp, unsigned mask);

typedef enum emu_thread_state {
    EMU_READY,
    EMU_AT_BARRIER,
    EMU_IN_WARP,
    EMU_RETURNED
} emu_thread_state;

typedef struct emu_copy { // one cp.async under way
    void *to;
    const void *from;
    size_t bytes;
    int group;
    const char *site;
} emu_copy;

struct emu_thread {
    emu_place place; // first: emu_here points to it
    emu_fiber fiber;
    emu_block *block;
    emu_warp *warp;
    int index; // x + y * width + z * width * height
    emu_thread_state state;
    const char *site; // the last mark that the thread met: where it waits, or is not far from

    unsigned mask; // of the collective it waits in
    emu_collective *collective;
    void *argument;

    emu_copy *copies;
    int copy_count, copy_capacity, groups_committed;

    const void *fault, *fault_code; // set by the signal handler: address touched, instruction
};

struct emu_warp {
    int index, lanes; // lanes: 32, fewer in a ragged last warp
    unsigned waiting, returned;
    emu_thread *thread; // of lane 0
};

typedef struct emu_shared_place {
    const emu_shared_array *declaration;
    char *memory;
    size_t bytes;
} emu_shared_place;

struct emu_block {
    emu_launch_state *launch;
    long index; // x + y * width + z * width * height
    int threads, returned, at_barrier;
    const char *barrier_site;
    emu_fiber home; // the OS thread's own stack, to which a block's end or a finding returns

    char *shared, *shared_end; // the arena
    char *shared_used;
    size_t shared_bytes, shared_static_bytes; // what a GPU would count
    int shared_count;
    emu_shared_place shared_array[EMU_MAX_SHARED_ARRAYS];

    uint64_t (*bytes)[2];   // read, written: by buffer, of this OS thread in this launch
    emu_recorder *recorder; // of requests, for the model of what reaches DRAM; NULL while it is off

    char *stacks;
    int stack_count;
    void *check; // state of the check build
    emu_thread thread[EMU_MAX_THREADS];
    emu_warp warp[EMU_MAX_THREADS / EMU_WARP];
};

struct emu_launch_state {
    const char *kernel;
    uint3 grid, block;
    size_t dynamic_shared_bytes;
    void (*thread_main)(const void *arguments);
    const void *arguments;
    int failed;      // a finding was made: no further block starts
    long finding_at; // block of the finding kept, the lowest
    attn_status status;
};

static inline emu_thread *emu_current(void) {
    return (emu_thread *)emu_here;
}

// ---- launch.c ----
unsigned emu_launch_number(void); // of the launch that runs, from 1
int emu_os_threads(void);         // that blocks are spread over

// ---- device.c ----
// Adds to a tensor's bytes since the last reset. Called by one thread at a time.
void emu_count(const char *name, uint64_t read, uint64_t written);

// ---- dry.c ----
int emu_dry(void); // no block is run
void emu_dry_launch(const char *kernel, long blocks, int threads, size_t shared);
void emu_dry_print(FILE *file);

// ---- block.c ----
void emu_block_run(emu_block *block, emu_launch_state *launch, long index);
void emu_yield(void); // lets the other threads of the block run until the caller is ready again
int emu_block_prepare_stacks(emu_block *block, int threads); // 0 without memory
extern const size_t emu_stack_bytes,
    emu_stack_guard; // the guard is at the low end, outside `bytes`

// ---- warp.c ----
// Waits for all lanes of mask; the last one calls collective. Lanes that do not exist are left out.
void emu_warp_meet(unsigned mask, emu_collective *collective, void *argument, const char *site);

// ---- shared.c ----
void emu_shared_reset(emu_block *block);
void emu_shared_check_red_zones(emu_block *block);
// "tile + 512 of 512 bytes"
void emu_shared_describe(const emu_block *block, const void *address, char *text, size_t size);

// ---- async.c ----
void emu_async_check_done(emu_thread *thread);

// ---- finding.c ----
// Where something happened: a mark's "file:line", or an instruction of instrumented code.
typedef struct emu_site {
    const char *text;
    const void *code; // a return address
} emu_site;
static inline emu_site emu_at(const char *text) {
    emu_site site = {text, NULL};
    return site;
}
void emu_site_describe(emu_site site, const char *otherwise, char *text, size_t size);

// Ends the launch with a sentence: which kernel, block, thread, what (the format), where.
__attribute__((noreturn, format(printf, 2, 3))) void emu_finding(emu_site site, const char *format,
                                                                 ...);
// Something legal that deserves a look: kept once a kernel and site, printed by the device's report.
void emu_warning(const char *site, const char *text);
void emu_warnings_print(FILE *file);

// ---- trap.c ----
void emu_trap_install(void);         // once a module: the handler of faults
void emu_trap_enter_os_thread(void); // a signal stack for the calling OS thread

// ---- check builds: plain.c has none, check.c has all ----
typedef struct emu_checks {
    int (*prepare)(emu_block *block); // once for each OS thread; 0 without memory
    void (*block_start)(emu_block *block);
    void (*block_end)(emu_block *block);
    void (*barrier)(emu_block *block);
    void (*warp_barrier)(emu_warp *warp, unsigned mask);
    void (*shared_access)(emu_thread *thread, void *address, size_t bytes, int kind, emu_site site);
    void (*hbm_access)(emu_thread *thread, size_t offset, size_t bytes, int kind, emu_site site);
    void (*copy_issued)(emu_thread *thread, void *to, size_t bytes, emu_site site);
    void (*copy_landed)(emu_thread *thread, void *to, size_t bytes);
    void (*memory_fresh)(size_t offset, size_t bytes);   // never written
    void (*memory_written)(size_t offset, size_t bytes); // by the host or a memset
    attn_status (*open)(size_t span);                    // bytes of device address space
    void (*report)(FILE *file);
    int memory_cost; // bytes of host memory for a byte of device memory
} emu_checks;
extern const emu_checks *const emu_check; // NULL in the plain build
extern const char *const emu_device_kind; // "emulator", "check"

#endif
