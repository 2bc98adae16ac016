// unmasked_backward.cu -- chapter 5's backward pass, for a problem without a mask.
#include "chapters/05-backward/backward_kv.cu"
