#!/bin/sh
# config.sh -- prints make variables: what the compilers named by CC and CXX can do on this machine.
# A flag is used when both compilers take it and the program it builds runs.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
printf 'int main(void) { return 0; }\n' > "$folder/t.c"
cp "$folder/t.c" "$folder/t.cc"

works() { # works FLAG...
    "$CC" "$@" "$folder/t.c" -o "$folder/t" 2> /dev/null && "$folder/t" &&
        "$CXX" "$@" "$folder/t.cc" -o "$folder/t" 2> /dev/null && "$folder/t"
}
first() { # first of the flags that works, or nothing
    for flag in "$@"; do
        if works "$flag"; then
            echo "$flag"
            return
        fi
    done
}

if ! works -O1; then
    echo "\$(error $CC or $CXX cannot build a program: type make deps, or make doctor for what is missing)"
    exit 0
fi
# Without OpenMP all runs on one thread; -fopenmp-simd still lets the compiler vectorise marked loops.
echo "OPENMP := $(first -fopenmp -fopenmp-simd -Wno-unknown-pragmas)"
echo "MARCH ?= $(first -march=native -mcpu=native)"
