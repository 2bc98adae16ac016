#!/bin/sh
# l2_model.sh PROGRAM FOLDER [STAGE...] -- DRAM bytes by the emulator's model of the L2, for every pass that Nsight
# Compute has counted (FOLDER/recorded/dram-<gpu>.csv), as FOLDER/data/l2-model.csv. Needs no GPU; a pass takes
# some 15 s, all of them about ten minutes. With STAGEs only theirs and missing ones are modelled, other rows stay.
#
# Large problems are modelled in part: 1/k of the heads on 1/k of the GPU (EMULATED_GPU=H200/8), times k.
program=$1 folder=$2
shift 2
stages=" $* " file=$folder/data/l2-model.csv
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

for dram in "$folder"/recorded/dram-*.csv; do
    gpu=$(basename "$dram" .csv | sed -e 's/^dram-//' -e 's/-.*//' | tr a-z A-Z)
    grep -v -e '^#' -e '^stage,' "$dram" | awk -F, '{
        pass = $1 " " $2 " " $3 " " $4 " " $5 " " $6 " " $7
        if (!(pass in seen)) print pass
        seen[pass] = 1 }' |
        while read -r stage pass batch heads q n d; do
            row="$stage,$pass,$batch,$heads,$q,$n,$d,$gpu"
            case $stages in
            "  " | *" $stage "*) ;;
            *) [ -f "$file" ] && grep -e "^$row[,/]" "$file" && continue ;;
            esac
            all=$((batch * heads)) k=1
            while [ $((all * q * n / k)) -gt 67108864 ] && [ $k -lt 8 ] && [ $((all % (2 * k))) -eq 0 ]; do k=$((2 * k)); done
            part=$gpu
            [ $k -eq 1 ] || part=$gpu/$k
            EMULATED_GPU=$part "$program" pass "$stage" --device emulator --pass "$pass" \
                --heads $((all / k)) --qlen "$q" --kvlen "$n" --dim "$d" < /dev/null > "$work/out" || exit 1
            sed -n 's/.*DRAM read \([^ ]*\) MB, written \([^ ]*\) MB, left in the L2 \([^ ]*\) MB.*/\1 \2 \3/p' "$work/out" |
                awk -v row="$stage,$pass,$batch,$heads,$q,$n,$d,$part" -v k=$k '{ print row "," $1 * k "," $2 * k "," $3 * k }'
            echo "modelled $stage $pass B=$batch H=$heads N=$n d=$d on $part" >&2
        done >> "$work/rows" || exit 1
done
{
    echo "# make l2-model: attention pass --device emulator, the heads and the GPU divided by the number behind gpu's /, the bytes times it"
    echo "stage,pass,batch,heads,q_len,kv_len,head_dim,gpu,dram_read_mb,dram_written_mb,dram_left_mb"
    cat "$work/rows"
} > "$file.new" && mv "$file.new" "$file" && echo "wrote $file"
