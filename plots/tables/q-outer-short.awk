# q-outer-short.awk -- chapter 3: short sequences, naive, the plain and the fast kernel; bold the fastest.
BEGIN {
    SHORT = "recorded/h200-short.csv"
    heads = distinct(SHORT, "batch=1", "heads", h)
    lengths = distinct(SHORT, "batch=1", "n", n)
    line = "| B·H |"
    rule = "|---:|"
    for (j = 1; j <= lengths; j++) {
        line = line (j == 1 ? " N=" : " ") n[j] " |"
        rule = rule "---:|"
    }
    print line "\n" rule
    for (i = 1; i <= heads; i++) {
        line = "| " h[i] " |"
        for (j = 1; j <= lengths; j++) {
            where = n_shape(1, h[i], n[j], 64)
            naive = need(SHORT, where " kernel=naive", "ms")
            tiled = need(SHORT, where " kernel=q-outer", "ms")
            plain = need(SHORT, where " kernel=q-outer-plain", "ms")
            least = naive + 0 < plain + 0 ? naive : plain
            if (tiled + 0 < least + 0) least = tiled
            line = line " " marked(naive) " / " marked(plain) " / " marked(tiled) " |"
        }
        print line
    }
    print "\n" machine(SHORT) (caveats(SHORT) != "" ? "; " caveats(SHORT) : "")
}

function marked(ms) { return sprintf(ms + 0 == least + 0 ? "**%.3f**" : "%.3f", ms) }
