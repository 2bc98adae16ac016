# features.awk -- chapter 6: what each feature costs on a GPU, beside the same problem with all off. Nothing as long
# as it has not been recorded.
BEGIN {
    FEATURES = "recorded/h200-features.csv"
    if (!is_there(FEATURES)) exit
    print_problem(2, 16, 4096, 64)
    print_problem(2, 8, 4096, 128)
    print "FLOPs skipped: of those with all off, by the closed form, below 0 what is executed besides; bytes read + written: what the kernels ask of" \
        " device memory. The window has 256 keys on each side that has one; variable lengths are each member of the" \
        " batch cut into four sequences, one of them empty. " source(FEATURES)
}

function print_problem(b, h, n, d,    keys, count, i) {
    print words(b, h, n, d) ", on `" need(FEATURES, shape(b, h, n, d) " feature=off", "stage") "`:\n"
    print "| feature | FLOPs skipped | forward, GB | ms | over all off | FLOPs skipped | backward, GB | ms | over all off |"
    print "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    count = distinct(FEATURES, "head_dim=" d, "feature", keys)
    for (i = 1; i <= count; i++)
        print "| " name(keys[i]) " |" cells(keys[i], d, "forward") cells(keys[i], d, "backward")
    print ""
}

function cells(feature, d, pass,    where, off) {
    where = "feature=" feature " head_dim=" d " pass=" pass
    off = "feature=off head_dim=" d " pass=" pass
    return " " percent(1 - need(FEATURES, where, "flops") / need(FEATURES, off, "flops")) " | " \
        both(gb(need(FEATURES, where, "read_bytes")), gb(need(FEATURES, where, "written_bytes"))) " | " \
        short(need(FEATURES, where, "ms")) " | " \
        ratio(need(FEATURES, where, "ms") / need(FEATURES, off, "ms")) " |"
}

function percent(x) { return sprintf("%.1f %%", x * 100) }

function name(feature) {
    if (feature == "off") return "all off"
    if (feature == "causal") return "causal, bottom-right"
    if (feature == "window") return "window, both sides"
    if (feature == "causal+window") return "causal and window"
    if (feature == "lengths") return "variable lengths"
    if (feature == "grouped") return "grouped heads, 4 to a head of K and V"
    if (feature == "dbias") return "bias and its gradient"
    if (feature == "alibi") return "ALiBi"
    if (feature == "mask") return "byte mask"
    if (feature == "layout") return "strides of [B][N][H][d]"
    return feature
}
