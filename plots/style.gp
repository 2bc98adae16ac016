# style.gp -- what all pictures share. draw.sh sets `kind` ("svg" or "png") and the output.
#
# Colours are Okabe and Ito's, which survive colour blindness; lines also differ in their dashes, for those
# who see or print no colour. Lines carry their names, so that nobody hunts through a legend.
set encoding utf8
if (kind eq "svg") {
    set terminal svg size 1280,720 enhanced background "white" font "Helvetica,18.5" linewidth 1.5 dashlength 0.6
    small = ",16"; large = ",26"; below = 0.7; dot = 0.65; right = 0.5
} else {
    set terminal pngcairo size 1280,720 enhanced background "white" font "Helvetica,14.5" linewidth 1.5 dashlength 0.6
    small = ",12.5"; large = ",20"; below = 0.4; dot = 1; right = -0.5
}

BLUE = 0x0072B2; VERMILION = 0xD55E00; GREEN = 0x009E73; PURPLE = 0xCC79A7; SKY = 0x56B4E9
ORANGE = 0xE69F00; INK = 0x222222; GREY = 0x777777

colour(stage) = stage eq "naive" ? VERMILION : stage eq "q-outer" ? BLUE : \
    stage eq "recompute-atomic" ? BLUE : stage eq "recompute-two-pass" ? GREEN : \
    stage eq "q-outer-plain" ? SKY : stage eq "kv-outer" ? GREEN : stage eq "kv-grid" ? PURPLE : \
    stage eq "kv-split" ? ORANGE : INK
# Half way to white.
lighter(c) = ((int(c) >> 16 & 255) + 255) / 2 * 65536 + ((int(c) >> 8 & 255) + 255) / 2 * 256 + ((int(c) & 255) + 255) / 2
dashes(stage) = stage eq "naive" ? 1 : stage eq "q-outer" || stage eq "recompute-atomic" ? 2 : \
    stage eq "q-outer-plain" ? 5 : stage eq "kv-outer" || stage eq "recompute-two-pass" ? 4 : 3
points(stage) = stage eq "naive" ? 7 : stage eq "q-outer" || stage eq "recompute-atomic" ? 5 : \
    stage eq "q-outer-plain" ? 9 : stage eq "kv-outer" || stage eq "recompute-two-pass" ? 11 : stage eq "kv-grid" ? 13 : 15
name(stage) = stage eq "naive" ? "naive: S and P in memory" : \
    stage eq "q-outer" ? "Q outer: v1, FlashAttention-2’s order" : \
    stage eq "q-outer-plain" ? "Q outer, the plain kernel" : \
    stage eq "kv-outer" ? "KV outer: v2, FlashAttention’s order" : \
    stage eq "kv-grid" ? "KV over the grid" : stage eq "kv-split" ? "keys split over blocks" : \
    stage eq "recompute-atomic" ? "recomputed in one pass, dQ by atomics" : \
    stage eq "recompute-two-pass" ? "recomputed in two passes" : stage

# Rows of a CSV file, as a data source for plot; see pick.awk. `values`: the same, into a string.
command(file, where, show) = "awk -f plots/pick.awk -v where='" . where . "' -v show='" . show . "' " . file
pick(file, where, show) = "< " . command(file, where, show)
last(file, where, show) = pick(file, where, show) . " | tail -n 1"
summed(file, where, show) = "< awk -v total=1" . command(file, where, show)[4:]
values(file, where, show) = system(command(file, where, show))
distinct(file, where, show) = system(command(file, where, show) . " | awk '!seen[$0]++' | tr '\n' ' '")
has(file, where) = strlen(values(file, where, "stage")) > 0
# Without a mask chapter 6 runs the kernels of chapters 3 and 5: it would stand on them.
unmasked(stages) = system("echo '" . stages . "' | sed 's/\\bmasked\\b//; s/\\bvariants\\b//'")
# Where a file comes from: its first line.
provenance(file) = system("sed -n '1s/^# *//p' " . file)

set border 3 linecolor rgb GREY
set tics nomirror textcolor rgb INK
set grid linecolor rgb 0xDDDDDD linetype 1 linewidth 0.5
unset key

# Title above; beneath, up to three lines (labels 901 to 903) that say what it shows and where it is from.
title(text) = "{/:Bold " . text . "}"
set label 900 "" at screen 0.02, screen 0.955 left font large
do for [i = 0:2] { set label 901 + i "" at screen 0.02, screen 0.115 - 0.04 * i left font small textcolor rgb INK }
set bmargin at screen 0.235
set tmargin at screen 0.90
set lmargin at screen 0.105

bytes_tics = "set ytics ('1 KB' 1e3, '10 KB' 1e4, '100 KB' 1e5, '1 MB' 1e6, '10 MB' 1e7, '100 MB' 1e8, '1 GB' 1e9, '10 GB' 1e10, '100 GB' 1e11, '1 TB' 1e12)"
lengths_tics = "set xtics (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)"
