# time.gp -- time against N on an H200, as recorded: short sequences, one panel for each number of heads.
load "plots/style.gp"
data = "plots/recorded/h200-short.csv"
machine = provenance(data)
stages = system(command(data, "", "kernel") . " | sort -u | tr '\n' ' '")
heads = "1 8 64 256"
is(stage, h) = "kernel=" . stage . " batch=1 heads=" . h . " head_dim=64"
SHOW = "n ms"
nudge(stage) = stage eq "q-outer-plain" ? 0.15 : stage eq "naive" ? 0.6 : -0.45
label_of(stage) = stage eq "naive" ? "naive" : stage eq "q-outer-plain" ? "Q outer, plain kernel" : \
    stage eq "q-outer" ? "Q outer: v1,\nFlashAttention-2’s\norder" : name(stage)

set label 900 title("Time against sequence length, forward, fp32, d = 64")
set label 901 "Recorded on " . machine . " (" . data . "). With few heads most of the GPU"
set label 902 "idles, and the time is that of one block walking over N keys: it grows as N, and naive, with more and smaller blocks, can win. With many heads the"
set label 903 "GPU is full, and time has slope 2. In fp32 on CUDA cores the products take most of the time, not the bytes."

set logscale x 2; set logscale y 10
set xrange [54:1200]; set yrange [0.01:10]
set xtics (64, "" 128, 256, "" 512, 1024)
set xlabel "N" offset 0,below
left_edge(i) = 0.085 + 0.18 * i
set multiplot
do for [i = 1:4] {
    h = word(heads, i)
    set lmargin at screen left_edge(i - 1); set rmargin at screen left_edge(i - 1) + 0.16
    if (i == 1) { set ytics ("0.01" 0.01, "0.1" 0.1, "1" 1, "10" 10); set ylabel "time, ms" offset right,0 } else { set ytics ("" 0.01, "" 0.1, "" 1, "" 10); unset ylabel }
    set label 910 "{/:Bold " . h . (h eq "1" ? " head" : " heads") . "}" at graph 0.06, 0.94
    plot for [s in stages] pick(data, is(s, h), SHOW) with linespoints linewidth 2.5 dashtype dashes(s) pointtype points(s) pointsize 1.1 * dot linecolor rgb colour(s), \
        for [s in stages] last(data, is(s, h), SHOW) using 1:2:(i == 4 ? label_of(s) : "") with labels left offset 1,nudge(s) textcolor rgb colour(s)
    do for [j = 900:903] { unset label j }
}
unset multiplot
