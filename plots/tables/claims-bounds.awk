# claims-bounds.awk -- notes/claims.md: what the bytes alone and the products alone would take, beside the time.
BEGIN {
    STAGES = "recorded/h200-stages.csv"; DRAM = "recorded/dram-h200.csv"
    PEERS = "recorded/h200-peers.csv"; COPY = "recorded/copy-h200.csv"
    load(COPY)
    rate = cell[COPY, 1, "bytes"] / cell[COPY, 1, "ms"] # bytes a millisecond
    products = 4 * 2048 * 2048 * 64 * 8 * 32 / (need(PEERS, "kernel=sgemm batch=8 heads=32", "tflops") * 1e9)

    print "| | DRAM, GB | its time at a copy's rate, ms | the products' time at sgemm's rate, ms | measured, ms |"
    print "|---|---:|---:|---:|---:|"
    count = split("naive q-outer-plain q-outer kv-outer", stages, " ")
    for (i = 1; i <= count; i++) {
        is = "stage=" stages[i] " pass=forward "
        bytes = total(DRAM, is dram_shape(8, 32, 2048, 64), "dram_read_bytes") + \
            total(DRAM, is dram_shape(8, 32, 2048, 64), "dram_written_bytes")
        if (bytes == 0) fail(DRAM " has no " is)
        print "| `" stages[i] "` | " gb(bytes) " | " short(bytes / rate) " | " short(products) " | " \
            short(need(STAGES, is shape(8, 32, 2048, 64) " causal=0", "ms")) " |"
    }
    print "\n" words(8, 32, 2048, 64) " fp32, forward; a copy moved " short(rate / 1e9) " TB/s. " machine(STAGES) \
        ", `plots/" DRAM "`, `plots/" PEERS "`, `plots/" COPY "`"
}
