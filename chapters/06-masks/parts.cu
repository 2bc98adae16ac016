// parts.cu -- what chapter 6 takes from chapters 3 and 5 as it is: their kernels, for a problem without a
// mask, D, and the choice of tiles.
#include "chapters/03-tiled-q-outer/tiled_q_outer.cu"
#include "chapters/05-backward/plan.cu"
#include "chapters/05-backward/row_sums.cu"
