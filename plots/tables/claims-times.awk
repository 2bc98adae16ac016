# claims-times.awk -- notes/claims.md: the pairs of times that its verdicts rest on.
BEGIN {
    STAGES = "recorded/h200-stages.csv"; MASKS = "recorded/h200-masks.csv"
    print "| first, second | problem | first, ms | second, ms | second over first |"
    print "|---|---|---:|---:|---:|"
    orders("256 heads of 2048, d=64", shape(8, 32, 2048, 64))
    orders("128 heads of 2048, d=128", shape(8, 16, 2048, 128))
    orders("8 heads of 4096, d=64", shape(1, 8, 4096, 64))
    kept("atomically", "recompute-atomic", "256 heads of 2048, d=64", shape(8, 32, 2048, 64))
    kept("atomically", "recompute-atomic", "128 heads of 2048, d=128", shape(8, 16, 2048, 128))
    kept("atomically", "recompute-atomic", "8 heads of 1024, d=64", shape(1, 8, 1024, 64))
    kept("atomically", "recompute-atomic", "1 head of 1024, d=64", shape(1, 1, 1024, 64))
    kept("in two passes", "recompute-two-pass", "256 heads of 2048, d=64", shape(8, 32, 2048, 64))
    where = "stage=masked pass=forward window=0 " shape(2, 16, 4096, 64)
    row("causal, and without a mask", "32 heads of 4096, d=64", \
        need(MASKS, where " causal=1", "ms"), need(MASKS, where " causal=0", "ms"))
    print "\nfp32. " machine(STAGES) ", `plots/" MASKS "`"
}

function row(what, problem, first, second) {
    print "| " what " | " problem " | " short(first) " | " short(second) " | " short(second / first) " |"
}
function orders(problem, where) {
    where = " pass=forward causal=0 " where
    row("Q outer, KV outer", problem, need(STAGES, "stage=q-outer" where, "ms"), need(STAGES, "stage=kv-outer" where, "ms"))
}
function kept(how, stage, problem, where) {
    where = " pass=backward causal=0 " where
    row("backward: P kept, recomputed " how, problem, need(STAGES, "stage=naive" where, "ms"), \
        need(STAGES, "stage=" stage where, "ms"))
}
