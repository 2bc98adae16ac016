# tiles.gp -- traffic against the on-chip memory that the tiles take: where it falls as 1/M, and where not.
load "plots/style.gp"
SHOW = "shared_bytes model_read_bytes+model_written_bytes compulsory_bytes br bc"
lengths = "8192 1024 128"
file(n) = "plots/data/tiles-" . n . ".csv"
PLAIN = "stage=q-outer-plain"
colour_of(n) = n eq "8192" ? VERMILION : n eq "1024" ? BLUE : GREEN
dash_of(n) = n eq "8192" ? 1 : n eq "1024" ? 2 : 4
point_of(n) = n eq "8192" ? 6 : n eq "1024" ? 4 : 12
# The smallest and the largest square tiles, one path a length.
square(n) = "< for t in 16 32 64 128; do " . command(file(n), PLAIN . " br='$t' bc='$t'", SHOW) . "; done"

set label 900 title("Traffic against on-chip memory, Q outer, forward, fp32, d = 64")
set logscale x 2; set logscale y 10
set xrange [11:256]; set yrange [0.6:1000]
set xtics (16, 32, 64, 128, 256)
set ytics ("1" 1, "10" 10, "100" 100, "1000" 1000)
set xlabel "shared memory of a block for its tiles, KB" offset 0,below
set ylabel "bytes read and written, over the compulsory ones"
set rmargin at screen 0.96

# The law through the smallest tile of each length.
first(n, i) = real(word(values(file(n), PLAIN . " br=16 bc=16", SHOW), i))
array M[3]; array Y[3]
do for [i = 1:3] { M[i] = first(word(lengths, i), 1) / 1024; Y[i] = first(word(lengths, i), 2) / first(word(lengths, i), 3) }
law(i, x) = x >= M[i] ? Y[i] * M[i] / x : NaN
set label "∝ 1/M" at 215, law(1, 215) * 0.66 center textcolor rgb GREY

set label "compulsory" at 12, 0.8 textcolor rgb GREY

set label 901 "Lines join square tiles Br×Bc; hollow points are all other combinations. The papers’ law N²d²/M is dotted, through the smallest tile: it holds for M up to"
set label 902 "Nd, a head’s K. Where a tile holds all queries (N = 128, Br = 128) nothing is left to save: no M gets below the compulsory bytes. Q outer’s traffic depends"
set label 903 "on Br alone, so a large Br with a small Bc makes more of the same M; and P’s tile, Br×Bc numbers, is what bends the lines away from the law."

plot 1 with lines linewidth 1.5 dashtype 3 linecolor rgb GREY, \
    for [i = 1:3] [11:256] law(i, x) with lines linewidth 1.2 dashtype 3 linecolor rgb GREY, \
    for [n in lengths] pick(file(n), PLAIN, SHOW) using ($1 / 1024):($2 / $3) with points pointtype point_of(n) pointsize 1.2 * dot linewidth 1.5 linecolor rgb colour_of(n), \
    for [n in lengths] square(n) using ($1 / 1024):($2 / $3) with linespoints linewidth 2.5 dashtype dash_of(n) pointtype point_of(n) + 1 pointsize 1.4 * dot linecolor rgb colour_of(n), \
    for [n in lengths] square(n) . " | tail -n 1" using ($1 / 1024):($2 / $3):("N = " . n) with labels left offset 1.5,(n eq "128" ? 0.6 : 0) textcolor rgb colour_of(n), \
    square("8192") using ($1 / 1024):($2 / $3):(sprintf("%d×%d", $4, $5)) with labels offset 0,1 textcolor rgb VERMILION
