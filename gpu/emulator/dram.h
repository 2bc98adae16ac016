// dram.h -- what reaches DRAM: a model of the caches between the multiprocessors and the memory.
//
// While it is on, every block leaves a trace of the lines that its warps ask for (trace.c). As many
// blocks as the chosen GPU runs at once are then replayed side by side against its L2 (dram.c), in the
// order in which a GPU starts them. While it is off, it costs the emulator one comparison an access.
#ifndef GPU_EMULATOR_DRAM_H
#define GPU_EMULATOR_DRAM_H

#include "cpu/stage.h"
#include "gpu/emulator/runtime.h"

// ---- trace.c: one block's requests, in the order in which its warps make them ----
typedef struct emu_run { // lines one after another, asked for with the same sectors
    uint64_t line;
    uint16_t lines;
    uint8_t sectors, write;
} emu_run;

typedef struct emu_trace {
    emu_run *runs;
    size_t count, capacity;
    size_t shared_bytes; // of the block
} emu_trace;

// The list of an OS thread's block; NULL without memory.
emu_recorder *emu_recorder_new(void);
void emu_recorder_free(emu_recorder *recorder);
void emu_recorder_start(emu_recorder *recorder, emu_trace *trace);
void emu_recorder_add(emu_recorder *recorder, int thread, size_t offset, int kind); // emu_kind
// The threads meet: what they asked for since they last did goes to the trace, warps side by side.
void emu_recorder_meet(emu_recorder *recorder, int threads);

// ---- dram.c ----
attn_status emu_dram_begin(void); // from empty caches
void emu_dram_end(attn_dram *bytes);
int emu_dram_is_on(void);

// A launch: begin, then for each batch of blocks, in order, their traces; then end.
attn_status emu_dram_launch_begin(const emu_launch_state *launch, long blocks);
long emu_dram_batch(void);             // how many blocks to trace before the next replay
emu_trace *emu_dram_trace(long block); // to be filled
void emu_dram_replay(long traced);     // blocks below `traced` have their traces
void emu_dram_launch_end(void);
void emu_dram_memset(size_t offset, size_t bytes);

#endif
