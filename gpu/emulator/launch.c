// launch.c -- a grid of blocks over the machine's cores, and the bytes they asked for.
#include "gpu/emulator/dram.h"
#include "gpu/emulator/gpus.h"
#include "gpu/emulator/memory.h"
#include "gpu/emulator/runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(_OPENMP)
#include <omp.h>
#endif

EMU_THREAD_LOCAL const emu_place *emu_here;

// One block's state for each OS thread that runs blocks, kept from launch to launch. A bound, since
// each has up to 1024 stacks.
enum { MAX_OS_THREADS = 32 };
static emu_block *states[MAX_OS_THREADS];
static pthread_mutex_t one_launch_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static unsigned launch_number;

unsigned emu_launch_number(void) {
    return launch_number;
}

int emu_os_threads(void) {
#if defined(_OPENMP)
    const int threads = omp_get_max_threads();
    return threads < MAX_OS_THREADS ? threads : MAX_OS_THREADS;
#else
    return 1;
#endif
}

static emu_block *prepare_state(int os_thread, int threads) {
    emu_block *block = states[os_thread];
    if (!block) {
        block = calloc(1, sizeof *block);
        if (!block) return NULL;
        void *shared = NULL;
        block->bytes = calloc(EMU_MAX_BUFFERS, sizeof *block->bytes);
        if (!block->bytes || posix_memalign(&shared, 128, EMU_SHARED_ARENA) != 0 ||
            (emu_check && !emu_check->prepare(block))) {
            free(shared);
            free(block->bytes);
            free(block);
            return NULL;
        }
        block->shared = shared, block->shared_end = block->shared + EMU_SHARED_ARENA;
        states[os_thread] = block;
    }
    return emu_block_prepare_stacks(block, threads) ? block : NULL;
}

static attn_status check_shape(const char *kernel, uint3 grid, uint3 block, size_t dynamic_bytes) {
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (grid.x < 1 || grid.x > 0x7fffffff || grid.y < 1 || grid.y > 65535 || grid.z < 1 ||
        grid.z > 65535)
        return attn_error(
            ATTN_BAD_INPUT,
            "kernel %s: a grid of (%u,%u,%u) blocks; allowed are 1 to 2147483647, 1 to 65535 "
            "and 1 to 65535",
            kernel, grid.x, grid.y, grid.z);
    if (block.x < 1 || block.x > 1024 || block.y < 1 || block.y > 1024 || block.z < 1 ||
        block.z > 64 || threads > EMU_MAX_THREADS)
        return attn_error(
            ATTN_BAD_INPUT,
            "kernel %s: a block of (%u,%u,%u) threads; allowed are 1 to 1024, 1 to 1024 and "
            "1 to 64, together at most 1024",
            kernel, block.x, block.y, block.z);
    if (dynamic_bytes > emu_shared_limit())
        return attn_error(
            ATTN_BAD_INPUT,
            "kernel %s asks for %zu bytes of dynamic shared memory; a %s allows a block "
            "%zu: smaller tiles, or another EMULATED_GPU",
            kernel, dynamic_bytes, emu_gpu_name(), emu_shared_limit());
    return attn_ok();
}

// EMULATED_LAST=n: of each launch only the last n-th of the blocks is run. So a test computes the last of
// n heads, whose tensors would not all fit into memory.
static long first_block(long blocks) {
    const char *text = getenv("EMULATED_LAST");
    const long parts = text ? atol(text) : 0;
    return parts > 0 ? blocks - blocks / parts : 0;
}

static void run_blocks(emu_launch_state *launch, long first, long end, int os_threads) {
    (void)os_threads;
#if defined(_OPENMP)
#pragma omp parallel num_threads(os_threads)
#endif
    {
        int os_thread = 0;
#if defined(_OPENMP)
        os_thread = omp_get_thread_num();
#endif
        emu_trap_enter_os_thread();
#if defined(_OPENMP)
#pragma omp for schedule(dynamic)
#endif
        for (long i = first; i < end; i++)
            if (!__atomic_load_n(&launch->failed, __ATOMIC_ACQUIRE))
                emu_block_run(states[os_thread], launch, i);
    }
}

