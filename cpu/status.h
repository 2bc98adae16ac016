// status.h -- how every entry point answers: a code, and a sentence that a person can act on.
//
// Nothing in this project exits, prints or aborts on bad input; it returns one of these, and the
// command line turns it into a message and an exit status (see attn_exit_status).
#ifndef ATTN_STATUS_H
#define ATTN_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum attn_code {
    ATTN_OK = 0,
    ATTN_BAD_INPUT,   // an argument, a file or a shape is wrong: the text names it, its value, what
                      // is allowed
    ATTN_UNSUPPORTED, // a valid problem that this stage does not do; another stage may
    ATTN_NO_MEMORY,   // more memory than this machine or device has
    ATTN_IO,          // a file or folder cannot be read or written
    ATTN_DEVICE,      // the device failed: an emulator finding, a CUDA error
} attn_code;

typedef struct attn_status {
    attn_code code;
    char text[480]; // empty when code is ATTN_OK; else one sentence without a newline
} attn_status;

attn_status attn_ok(void);

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
attn_status
attn_error(attn_code code, const char *format, ...);

// 0 for ATTN_OK, 1 for ATTN_DEVICE (a result is wrong or missing), 2 for everything refused.
int attn_exit_status(attn_status status);

// Leaves the calling function with `call`'s status unless it is ATTN_OK.
#define ATTN_TRY(call)                                                 \
    do {                                                               \
        attn_status attn_try_status_ = (call);                         \
        if (attn_try_status_.code != ATTN_OK) return attn_try_status_; \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
