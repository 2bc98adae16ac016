# text.awk -- traffic against N without gnuplot: a table and a plot in characters, from plots/data/traffic.csv
# or traffic-backward.csv.
BEGIN {
    FS = ","
    symbol["naive"] = "N"; symbol["q-outer-plain"] = "Q"; symbol["kv-outer"] = "K"; symbol["compulsory"] = "c"
    symbol["recompute-atomic"] = "A"; symbol["recompute-two-pass"] = "T"
    says["naive"] = "naive"
    says["q-outer-plain"] = "Q outer: v1, FlashAttention-2's order"
    says["kv-outer"] = "KV outer: v2, FlashAttention's order"
    says["recompute-atomic"] = "P recomputed in one pass, dQ by atomics"
    says["recompute-two-pass"] = "P recomputed in two passes"
    says["compulsory"] = "compulsory: each input and output once"
    # What a stage of the backward pass runs forward is another stage's.
    shown["forward"] = " naive q-outer-plain kv-outer compulsory "
    shown["backward"] = " naive recompute-atomic recompute-two-pass compulsory "
    rows = 23; top = 12; bottom = 6 # powers of ten
}
/^#/ { next }
!named { for (i = 1; i <= NF; i++) column[$i] = i; named = 1; next }
$column["tensor"] == "all" && index(shown[$column["pass"]], " " $column["stage"] " ") {
    stage = $column["stage"]; n = $column["kv_len"]
    if (!(stage in seen)) { seen[stage] = 1; order[++stages] = stage }
    if (!(n in place)) { place[n] = ++lengths; at[lengths] = n }
    model[stage, n] = $column["model_read_bytes"] + $column["model_written_bytes"]
    if ($column["dram_read_bytes"] != "")
        dram[stage, n] = $column["dram_read_bytes"] + $column["dram_written_bytes"] + $column["dram_left_bytes"]
    pass = $column["pass"]
    what = "B=" $column["batch"] " H=" $column["heads"] " d=" $column["head_dim"] " fp32"
}
function put(bytes, n, mark,    row, x) {
    row = int((log(bytes) / log(10) - bottom) / (top - bottom) * (rows - 1) + 0.5)
    x = 7 * place[n]
    while ((row, x) in cell) x++ # beside what stands there
    cell[row, x] = mark
}
END {
    print "Traffic against sequence length, " pass ", " what ": MB read and written"
    printf "\n%8s", "N"
    for (s = 1; s <= stages; s++) printf " %18s", order[s]
    print "   of these, DRAM behind an H200's L2, modelled"
    for (l = 1; l <= lengths; l++) {
        printf "%8d", at[l]
        for (s = 1; s <= stages; s++) printf " %18.1f", model[order[s], at[l]] / 1e6
        text = ""
        for (s = 1; s <= stages; s++)
            if ((order[s], at[l]) in dram) text = text sprintf("   %s %.1f", order[s], dram[order[s], at[l]] / 1e6)
        print text
    }
    print ""
    for (s = 1; s <= stages; s++)
        for (l = 1; l <= lengths; l++) put(model[order[s], at[l]], at[l], symbol[order[s]])
    for (s = 1; s <= stages; s++)
        for (l = 1; l <= lengths; l++)
            if ((order[s], at[l]) in dram) put(dram[order[s], at[l]], at[l], tolower(symbol[order[s]]))
    for (row = rows - 1; row >= 0; row--) {
        power = bottom + row * (top - bottom) / (rows - 1)
        mark = ""
        for (p = bottom; p <= top; p += 3)
            if (power - p < 0.13 && p - power < 0.13) mark = p == 6 ? "1 MB" : p == 9 ? "1 GB" : "1 TB"
        line = sprintf("%6s |", mark)
        for (x = 1; x <= 7 * lengths + 6; x++) line = line ((row, x) in cell ? cell[row, x] : " ")
        sub(/ +$/, "", line)
        print line
    }
    line = "       +"
    for (x = 1; x <= 7 * lengths + 6; x++) line = line "-"
    print line
    line = sprintf("%8s", "N =")
    for (l = 1; l <= lengths; l++) line = line sprintf("%7d", at[l])
    print line "\n"
    for (s = 1; s <= stages; s++) printf "    %s  %s\n", symbol[order[s]], says[order[s]]
    print "    Small letters: what reaches DRAM. Twice the N, four times the bytes; at DRAM, " \
        (pass == "forward" ? "Q outer" : "what recomputes P") " stands on the floor."
}
