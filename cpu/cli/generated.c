// generated.c -- see generated.h.
#include "cpu/cli/generated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attn_status read_all(const char *path, char **text) {
    FILE *file = fopen(path, "rb");
    if (!file) return attn_error(ATTN_IO, "%s cannot be read", path);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    *text = size >= 0 ? calloc((size_t)size + 1, 1) : NULL;
    const int complete = *text && fread(*text, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    if (complete) return attn_ok();
    free(*text);
    return attn_error(ATTN_IO, "%s cannot be read", path);
}

attn_status attn_generated_replace(const char *path, const char *name, const char *text) {
    char *old = NULL, begin[80], end[80], temporary[4096];
    snprintf(begin, sizeof begin, "<!-- %s:begin -->\n", name);
    snprintf(end, sizeof end, "<!-- %s:end -->", name);
    ATTN_TRY(read_all(path, &old));
    char *from = strstr(old, begin), *to = from ? strstr(from, end) : NULL;
    if (!to) {
        free(old);
        return attn_error(ATTN_BAD_INPUT, "%s has no lines <!-- %s:begin --> and <!-- %s:end -->",
                          path, name, name);
    }
    from += strlen(begin);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *file = fopen(temporary, "wb");
    int good = file != NULL;
    if (file) {
        good &= fwrite(old, 1, (size_t)(from - old), file) == (size_t)(from - old);
        good &= fputs(text, file) >= 0 && fputs(to, file) >= 0;
        good &= fclose(file) == 0;
    }
    free(old);
    if (good && rename(temporary, path) == 0) return attn_ok();
    remove(temporary);
    return attn_error(ATTN_IO, "%s cannot be written", path);
}
