// exercises.c -- the exercises: what each is, and what its usual mistakes are.
#include "chapters/03-tiled-q-outer/exercise/tiles.h"
#include "tests/grade/grader.h"

#define MISSING_BARRIER                                                                      \
    "A barrier is missing: __syncthreads() before anyone reads what others have brought to " \
    "shared "                                                                                \
    "memory, and again before anyone brings the next tile there."

static const exercise exercises[] = {
    {
        .number = 3,
        .title = "the loop over tiles of keys",
        .device = "emulator",
        .br = EXERCISE3_BR,
        .bc = EXERCISE3_BC,
        .mistakes = tile_mistakes,
        .imitate = imitate_forward,
        .race_hint = MISSING_BARRIER,
        .byte_hint =
            "K and V are asked for once a block and tile, by all its threads together, not "
            "by each thread for itself; Q once; S and P never.",
    },
};

const exercise *exercise_of(int number) {
    for (size_t i = 0; i < sizeof exercises / sizeof *exercises; i++)
        if (exercises[i].number == number) return &exercises[i];
    return NULL;
}
