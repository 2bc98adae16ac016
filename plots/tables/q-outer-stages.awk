# q-outer-stages.awk -- chapter 3: bytes and time beside naive's, for the plain kernel and the fast one.
BEGIN {
    STAGES = "recorded/h200-stages.csv"
    print "| | | read, by the model, GB | of naive's | ms | of naive's |"
    print "|---|---|---:|---:|---:|---:|"
    print_problem(8, 32, 2048, 64)
    print_problem(8, 16, 2048, 128)
    print "\n" machine(STAGES)
}

function print_problem(b, h, n, d,    where, i, count, stage, is, naive) {
    where = shape(b, h, n, d) " pass=forward causal=0"
    naive = where " stage=naive"
    count = split("naive q-outer-plain q-outer", stage, " ")
    for (i = 1; i <= count; i++) {
        is = where " stage=" stage[i]
        print "| " words(b, h, n, d) " | `" stage[i] "` | " gb(need(STAGES, is, "model_read_bytes")) " | " \
            ratio(need(STAGES, is, "model_read_bytes") / need(STAGES, naive, "model_read_bytes")) " | " \
            short(need(STAGES, is, "ms")) " | " ratio(need(STAGES, is, "ms") / need(STAGES, naive, "ms")) " |"
    }
}
