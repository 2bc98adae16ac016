# masked-times.awk -- chapter 6: times with a mask beside those without, and what the visited tiles would cost.
BEGIN {
    MASKS = "recorded/h200-masks.csv"
    print "| | pass | chapter 3 or 5, ms | no mask | causal | times as fast | window 256 | of its tiles' cost | window 1024 | of its tiles' cost |"
    print "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    # Rows of an outer and of an inner tile: Br and Bc forward, Bc and Br backward
    print_problem(2, 16, 4096, 64, 128, 64, 128, 128)
    print_problem(2, 8, 4096, 128, 64, 128, 128, 64)
    print_problem(1, 8, 16384, 64, 128, 64, 128, 128)
    print "\nWindows are causal too. Of its tiles' cost: over the time without a mask, times the share of the pairs that lie" \
        " in visited tiles. " machine(MASKS)
}

function print_problem(b, h, n, d, outer, inner, outer_back, inner_back) {
    print_pass("forward", "q-outer", b, h, n, d, outer, inner)
    print_pass("backward", "recompute-atomic", b, h, n, d, outer_back, inner_back)
}

# An outer tile sees what its last row sees, and what its first row saw besides, in whole inner tiles. (Backward the
# same from the other end.)
function share(w, n, outer, inner,    first, begin, sum) {
    for (first = 0; first < n; first += outer) {
        begin = first - w + 1 > 0 ? first - w + 1 : 0
        sum += int((first + outer - begin + inner - 1) / inner) * inner
    }
    return sum * outer / (n * n)
}

function print_pass(pass, unmasked, b, h, n, d, outer, inner,    where, full, causal, w256, w1024) {
    where = shape(b, h, n, d) " pass=" pass " stage="
    full = need(MASKS, where "masked causal=0 window=0", "ms")
    causal = need(MASKS, where "masked causal=1 window=0", "ms")
    w256 = need(MASKS, where "masked causal=1 window=256", "ms")
    w1024 = need(MASKS, where "masked causal=1 window=1024", "ms")
    print "| " words(b, h, n, d) " | " pass " | " short(need(MASKS, where unmasked " causal=0 window=0", "ms")) " | " \
        short(full) " | " short(causal) " | " ratio(full / causal) " | " \
        short(w256) " | " ratio(w256 / (full * share(256, n, outer, inner))) " | " \
        short(w1024) " | " ratio(w1024 / (full * share(1024, n, outer, inner))) " |"
}
