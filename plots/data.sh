#!/bin/sh
# data.sh PROGRAM FOLDER -- writes the CSV that needs no GPU: what plots/*.gp draw besides plots/recorded.
# The first line of a file is the command that wrote the rest. All figures are exact and the same on every
# machine; tests/test_command_line_bytes.c compares some with what the program says today.
program=$1 folder=$2
mkdir -p "$folder" || exit 1

# write FILE ARGUMENTS... -- a file is replaced only by a complete one.
write() {
    file=$folder/$1
    shift
    echo "# EMULATED_GPU=H200 attention $*" > "$file.new"
    if EMULATED_GPU=H200 "$program" "$@" >> "$file.new"; then
        mv "$file.new" "$file" && echo "wrote $file"
    else
        rm -f "$file.new"
        exit 1
    fi
}

for n in 128 1024 8192; do write tiles-$n.csv tiles --heads 16 --n $n --csv; done
write traffic.csv traffic --heads 16 --n 128 --to 16384 --count-to 2048 --device emulator --csv
write traffic-backward.csv traffic --heads 16 --n 128 --to 16384 --count-to 1024 --pass backward --device emulator --csv
