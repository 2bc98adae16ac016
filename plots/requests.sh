#!/bin/sh
# requests.sh PROGRAM FOLDER [STAGE] -- what the check build counts of every launch that Nsight Compute has counted
# (FOLDER/recorded/requests-<gpu>.csv): sectors of device memory, passes of shared memory. As
# FOLDER/data/requests.csv; of one STAGE, only to standard output. Needs no GPU; half a minute.
program=$1 folder=$2 only=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

cat "$folder"/recorded/requests-*.csv | grep -v -e '^#' -e '^stage,' |
    awk -F, -v only="$only" 'only == "" || $1 == only { print $1, $2, $3, $4, $5, $6, $7 }' | sort -u > "$work/passes"
# run PASS -> a line for each launch
run() {
    "$program" pass "$stage" --device check --pass "$1" --batch "$batch" --heads "$heads" --qlen "$q" --kvlen "$n" \
        --dim "$d" < /dev/null > "$work/report" && grep '^launch ' "$work/report"
}
while read -r stage pass batch heads q n d; do
    run forward > "$work/out" || exit 1
    before=0
    if [ "$pass" = backward ]; then # it has the forward pass' launches before its own
        before=$(wc -l < "$work/out")
        run backward > "$work/out" || exit 1
    fi
    sed -n 's/^launch [0-9]*, //p' "$work/out" | tail -n +$((before + 1)) |
        awk -F ': sectors ' -v row="$stage,$pass,$batch,$heads,$q,$n,$d" '{
            kernel = $1; gsub(/,/, "", kernel)
            gsub(/[^0-9]+/, " ", $2); split($2, value, " ")
            for (i = 1; i <= 7; i++) counts = counts "," value[i]
            print row "," NR "," kernel counts
            counts = "" }'
done < "$work/passes" > "$work/rows" || exit 1
if [ -n "$only" ]; then
    cat "$work/rows"
    exit
fi
file=$folder/data/requests.csv
{
    echo "# make requests: attention pass --device check, launch by launch"
    echo "stage,pass,batch,heads,q_len,kv_len,head_dim,number,kernel,load_sectors,copy_sectors,store_sectors,shared_load_passes,shared_load_conflicts,shared_store_passes,shared_store_conflicts"
    cat "$work/rows"
} > "$file.new" && mv "$file.new" "$file" && echo "wrote $file"