// As run_blocks, in batches, each followed by its part of the replay.
static attn_status run_traced(emu_launch_state *launch, long blocks, int os_threads) {
    ATTN_TRY(emu_dram_launch_begin(launch, blocks));
    int recorders = 0;
    while (recorders < os_threads && (states[recorders]->recorder = emu_recorder_new()))
        recorders++;
    for (long first = 0, end; first < blocks && recorders > 0 && !launch->failed; first = end) {
        end = first + emu_dram_batch() < blocks ? first + emu_dram_batch() : blocks;
        run_blocks(launch, first, end, recorders);
        if (!launch->failed) emu_dram_replay(end);
    }
    for (int i = 0; i < recorders; i++) {
        emu_recorder_free(states[i]->recorder);
        states[i]->recorder = NULL;
    }
    emu_dram_launch_end();
    if (recorders == 0)
        return attn_error(ATTN_NO_MEMORY, "kernel %s: no memory to record its requests",
                          launch->kernel);
    return attn_ok();
}

static void gather_bytes(int os_threads) {
    for (int i = 0; i < os_threads; i++) {
        uint64_t(*bytes)[2] = states[i]->bytes;
        for (int k = 1; k < emu_memory_buffers(); k++) {
            if (bytes[k][0] | bytes[k][1])
                emu_count(emu_memory_buffer(k)->name, bytes[k][0], bytes[k][1]);
            bytes[k][0] = bytes[k][1] = 0;
        }
    }
}

// "(scores<64, 64>)" -> "scores<64, 64>"
static void name_kernel(const char *written, char *name, size_t size) {
    const size_t length = strlen(written);
    const int bracketed = length > 2 && written[0] == '(' && written[length - 1] == ')';
    snprintf(name, size, "%.*s", (int)length - 2 * bracketed, written + bracketed);
}

attn_status emu_launch(const char *kernel, uint3 grid, uint3 block, size_t dynamic_shared_bytes,
                       void (*thread_main)(const void *arguments), const void *arguments) {
    char name[100];
    name_kernel(kernel, name, sizeof name);
    ATTN_TRY(emu_memory_open());
    ATTN_TRY(check_shape(name, grid, block, dynamic_shared_bytes));
    const long blocks = (long)grid.x * grid.y * grid.z;
    const int threads = (int)(block.x * block.y * block.z);
    if (emu_dry()) return emu_dry_launch(name, blocks, threads, dynamic_shared_bytes), attn_ok();

    pthread_mutex_lock(&one_launch_at_a_time);
    int os_threads = emu_os_threads();
    if (os_threads > blocks) os_threads = (int)blocks;
    for (int i = 0; i < os_threads; i++)
        if (!prepare_state(i, threads)) {
            if (i == 0) {
                pthread_mutex_unlock(&one_launch_at_a_time);
                return attn_error(ATTN_NO_MEMORY, "kernel %s: no memory for %d emulated threads",
                                  name, threads);
            }
            os_threads = i; // fewer at a time
        }
    launch_number++;
    emu_launch_state launch = {.kernel = name,
                               .grid = grid,
                               .block = block,
                               .dynamic_shared_bytes = dynamic_shared_bytes,
                               .thread_main = thread_main,
                               .arguments = arguments,
                               .status = attn_ok()};
    attn_status traced = attn_ok();
    if (emu_dram_is_on())
        traced = run_traced(&launch, blocks, os_threads);
    else
        run_blocks(&launch, first_block(blocks), blocks, os_threads);
    gather_bytes(os_threads);
    pthread_mutex_unlock(&one_launch_at_a_time);
    return launch.status.code != ATTN_OK ? launch.status : traced;
}
