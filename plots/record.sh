#!/bin/sh
# record.sh PROGRAM FOLDER -- times of the stages on this machine's GPU, as CSV in FOLDER, for the tables and plots:
#
#   <gpu>-stages.csv   all stages, both passes, on the problems of `attention bench` and where heads or queries are few
#   <gpu>-short.csv    naive and chapter 3 on short sequences
#   <gpu>-slices.csv   chapter 4 with more and with fewer slices than it would choose
#   <gpu>-masks.csv    chapter 6 without a mask, causal, and with a window, beside the stages it is made of
#   <gpu>-features.csv each feature on the stage that does them all, beside all off
#
# Some minutes. A file is replaced when all of it is there.
program=$1 folder=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# bench OPTIONS... -- rows without the head; what is said of the machine and the run is in $work/notes.
bench() {
    "$program" bench --device gpu "$@" > "$work/out" || return 1
    grep '^#' "$work/out" | sed 's/make bench DEVICE=gpu/make record/' > "$work/notes"
    grep '^stage,' "$work/out" > "$work/names"
    grep -v -e '^#' -e '^stage,' "$work/out"
}
# finish NAME COLUMNS -- $work/rows under their notes, as a file of FOLDER.
finish() {
    gpu=$(sed -n '1s/^# \(NVIDIA \)*\([^,]*\),.*/\2/p' "$work/notes" | tr 'A-Z ' 'a-z-')
    { cat "$work/notes" && echo "$2" && cat "$work/rows"; } > "$folder/$gpu-$1.csv.new" &&
        mv "$folder/$gpu-$1.csv.new" "$folder/$gpu-$1.csv" && echo "wrote $folder/$gpu-$1.csv" || exit 1
}

few_queries="--batch 1 --heads 8 --qlen 1 --kvlen 65536"
{
    bench --rounds 5 && bench --rounds 5 --batch 1 --heads 8 --n 4096 && bench --rounds 5 $few_queries
} > "$work/rows" || exit 1
finish stages "$(cat "$work/names")"

for heads in 1 8 64 256; do
    for n in 64 128 256 512 1024; do
        bench --rounds 5 --batch 1 --heads $heads --n $n > "$work/part" || exit 1
        awk -F, '$2 == "forward" && $1 ~ /^(naive|q-outer-plain|q-outer)$/ {
            print $1 "," $3 "," $4 "," $7 "," $8 "," $10 }' "$work/part"
    done
done > "$work/rows"
finish short kernel,batch,heads,n,head_dim,ms

slices() { # slices BC OPTIONS...
    bc=$1
    shift
    # Stages whose tiles cannot be chosen say so, each time.
    bench --rounds 3 --bc "$bc" "$@" > "$work/part" 2> "$work/refused" || { cat "$work/refused" >&2; exit 1; }
    awk -v bc="$bc" '/^kv-(grid|split),forward,/ { print $0 "," bc }' "$work/part"
}
{
    for bc in 64 128 256 512 1024 2048 4096; do slices $bc --batch 1 --heads 8 --n 4096; done
    for bc in 64 512 2048 8192 65536; do slices $bc $few_queries; done
} > "$work/rows"
finish slices "$(cat "$work/names"),bc"

masks() { # masks WINDOW OPTIONS...
    window=$1
    shift
    # Stages that know no masks say so, each time.
    bench --rounds 3 --window "$window" "$@" > "$work/part" 2> "$work/refused" || { cat "$work/refused" >&2; exit 1; }
    awk -v window="$window" '/^(q-outer|recompute-atomic|masked),/ { print $0 "," window }' "$work/part"
}
{
    for sizes in "--batch 2 --heads 16 --n 4096 --dim 64" "--batch 2 --heads 8 --n 4096 --dim 128" \
        "--batch 1 --heads 8 --n 16384 --dim 64"; do
        masks 0 $sizes
        masks 0 $sizes --causal 1
        for window in 256 1024; do masks $window $sizes --causal 1; done
    done
    for n in 1024 2048 4096 8192 16384; do # for plots/masks.gp
        masks 0 --batch 1 --heads 16 --n $n
        masks 0 --batch 1 --heads 16 --n $n --causal 1
        masks 256 --batch 1 --heads 16 --n $n --causal 1
    done
} > "$work/rows"
finish masks "$(cat "$work/names"),window"

features() { # features OPTIONS...
    "$program" features --device gpu --rounds 5 --csv "$@" > "$work/out" || return 1
    grep '^#' "$work/out" | sed 's/make features/make record/' > "$work/notes"
    grep '^feature,' "$work/out" > "$work/names"
    grep -v -e '^#' -e '^feature,' "$work/out"
}
{
    features --batch 2 --heads 16 --n 4096 --dim 64 && features --batch 2 --heads 8 --n 4096 --dim 128
} > "$work/rows" || exit 1
finish features "$(cat "$work/names")"
