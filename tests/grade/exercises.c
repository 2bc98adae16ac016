// exercises.c -- the exercises: what each is, and what its usual mistakes are.
#include "chapters/03-tiled-q-outer/exercise/tiles.h"
#include "chapters/05-backward/exercise/tiles.h"
#include "chapters/06-masks/exercise/tiles.h"
#include "tests/grade/grader.h"

#define MISSING_BARRIER                                                                      \
    "A barrier is missing: __syncthreads() before anyone reads what others have brought to " \
    "shared "                                                                                \
    "memory, and again before anyone brings the next tile there."
#define UNWRITTEN                                                                               \
    "Shared memory is read that nobody has written. Did all threads of the block load, and do " \
    "all run as many rounds? One that returns or leaves the loop before the others no longer "  \
    "loads for them. And is there a __syncthreads() between loading and reading?"
#define DS_NOT_COMPLETE                                                                           \
    "A barrier is missing: all threads must have written dS before any of them sums it over the " \
    "keys for dQ: __syncthreads()."

static const exercise exercises[] = {
    {
        .number = 1,
        .title = "the bytes of naive attention",
        .device = "host",
        .counts_naive = 1,
    },
    {
        .number = 2,
        .title = "the online rescale",
        .device = "host",
        .br = 1,
        .bc = 1,
        .mistakes = online_mistakes,
        .imitate = imitate_forward,
    },
    {
        .number = 3,
        .title = "the loop over tiles of keys",
        .device = "emulator",
        .br = EXERCISE3_BR,
        .bc = EXERCISE3_BC,
        .mistakes = tile_mistakes,
        .imitate = imitate_forward,
        .race_hint = MISSING_BARRIER,
        .unwritten_hint = UNWRITTEN,
        .byte_hint =
            "K and V are asked for once a block and tile, by all its threads together, not "
            "by each thread for itself; Q once; S and P never.",
    },
    {
        .number = 4,
        .title = "the merge of slices",
        .device = "emulator",
        .br = 1,
        .bc = 1,
        .mistakes = merge_mistakes,
        .imitate = imitate_merge,
        .race_hint = MISSING_BARRIER,
        .unwritten_hint = UNWRITTEN,
        .byte_hint = "O_s and L_s of each slice are asked for once.",
    },
    {
        .number = 5,
        .title = "D, dS and dQ",
        .device = "emulator",
        .br = EXERCISE5_BR,
        .bc = EXERCISE5_BC,
        .mistakes = gradient_mistakes,
        .imitate = imitate_gradients,
        .race_hint = DS_NOT_COMPLETE,
        .unwritten_hint = DS_NOT_COMPLETE,
        .block_race_hint =
            "dQ is not added atomically: the blocks of other keys add to the same "
            "numbers at the same time, and a load, a sum and a store lose what comes "
            "between. hbm_atomic_add(&dq[..], part) does not.",
        .byte_hint =
            "Each block adds to each number of dQ once, after it has summed over its keys; of "
            "the two numbers that the forward pass kept of a row, P needs one.",
    },
    {
        .number = 6,
        .title = "the bounds of a causal mask",
        .device = "emulator",
        .br = EXERCISE6_BR,
        .bc = EXERCISE6_BC,
        .causal = 1,
        .mistakes = band_mistakes,
        .imitate = imitate_forward,
        .race_hint = MISSING_BARRIER,
        .unwritten_hint = UNWRITTEN,
        .byte_hint =
            "Keys that no query of the block sees are read: the last key that matters is that "
            "of the block's last query, and that query exists (it is below q_len).",
    },
};

const exercise *exercise_of(int number) {
    for (size_t i = 0; i < sizeof exercises / sizeof *exercises; i++)
        if (exercises[i].number == number) return &exercises[i];
    return NULL;
}
