// table.c -- see table.h.
#include "cpu/cli/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void attn_table_begin(attn_table *table, const char *const *heads) {
    memset(table, 0, sizeof *table);
    for (; heads[table->columns] && table->columns < ATTN_TABLE_COLUMNS; table->columns++)
        snprintf(table->head[table->columns], ATTN_TABLE_TEXT, "%s", heads[table->columns]);
}

void attn_table_row(attn_table *table) {
    if (table->rows < ATTN_TABLE_ROWS) table->rows++;
    table->column = 0;
}

void attn_table_cell(attn_table *table, const char *format, ...) {
    if (table->rows == 0 || table->column >= table->columns) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(table->cell[table->rows - 1][table->column++], ATTN_TABLE_TEXT, format, arguments);
    va_end(arguments);
}

// Columns on the screen: bytes that do not continue a UTF-8 character.
static int width(const char *text) {
    int count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static void print_line(const attn_table *table, const int *widths, int indent,
                       const char (*cells)[ATTN_TABLE_TEXT]) {
    int last = table->columns - 1;
    while (last > 0 && !cells[last][0]) last--; // no blanks at the end of a line
    printf("%*s", indent, "");
    for (int c = 0; c <= last; c++) {
        const int pad = widths[c] - width(cells[c]);
        if (c == 0)
            printf("%s%*s", cells[c], last > 0 ? pad : 0, "");
        else
            printf("   %*s%s", pad, "", cells[c]);
    }
    printf("\n");
}

void attn_table_print(const attn_table *table, int indent) {
    int widths[ATTN_TABLE_COLUMNS];
    for (int c = 0; c < table->columns; c++) {
        widths[c] = width(table->head[c]);
        for (int r = 0; r < table->rows; r++)
            if (width(table->cell[r][c]) > widths[c]) widths[c] = width(table->cell[r][c]);
    }
    print_line(table, widths, indent, table->head);
    for (int r = 0; r < table->rows; r++) print_line(table, widths, indent, table->cell[r]);
}

static void print_csv_line(int columns, const char (*cells)[ATTN_TABLE_TEXT]) {
    for (int c = 0; c < columns; c++) {
        const int quoted = strpbrk(cells[c], ",\"") != NULL;
        printf("%s%s", c ? "," : "", quoted ? "\"" : "");
        for (const char *s = cells[c]; *s; s++) printf(*s == '"' ? "\"\"" : "%c", *s);
        printf("%s", quoted ? "\"" : "");
    }
    printf("\n");
}

void attn_table_print_csv(const attn_table *table) {
    print_csv_line(table->columns, table->head);
    for (int r = 0; r < table->rows; r++) print_csv_line(table->columns, table->cell[r]);
}
