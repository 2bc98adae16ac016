#!/bin/sh
# ncu_compare.sh PROGRAM FOLDER -- the emulator beside silicon: for every pass in FOLDER/dram-<gpu>.csv the
# model's DRAM bytes beside Nsight Compute's, for every pass in FOLDER/requests-<gpu>.csv the check build's
# sectors and shared-memory passes. Needs no GPU. The table goes to standard output as CSV.
#
# Large problems are modelled in part: 1/k of the heads on 1/k of the GPU (EMULATED_GPU=H200/8), times k.
# Exit status 1 when the DRAM bytes of some pass, read and written together, are off by more than 10%.
program=$1 folder=$2 worst=0
for file in "$folder"/dram-*.csv; do
    [ -f "$file" ] || { echo "make ncu has not written $folder/dram-<gpu>.csv yet" >&2; exit 1; }
    gpu=$(basename "$file" .csv | sed -e 's/^dram-//' -e 's/-.*//' | tr a-z A-Z)
    echo "stage,pass,batch,heads,n,head_dim,gpu_modelled,ncu_read_mb,model_read_mb,ncu_written_mb,model_written_mb,off_percent"
    grep -v -e '^#' -e '^stage,' "$file" | awk -F, '
        { key = $1 " " $2 " " $3 " " $4 " " $5 " " $7
          if (!(key in read)) order[++count] = key
          read[key] += $10; written[key] += $11 }
        END { for (i = 1; i <= count; i++) printf "%s %.0f %.0f\n", order[i], read[order[i]], written[order[i]] }' |
    {
        while read -r stage pass batch heads n d read written; do
            all=$((batch * heads)) k=1
            while [ $((all * n * n / k)) -gt 67108864 ] && [ $k -lt 8 ] && [ $((all % (2 * k))) -eq 0 ]; do k=$((2 * k)); done
            part=$gpu
            [ $k -eq 1 ] || part=$gpu/$k
            EMULATED_GPU=$part "$program" pass "$stage" --device emulator --pass "$pass" \
                --heads $((all / k)) --n "$n" --dim "$d" < /dev/null |
                sed -n 's/.*DRAM read \([^ ]*\) MB, written \([^ ]*\) MB.*/\1 \2/p' |
                awk -v row="$stage,$pass,$batch,$heads,$n,$d,$part" -v read="$read" -v written="$written" -v k=$k '{
                    off = 100 * (($1 + $2) * k / ((read + written) / 1e6) - 1)
                    printf "%s,%.1f,%.1f,%.1f,%.1f,%+.1f\n", row, read / 1e6, $1 * k, written / 1e6, $2 * k, off
                    exit off > 10 || off < -10 }' || worst=1
        done
        exit $worst
    } || worst=1
done
for file in "$folder"/requests-*.csv; do
    [ -f "$file" ] || continue
    echo "stage,pass,batch,heads,n,head_dim,ncu_sectors,check_sectors,ncu_shared_passes,check_shared_passes,ncu_bank_conflicts,check_bank_conflicts"
    grep -v -e '^#' -e '^stage,' "$file" | awk -F, '
        { key = $1 " " $2 " " $3 " " $4 " " $5 " " $7
          if (!(key in sectors)) order[++count] = key
          sectors[key] += $10 + $11; passes[key] += $14 + $15; conflicts[key] += $16 + $17 }
        END { for (i = 1; i <= count; i++) print order[i], sectors[order[i]], passes[order[i]], conflicts[order[i]] }' |
    while read -r stage pass batch heads n d sectors passes conflicts; do
        # The report is of all launches: a backward pass has the forward pass before it taken off.
        for which in forward $pass; do
            "$program" pass "$stage" --device check --pass $which --batch "$batch" --heads "$heads" \
                --n "$n" --dim "$d" < /dev/null
        done | awk -v row="$stage,$pass,$batch,$heads,$n,$d" -v s="$sectors" -v p="$passes" -v c="$conflicts" '
            /^device memory:/ { before_s = sectors; sectors = $3 }
            /^shared memory:/ { before_p = passes; before_i = ideal; passes = $3; ideal = $5 }
            END { if (row ~ /,forward,/) before_s = before_p = before_i = 0
                  printf "%s,%d,%d,%d,%d,%d,%d\n", row, s, sectors - before_s, p, passes - before_p, c,
                         passes - before_p - (ideal - before_i) }'
    done
done
exit $worst
