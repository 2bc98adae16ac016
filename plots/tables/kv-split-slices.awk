# kv-split-slices.awk -- chapter 4: kv-split with more and with fewer slices than it would choose, on a problem that
# fills the GPU with one and on one with a single query.
BEGIN {
    SLICES = "recorded/h200-slices.csv"; STAGES = "recorded/h200-stages.csv"
    print "With B=1 H=8 N=4096 d=64 the GPU is full with one slice:\n"
    print_problem(shape(1, 8, 4096, 64), 4096)
    print "\nWith B=1 H=8 d=64, 1 query and 65536 keys it is not:\n"
    print_problem(shape_q(1, 8, 1, 65536, 64), 65536)
    print "\n" machine(SLICES) (caveats(SLICES) != "" ? "; " caveats(SLICES) : "") "; its own choice: `plots/" STAGES "`"
}

function print_problem(where, keys,    is, own, count, bc, i, at) {
    is = "stage=kv-split pass=forward causal=0 " where
    count = distinct(SLICES, is, "bc", bc)
    print "| keys a slice | slices | read + written, MB | ms |"
    print "|---:|---:|---:|---:|"
    for (i = 1; i <= count; i++) {
        at = is " bc=" bc[i]
        print "| " bc[i] " | " int((keys + bc[i] - 1) / bc[i]) " | " moved(SLICES, at) " | " \
            short(need(SLICES, at, "ms")) " |"
    }
    print "| its own choice | | " moved(STAGES, is) " | " short(need(STAGES, is, "ms")) " |"
}
function moved(file, at) {
    return short((need(file, at, "model_read_bytes") + need(file, at, "model_written_bytes")) / 1e6)
}
