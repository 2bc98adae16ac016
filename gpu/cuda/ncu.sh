#!/bin/sh
# ncu.sh PROGRAM FOLDER [B:H:N:D ...] -- what Nsight Compute counts of every stage, as CSV in FOLDER:
#
#   dram-<gpu>.csv       bytes read from and written to DRAM, by kernel, for each size given
#   requests-<gpu>.csv   sectors that warps ask of the L1, and shared-memory passes, of one small size
#
# Each pass starts with an L2 that `attention pass` has emptied (the kernel empty_l2; what comes after it
# is the pass) and keeps what one kernel leaves for the next (--cache-control none). Where the counters
# may not be read, a sentence says why, and nothing is written.
program=$1 folder=$2
shift 2
[ $# -gt 0 ] || set -- 8:32:2048:64 1:16:4096:64 2:8:1000:64
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
dram_metrics=dram__bytes_read.sum,dram__bytes_write.sum
sectors=l1tex__t_sectors_pipe_lsu_mem_global_op
passes=l1tex__data_pipe_lsu_wavefronts_mem_shared_op
conflicts=l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op
request_metrics=${sectors}_ld.sum,${sectors}_st.sum,lts__t_sectors_op_read.sum,lts__t_sectors_op_write.sum
request_metrics=$request_metrics,${passes}_ld.sum,${passes}_st.sum,${conflicts}_ld.sum,${conflicts}_st.sum

# measure METRICS STAGE PASS B:H:N:D -> rows "stage,pass,B,H,N,N,D,number,kernel,values..." of each kernel
measure() {
    batch=$(echo "$4" | cut -d: -f1) heads=$(echo "$4" | cut -d: -f2)
    n=$(echo "$4" | cut -d: -f3) d=$(echo "$4" | cut -d: -f4)
    ncu --csv --page raw --print-units base --cache-control none --clock-control none --metrics "$1" \
        "$program" pass "$2" --device gpu --pass "$3" --batch "$batch" --heads "$heads" --n "$n" \
        --dim "$d" > "$work/out" 2>&1
    if grep -q ERR_NVGPUCTRPERM "$work/out"; then
        refuse "the driver lets only an administrator read the GPU's counters (ERR_NVGPUCTRPERM); try it as root"
    fi
    if ! grep -q '^"ID"' "$work/out"; then
        echo "not measured: $2 $3 $4: $(grep -e '^attention:' -e '==ERROR==' "$work/out" | head -n 1)" >&2
        return
    fi
    grep '^"' "$work/out" | awk -v metrics="$1" -v row="$2,$3,$batch,$heads,$n,$n,$d" '
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
            for (i = 1; i <= count; i++) values = values "," field(column[wanted[i]])
            line[++kernels] = row "," kernels "," kernel values
        }
        END { for (i = 1; i <= kernels; i++) print line[i] }'
}

# begin FILE COLUMNS SIZES
begin() {
    printf '# %s, driver %s, CUDA %s, %s\n# %s, sizes %s\n%s\n' "$gpu" "$driver" "$cuda" "$(date +%Y-%m-%d)" \
        "make ncu ($(ncu --version | tail -n 1))" "$3" "$2" > "$1"
}

mkdir -p "$folder" || exit 1
problem=stage,pass,batch,heads,q_len,kv_len,head_dim,number,kernel
begin "$work/dram" "$problem,dram_read_bytes,dram_written_bytes" "$*"
small=1:2:512:64
begin "$work/requests" "$problem,global_load_sectors,global_store_sectors,l2_read_sectors,l2_write_sectors,shared_load_passes,shared_store_passes,shared_load_conflicts,shared_store_conflicts" $small
for row in $stages; do
    stage=${row%%:*}
    for pass in forward backward; do
        case ${row#*:} in *$pass*) ;; *) continue ;; esac
        for size in "$@"; do
            measure $dram_metrics "$stage" $pass "$size" >> "$work/dram" || exit 1
        done
        measure $request_metrics "$stage" $pass $small >> "$work/requests" || exit 1
    done
done
cp "$work/dram" "$folder/dram-$name.csv" && cp "$work/requests" "$folder/requests-$name.csv" || exit 1
echo "wrote $folder/dram-$name.csv and $folder/requests-$name.csv"
