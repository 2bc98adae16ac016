// parts.cu -- what chapter 6 takes from chapter 5 as it is: D, and the choice of tiles.
#include "chapters/05-backward/plan.cu"
#include "chapters/05-backward/row_sums.cu"
