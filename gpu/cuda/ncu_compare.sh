#!/bin/sh
# ncu_compare.sh PROGRAM FOLDER -- the check build beside silicon: for every pass in FOLDER/requests-<gpu>.csv its
# sectors and shared-memory passes. Needs no GPU. The table goes to standard output as CSV. The model of the L2
# has a table of its own (plots/l2_model.sh, gpu/emulator/README.md).
program=$1 folder=$2
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
