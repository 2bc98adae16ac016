# q-outer-short.awk -- chapter 3: short sequences, naive against the fast kernel; bold where naive is faster.
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
            mark = naive + 0 < tiled + 0 ? "**" : ""
            line = line sprintf(" %s%.3f / %.3f%s |", mark, naive, tiled, mark)
        }
        print line
    }
    print "\n" machine(SHORT) (caveats(SHORT) != "" ? "; " caveats(SHORT) : "")
}
