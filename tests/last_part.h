// last_part.h -- problems with more than 2^32 elements, of which only the last part exists and is computed.
//
// A kernel that computes an index in 32 bits is right until a tensor has 2^31 elements, 8.6 GB. No test
// here has room for that. But the last head's blocks touch the last head's part of each tensor only; so
// that part alone is allocated, the tensor's address is set where it would have to begin, and the emulator
// is told to run the last blocks of each launch only (EMULATED_LAST). A wrong index then lands where
// nothing is, which the emulator reports.
#ifndef TESTS_LAST_PART_H
#define TESTS_LAST_PART_H

#include "cpu/modules.h"

enum { LAST_PARTS = 3 };

// Problem `which`, 0 to LAST_PARTS - 1, on a stage of the emulator or the check build. ATTN_OK when its last
// part comes out as it does alone; ATTN_UNSUPPORTED when the stage does not do it, or not in parts; else what
// is wrong.
attn_status last_part_run(const attn_loaded_stage *row, int which);

#endif
