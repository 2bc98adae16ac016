# decode-rates.awk -- notes/training-prefill-decode: one query against a long cache, each stage's time and how much of
# the cache it reads a second, beside a copy's rate.
BEGIN {
    STAGES = "recorded/h200-stages.csv"; COPY = "recorded/copy-h200.csv"
    KEYS = 65536; HEADS = 8; D = 64
    where = shape_q(1, HEADS, 1, KEYS, D)
    cache = 2 * 4 * HEADS * KEYS * D
    rate = need(COPY, "", "bytes") / need(COPY, "", "ms") / 1e9 # TB/s
    print "| | ms | of the cache, TB/s | of a copy's rate |"
    print "|---|---:|---:|---:|"
    count = split("naive q-outer-plain q-outer kv-outer kv-grid kv-split", stage, " ")
    for (i = 1; i <= count; i++) {
        ms = need(STAGES, "stage=" stage[i] " pass=forward causal=0 " where, "ms")
        print "| `" stage[i] "` | " short(ms) " | " short(cache / ms / 1e9) " | " ratio(cache / ms / 1e9 / rate) " |"
    }
    print "\nB=1 H=" HEADS " d=" D ", 1 query, " KEYS " keys, fp32: K and V are " short(cache / 1e6) " MB, " \
        short(cache / rate / 1e9) " ms at the " short(rate) " TB/s of a copy (`plots/" COPY "`). Times: " source(STAGES)
}
