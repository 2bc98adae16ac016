// workspaces.h -- a workspace for each processor, and never more threads than that: so their number
// is the same when the buffer is asked for and when it is used, whatever happens to OpenMP's settings
// in between.
#ifndef ATTN_WORKSPACES_H
#define ATTN_WORKSPACES_H

#ifdef _OPENMP
#include <omp.h>

static inline int workspaces(void) {
    return omp_get_num_procs();
}
static inline int team(void) {
    return omp_get_max_threads() < workspaces() ? omp_get_max_threads() : workspaces();
}
static inline int thread(void) {
    return omp_get_thread_num();
}
#else
static inline int workspaces(void) {
    return 1;
}
static inline int thread(void) {
    return 0;
}
#endif

#endif
