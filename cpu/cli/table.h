// table.h -- a small table for people (aligned columns) or for programs (CSV).
#ifndef ATTN_TABLE_H
#define ATTN_TABLE_H

enum { ATTN_TABLE_COLUMNS = 24, ATTN_TABLE_ROWS = 256, ATTN_TABLE_TEXT = 100 };

typedef struct attn_table {
    int columns, rows, column; // `column`: where the next cell of the last row goes
    char head[ATTN_TABLE_COLUMNS][ATTN_TABLE_TEXT];
    char cell[ATTN_TABLE_ROWS][ATTN_TABLE_COLUMNS][ATTN_TABLE_TEXT];
} attn_table;

// heads: column heads, NULL at the end.
void attn_table_begin(attn_table *table, const char *const *heads);
void attn_table_row(attn_table *table); // begins a row; cells left out stay empty
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void attn_table_cell(attn_table *table, const char *format, ...);
// The first column is aligned to the left, the others to the right, under an indent of `indent`.
void attn_table_print(const attn_table *table, int indent);
void attn_table_print_csv(const attn_table *table);

#endif
