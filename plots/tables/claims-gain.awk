# claims-gain.awk -- notes/claims.md: how many times as fast as naive q-outer is, by heads and length. Above 1 it wins.
BEGIN {
    SHORT = "recorded/h200-short.csv"; STAGES = "recorded/h200-stages.csv"
    heads = distinct(SHORT, "batch=1", "heads", h)
    lengths = distinct(SHORT, "batch=1", "n", n)
    line = "| B·H |"
    rule = "|---:|"
    for (j = 1; j <= lengths; j++) {
        line = line (j == 1 ? " N=" : " ") n[j] " |"
        rule = rule "---:|"
    }
    print line " 2048 | 4096 |\n" rule "---:|---:|"
    for (i = 1; i <= heads; i++) {
        line = "| " h[i] " |"
        for (j = 1; j <= lengths; j++) {
            where = n_shape(1, h[i], n[j], 64)
            line = line " " gain(need(SHORT, where " kernel=naive", "ms"), need(SHORT, where " kernel=q-outer", "ms")) " |"
        }
        print line " " (h[i] == 256 ? recorded(8, 32, 2048) : "") " | " (h[i] == 8 ? recorded(1, 8, 4096) : "") " |"
    }
    print "\nTime of `naive` over that of `q-outer`, forward, d=64, fp32; empty: not recorded. " machine(SHORT) \
        ", 2048 and 4096: `plots/" STAGES "`"
}

function gain(naive, tiled) { return ratio(naive / tiled) }
function recorded(b, hs, length_n,    where) {
    where = " pass=forward causal=0 " shape(b, hs, length_n, 64)
    return gain(need(STAGES, "stage=naive" where, "ms"), need(STAGES, "stage=q-outer" where, "ms"))
}
