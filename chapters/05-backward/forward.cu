// forward.cu -- chapter 5's forward pass on the GPU is chapter 3's: it writes O and L, and keeps nothing else.
#include "chapters/03-tiled-q-outer/tiled_q_outer.cu"
