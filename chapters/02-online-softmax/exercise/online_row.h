// online_row.h -- exercise 2: what is kept of a row of the output while its keys go by.
#ifndef EXERCISE2_ONLINE_ROW_H
#define EXERCISE2_ONLINE_ROW_H

enum { EXERCISE2_MAX_D = 128 };

typedef struct online_row {
    float m;                  // the largest score so far
    float l;                  // the sum of e^(s - m) so far
    float o[EXERCISE2_MAX_D]; // the sum of e^(s - m) v so far
} online_row;

void row_begin(online_row *row, int d);
void row_add_key(online_row *row, float s, const float *v, int d); // v [d]
void row_end(const online_row *row, int d, float *o, float *lse);  // o [d]

#endif
