// generated.h -- tables in Markdown files that a program writes and nobody types.
#ifndef ATTN_GENERATED_H
#define ATTN_GENERATED_H

#include "cpu/status.h"

// Replaces what stands in `path` between the lines <!-- NAME:begin --> and <!-- NAME:end --> by `text`.
// ATTN_IO when the file cannot be read or written, ATTN_BAD_INPUT when it lacks the two lines; the file
// is then as it was.
attn_status attn_generated_replace(const char *path, const char *name, const char *text);

#endif
