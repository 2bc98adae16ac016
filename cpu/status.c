// status.c -- see status.h.
#include "cpu/status.h"

#include <stdarg.h>
#include <stdio.h>

attn_status attn_ok(void) {
    attn_status status = {ATTN_OK, ""};
    return status;
}

attn_status attn_error(attn_code code, const char *format, ...) {
    attn_status status = {code, ""};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(status.text, sizeof status.text, format, arguments);
    va_end(arguments);
    return status;
}

int attn_exit_status(attn_status status) {
    switch (status.code) {
    case ATTN_OK:
        return 0;
    case ATTN_DEVICE:
        return 1;
    default:
        return 2;
    }
}
