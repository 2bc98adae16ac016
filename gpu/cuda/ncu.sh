#!/bin/sh
# ncu.sh PROGRAM FOLDER [requests | B:H:N:D ...] -- what Nsight Compute counts of every stage, as CSV in FOLDER:
#
#   dram-<gpu>.csv       bytes read from and written to DRAM, by kernel, for each size given
#   requests-<gpu>.csv   sectors that warps ask of the L1, and shared-memory passes, of one small size; with the
#                        word `requests` this alone
#
# Each pass starts with an L2 that `attention pass` has emptied (the kernel empty_l2; what comes after it
# is the pass) and keeps what one kernel leaves for the next (--cache-control none). Where the counters
# may not be read, a sentence says why, and nothing is written.
program=$1 folder=$2
shift 2
only=
[ "$1" != requests ] || { only=requests && shift; }
[ $# -gt 0 ] || set -- 8:32:2048:64 1:16:4096:64 2:8:1000:64
small=1:2:512:64
refuse() {
    echo "make ncu: $1" >&2
    exit 1
}
command -v ncu > /dev/null 2>&1 || refuse "Nsight Compute (ncu) is not installed, or not on the PATH"
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null | head -n 1)
[ -n "$gpu" ] || refuse "there is no NVIDIA GPU here"
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
cuda=$(nvcc --version 2> /dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
stages=$("$program" list --device gpu --csv | awk -F, 'NR > 1 && $3 == "gpu" { print $1 ":" $4 }')
[ -n "$stages" ] || refuse "no stage is built for the GPU"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=$(echo "$gpu" | sed -e 's/NVIDIA //' | tr 'A-Z ' 'a-z-')

# The columns, and the counters in them.
dram_counters="
dram_read_bytes        dram__bytes_read.sum
dram_written_bytes     dram__bytes_write.sum"
sectors=l1tex__t_sectors_pipe_lsu_mem_global_op
requests=l1tex__t_requests_pipe_lsu_mem_global_op
copies=sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts
passes=l1tex__data_pipe_lsu_wavefronts_mem_shared_op
conflicts=l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op
request_counters="
global_load_sectors    ${sectors}_ld.sum
global_store_sectors   ${sectors}_st.sum
l2_read_sectors        lts__t_sectors_op_read.sum
l2_write_sectors       lts__t_sectors_op_write.sum
shared_load_passes     ${passes}_ld.sum
shared_store_passes    ${passes}_st.sum
shared_load_conflicts  ${conflicts}_ld.sum
shared_store_conflicts ${conflicts}_st.sum
global_load_requests   ${requests}_ld.sum
global_store_requests  ${requests}_st.sum
copy_sectors           ${copies}.sum
copy_sectors_past_l1   ${copies}_cache_bypass.sum
copy_sectors_by_l1     ${copies}_cache_access.sum
copy_instructions      smsp__inst_executed_op_ldgsts.sum
shared_load_requests   smsp__inst_executed_op_shared_ld.sum
shared_store_requests  smsp__inst_executed_op_shared_st.sum"

columns() { echo "$1" | awk 'NF { printf "%s%s", comma, $1; comma = "," }'; }
metrics() { echo "$1" | awk 'NF { printf "%s%s", comma, $2; comma = "," }'; }

# profile METRICS STAGE PASS B:H:N:D -> $work/out; succeeds when ncu has measured
profile() {
    batch=$(echo "$4" | cut -d: -f1) heads=$(echo "$4" | cut -d: -f2)
    n=$(echo "$4" | cut -d: -f3) d=$(echo "$4" | cut -d: -f4)
    ncu --csv --page raw --print-units base --cache-control none --clock-control none --metrics "$1" \
        "$program" pass "$2" --device gpu --pass "$3" --batch "$batch" --heads "$heads" --n "$n" \
        --dim "$d" > "$work/out" 2>&1
    if grep -q ERR_NVGPUCTRPERM "$work/out"; then
        refuse "the driver lets only an administrator read the GPU's counters (ERR_NVGPUCTRPERM); try it as root"
    fi
    grep -q '^"ID"' "$work/out"
}

# known METRICS -> those of them that this ncu knows for this GPU: all at once, or else one by one
known() {
    first=$(echo "$stages" | head -n 1)
    if profile "$1" "${first%%:*}" forward 1:1:64:64; then
        echo "$1"
        return
    fi
    list=
    for metric in $(echo "$1" | tr , ' '); do
        if profile "$metric" "${first%%:*}" forward 1:1:64:64; then
            list=$list,$metric
        else
            echo "not known here, its column stays empty: $metric" >&2
        fi
    done
    echo "${list#,}"
}

# measure METRICS COUNTERS STAGE PASS B:H:N:D -> rows "stage,pass,B,H,N,N,D,number,kernel,values..." of each
# kernel; a counter that is not among METRICS has no value
measure() {
    if ! profile "$1" "$3" "$4" "$5"; then
        echo "not measured: $3 $4 $5: $(grep -e '^attention:' -e '==ERROR==' "$work/out" | head -n 1)" >&2
        return
    fi
    grep '^"' "$work/out" | awk -v metrics="$(metrics "$2")" -v row="$3,$4,$batch,$heads,$n,$n,$d" '
        function field(i,    text) { text = cell[i]; gsub(/[",]/, "", text); return text }
        BEGIN { FS = "\",\"" }
        NR == 1 {
            for (i = 1; i <= NF; i++) { head = $i; gsub(/"/, "", head); column[head] = i }
            count = split(metrics, wanted, ",")
            next
        }
        NR == 2 { next } # units
        {
            for (i = 1; i <= NF; i++) cell[i] = $i
            kernel = $(column["Kernel Name"])
            sub(/\(.*/, "", kernel); sub(/^void /, "", kernel); gsub(/,/, "", kernel)
            if (kernel ~ /^empty_l2/) { kernels = 0; next }
            values = ""
            for (i = 1; i <= count; i++)
                values = values "," (wanted[i] in column ? field(column[wanted[i]]) : "")
            line[++kernels] = row "," kernels "," kernel values
        }
        END { for (i = 1; i <= kernels; i++) print line[i] }'
}

# record FILE COUNTERS SIZES...
record() {
    file=$1 counters=$2
    shift 2
    wanted=$(known "$(metrics "$counters")") || exit 1
    printf '# %s, driver %s, CUDA %s, %s\n# %s, sizes %s\n%s\n' "$gpu" "$driver" "$cuda" "$(date +%Y-%m-%d)" \
        "make ncu ($(ncu --version | tail -n 1))" "$*" \
        "stage,pass,batch,heads,q_len,kv_len,head_dim,number,kernel,$(columns "$counters")" > "$work/csv"
    for row in $stages; do
        for pass in forward backward; do
            case ${row#*:} in *$pass*) ;; *) continue ;; esac
            for size in "$@"; do
                measure "$wanted" "$counters" "${row%%:*}" $pass "$size" >> "$work/csv" || exit 1
            done
        done
    done
    cp "$work/csv" "$file" && echo "wrote $file"
}

mkdir -p "$folder" || exit 1
[ -n "$only" ] || record "$folder/dram-$name.csv" "$dram_counters" "$@" || exit 1
record "$folder/requests-$name.csv" "$request_counters" $small
