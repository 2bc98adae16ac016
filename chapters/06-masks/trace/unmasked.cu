#include "chapters/03-tiled-q-outer/tiled_q_outer.cu" // what the chapter calls where there is no mask
