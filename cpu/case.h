// case.h -- a case: one problem with its tensors, in a folder of .npy files.
//
//   case.txt   one "name value" a line: batch, heads, kv_heads, q_len, kv_len, head_dim, causal (0
//   or
//              1, aligned bottom-right), window (window_left of problem.h, 0 off), and if wanted
//              window_right (0 off), top_left (1: causal is aligned so), scale (1/sqrt(head_dim)
//              when absent), softcap, alibi, dropout, dropout_seed, dropout_offset and
//              bias_gradient (as in problem.h, 0 when absent); and for variable lengths
//              q_cumulative and kv_cumulative, several values a line: "q_cumulative 0 9 9 20".
//              Blank lines and lines that begin with # say nothing.
//   q k v      .npy, needed; shapes in problem.h, where leading dimensions of 1 may be left out
//   o lse      .npy, expected results, or absent
//   do         .npy, the gradient of o, for a backward pass; dq dk dv (dbias with bias_gradient)
//              what that should give
//   bias mask  .npy, a bias and a mask of the problem, or absent; a first or second dimension of 1 is
//              broadcast. All files are fp32: in mask, 0 hides a key, and any other value shows it
//
// A folder without case.txt is a case too: the shapes of q, k and v say what the problem is,
// without a mask and with the default scale. That is how readers bring their own q.npy, k.npy,
// v.npy.
#ifndef ATTN_CASE_H
#define ATTN_CASE_H

#include "cpu/input.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attn_case {
    attn_problem problem;
    float *q, *k, *v;                      // never NULL after a successful load, even when empty
    float *o, *lse;                        // expected; NULL when the folder has no such file
    float *d_o, *dq, *dk, *dv;             // likewise
    float *bias, *dbias;                   // likewise; a bias there is one of the problem's
    unsigned char *mask;                   // NULL without one
    int32_t *q_cumulative, *kv_cumulative; // the problem's; NULL without variable lengths
} attn_case;

// Loads the folder's case and checks it (attn_problem_check). On any error *loaded is all zeros.
// ATTN_IO: a folder or file that is missing or unreadable. ATTN_BAD_INPUT: case.txt is not as above
// (the sentence has file and line), or a shape is not what the problem needs (the sentence names
// the file, its shape and the one expected). ATTN_NO_MEMORY.
attn_status attn_case_load(const char *folder, attn_case *loaded);
void attn_case_free(attn_case *loaded); // also fine on zeros

// A case of random tensors (input.h): whatever the problem needs, and do if it is wanted. The same
// promise on errors; ATTN_NO_MEMORY says how much it would take.
attn_status attn_case_random(const attn_problem *problem, attn_input_kind kind, uint64_t seed,
                             int with_d_o, attn_case *made);

attn_inputs attn_case_inputs(const attn_case *c); // valid as long as the case is

// Writes o.npy, lse.npy, dq.npy, dk.npy, dv.npy and dbias.npy, each unless its pointer is NULL, all or none
// (see attn_npy_write_all). Makes the folder when there is none, its parents not. ATTN_IO with the
// path.
attn_status attn_case_save_output(const char *folder, const attn_problem *problem, const float *o,
                                  const float *lse, const float *dq, const float *dk,
                                  const float *dv, const float *dbias);

#ifdef __cplusplus
}
#endif
#endif
