#!/bin/sh
# check_cxx.sh CXX ARGUMENTS... -o OBJECT -- compiles one .cu for the check build.
#
# -fsanitize=thread makes the compiler announce every memory access. Two accesses it keeps to itself,
# since the sanitizer's own runtime learns of them in other ways:
#   - clang leaves out a read that a write to the same place follows, as in `sum[i] += x`;
#   - memset, memcpy and memmove, also those that the compiler makes of loops and struct copies, are
#     plain calls. (clang 16 and later call __tsan_memset and so on; so do we, by renaming.)
for last; do object=$last; done
clang=
if "$1" -dM -E -x c /dev/null | grep -q __clang__; then
    clang='-mllvm -tsan-instrument-read-before-write'
fi
# shellcheck disable=SC2086
"$@" -g -fsanitize=thread -DATTN_CHECK $clang || exit 1
if command -v objcopy > /dev/null 2>&1; then
    objcopy --redefine-sym memset=__tsan_memset --redefine-sym memcpy=__tsan_memcpy \
        --redefine-sym memmove=__tsan_memmove "$object"
fi
