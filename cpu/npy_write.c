// npy_write.c -- see npy.h. Files appear complete or not at all.
#include "cpu/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "'<f4' is written as it lies in memory");

static attn_status cannot_write(const char *path, int reason) {
    return attn_error(ATTN_IO, "%s: cannot write it: %s", path, strerror(reason));
}

// The header of version 1.0: padded with spaces, so that the data begins at a multiple of 64 bytes,
// and ending in a newline. Returns its length.
static size_t make_header(int dims, const int64_t *shape, char header[256]) {
    char tuple[ATTN_NPY_MAX_DIMS * 24] = "";
    size_t used = 0;
    for (int i = 0; i < dims; i++)
        used += (size_t)snprintf(tuple + used, sizeof tuple - used,
                                 dims == 1 ? "%lld," : (i == 0 ? "%lld" : ", %lld"),
                                 (long long)shape[i]);
    int length = snprintf(header + 10, 256 - 10,
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", tuple);
    size_t end = 10 + (size_t)length + 1;
    size_t padded = (end + 63) / 64 * 64;
    memset(header + end - 1, ' ', padded - end);
    header[padded - 1] = '\n';
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((padded - 10) & 0xff);
    header[9] = (char)((padded - 10) >> 8);
    return padded;
}

// Creates a file beside `path` that was not there before; sets its name. -1 and errno on failure.
// mkstemp would do, but its files are private, and the destination should be as readable as any.
static int create_beside(const char *path, char *name, size_t size) {
    static unsigned serial;
    for (int attempt = 0; attempt < 1000; attempt++) {
        unsigned number = __atomic_fetch_add(&serial, 1, __ATOMIC_RELAXED);
        int length = snprintf(name, size, "%s.%ld-%u.tmp", path, (long)getpid(), number);
        if (length < 0 || (size_t)length >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

// Writes the output into a new file, whose name is returned; removes the file again if that fails.
static attn_status write_temporary(const attn_npy_output *output, char *name, size_t size) {
    // What rename would refuse is found before anything is replaced.
    struct stat facts;
    if (stat(output->path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return cannot_write(output->path, EISDIR);
    int descriptor = create_beside(output->path, name, size);
    if (descriptor < 0) return cannot_write(output->path, errno);
    FILE *file = fdopen(descriptor, "wb");
    if (file == NULL) {
        int reason = errno;
        close(descriptor), unlink(name);
        return cannot_write(output->path, reason);
    }

    size_t elements = 1;
    for (int i = 0; i < output->dims; i++) elements *= (size_t)output->shape[i];
    char header[256];
    size_t header_bytes = make_header(output->dims, output->shape, header);
    int failed = fwrite(header, 1, header_bytes, file) < header_bytes ||
                 (elements > 0 && fwrite(output->data, sizeof(float), elements, file) < elements) ||
                 fflush(file) != 0;
    int reason = errno;
    if (fclose(file) != 0 && !failed) failed = 1, reason = errno; // some disks report only here
    if (!failed) return attn_ok();
    unlink(name);
    return cannot_write(output->path, reason);
}

attn_status attn_npy_write_all(const attn_npy_output *outputs, int count) {
    char(*names)[PATH_MAX] = malloc((size_t)(count > 0 ? count : 1) * sizeof *names);
    if (names == NULL)
        return attn_error(ATTN_NO_MEMORY, "no memory for the names of %d output files", count);

    attn_status status = attn_ok();
    int written = 0, renamed = 0;
    for (; written < count && status.code == ATTN_OK; written += status.code == ATTN_OK)
        status = write_temporary(&outputs[written], names[written], sizeof *names);
    for (; renamed < count && status.code == ATTN_OK; renamed += status.code == ATTN_OK)
        if (rename(names[renamed], outputs[renamed].path) != 0)
            status = cannot_write(outputs[renamed].path, errno);
    for (int i = renamed; i < written; i++) unlink(names[i]);
    free(names);
    return status;
}

attn_status attn_npy_write(const char *path, int dims, const int64_t *shape, const float *data) {
    attn_npy_output output = {.path = path, .dims = dims, .data = data};
    for (int i = 0; i < dims; i++) output.shape[i] = shape[i];
    return attn_npy_write_all(&output, 1);
}
