// junit.c -- the verdicts as a JUnit file, which most course systems read.
#include "tests/grade/grader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void write_escaped(FILE *file, const char *text) {
    for (; *text; text++) {
        const char c = *text;
        if (c == '<')
            fputs("&lt;", file);
        else if (c == '>')
            fputs("&gt;", file);
        else if (c == '&')
            fputs("&amp;", file);
        else if (c == '"')
            fputs("&quot;", file);
        else if ((unsigned char)c >= ' ')
            fputc(c, file);
    }
}

static void write_test(FILE *file, const exercise *e, const char *name, const char *failure) {
    fprintf(file, "  <testcase classname=\"exercise%d\" name=\"", e->number);
    write_escaped(file, name);
    fprintf(file, failure ? "\">\n    <failure message=\"" : "\"/>\n");
    if (!failure) return;
    write_escaped(file, failure);
    fprintf(file, "\"/>\n  </testcase>\n");
}

attn_status write_junit(const char *path, const exercise *e, const grade_case *cases, int count,
                        const char *broken) {
    FILE *file = fopen(path, "w");
    int failed = broken != NULL;
    if (!file) return attn_error(ATTN_IO, "%s cannot be written: %s", path, strerror(errno));
    for (int i = 0; i < count; i++) failed += !cases[i].pass;
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"exercise%d\" tests=\"%d\" failures=\"%d\">\n",
            e->number, count + (broken != NULL), failed);
    for (int i = 0; i < count; i++)
        write_test(file, e, cases[i].name, cases[i].pass ? NULL : cases[i].failure);
    if (broken) write_test(file, e, count > 0 ? "check build" : "run", broken);
    fprintf(file, "</testsuite>\n");
    if (fclose(file) != 0) return attn_error(ATTN_IO, "%s cannot be written", path);
    return attn_ok();
}
