// forward.c -- the forward pass of the stage recompute: chapter 2's form (b), as it stands there.
// It leaves O and L, the logsumexp of each row, and nothing of S or P.
#include "chapters/02-online-softmax/online.c" // whose FLOPs are those of form (b), too
#include "chapters/02-online-softmax/online_tiled.c"
