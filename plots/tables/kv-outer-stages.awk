# kv-outer-stages.awk -- chapter 4: time of its three kernels on problems with many and with few heads and queries,
# and how many times chapter 3's that is; bold where it is least.
BEGIN {
    STAGES = "recorded/h200-stages.csv"
    count = split("naive q-outer kv-outer kv-grid kv-split", stage, " ")
    print "| | `naive` | `q-outer` | (a) `kv-outer` | (b) `kv-grid` | (c) `kv-split` |"
    print "|---|---:|---:|---:|---:|---:|"
    print_problem(words(8, 32, 2048, 64), shape(8, 32, 2048, 64))
    print_problem(words(8, 16, 2048, 128), shape(8, 16, 2048, 128))
    print_problem(words(1, 8, 4096, 64), shape(1, 8, 4096, 64))
    print_problem(words(1, 8, 1024, 64), shape(1, 8, 1024, 64))
    print_problem(words(1, 1, 1024, 64), shape(1, 1, 1024, 64))
    print_problem("B=1 H=8 d=64, 1 query, 65536 keys", shape_q(1, 8, 1, 65536, 64))
    print "\nms (times `q-outer`'s); " machine(STAGES)
}

function print_problem(name, where,    i, ms, least, line) {
    for (i = 1; i <= count; i++) {
        ms[i] = need(STAGES, where " causal=0 pass=forward stage=" stage[i], "ms") + 0
        if (i == 1 || ms[i] < least) least = ms[i]
    }
    for (i = 1; i <= count; i++)
        line = line " | " (ms[i] == least ? "**" short(ms[i]) "**" : short(ms[i])) \
            (i == 2 ? "" : " (" short(ms[i] / ms[2]) ")")
    print "| " name line " |"
}
