# memory-training.gp -- memory that both passes need against N: with P stored, and with P recomputed.
load "plots/style.gp"
data = "plots/data/traffic-backward.csv"
is(stage) = "stage=" . stage . " tensor=all"
at(stage, n, what) = real(values(data, is(stage) . " kv_len=" . n, what))

# Closed forms are a N^2 + b N; the two longest N of the data give a and b, and the lines go on.
a(stage, what) = (at(stage, 16384, what) / 16384 - at(stage, 8192, what) / 8192) / 8192
b(stage, what) = at(stage, 8192, what) / 8192 - a(stage, what) * 8192
# The N at which `bytes` are reached.
reaches(a, b, bytes) = a > 1e-6 ? (sqrt(b * b + 4 * a * bytes) - b) / (2 * a) : bytes / b
in_words(n) = n < 1e6 ? sprintf("N = %d %03d", int(n) / 1000, int(n) % 1000) : sprintf("N = %.1f million", n / 1e6)

# Stages that recompute need the same, whichever way they take: the first stands for all.
others = distinct(data, "tensor=all kv_len=16384 device=emulator", "stage")
stages = "naive"
do for [s in others] { if (s ne "naive" && words(stages) == 1) { stages = stages . " " . s } }
line_name(stage) = stage eq "naive" ? "P stored, with S, dP and dS" : "P recomputed, tile by tile"
kept_name(stage) = stage eq "naive" ? "kept between the passes: P" : "kept: L"
array A[2]; array B[2]; array KA[2]; array KB[2]
do for [i = 1:words(stages)] {
    s = word(stages, i)
    A[i] = a(s, "run_bytes"); B[i] = b(s, "run_bytes"); KA[i] = a(s, "kept_bytes"); KB[i] = b(s, "kept_bytes")
}

set label 900 title("Memory of a training step against sequence length, fp32, d = 64, 16 heads")
set logscale x 2; set logscale y 10
set xrange [256:2**23]; set yrange [1e5:1e12]
set xtics ("256" 256, "1024" 1024, "4096" 4096, "16 384" 16384, "65 536" 65536, "262 144" 262144, "1 million" 1048576, "4 million" 4194304)
@bytes_tics
set xlabel "sequence length N" offset 0,below
set ylabel "bytes" offset right,0
set rmargin at screen 0.92
set samples 200
do for [gb in "24 80"] {
    set arrow from graph 0, first gb * 1e9 to graph 1, first gb * 1e9 nohead linewidth 1.2 linecolor rgb GREY
    set label gb . " GB" at graph 1.01, first gb * 1e9 left textcolor rgb GREY
}
memory(i, n) = A[i] * n * n + B[i] * n
kept(i, n) = KA[i] * n * n + KB[i] * n
do for [i = 1:words(stages)] {
    s = word(stages, i)
    n = reaches(A[i], B[i], 80e9)
    set arrow from n, 80e9 to n, 1e5 nohead linewidth 1 dashtype 3 linecolor rgb colour(s)
    set label in_words(n) at n * 0.93, 2e5 right textcolor rgb colour(s)
    n = n * (s eq "naive" ? 0.3 : 0.02)
    if (s eq "naive") { set label line_name(s) at n * 0.9, memory(i, n) * 1.7 right textcolor rgb colour(s) }
    if (s ne "naive") { set label line_name(s) at n * 1.2, memory(i, n) * 0.7 left textcolor rgb colour(s) }
    n = reaches(KA[i], KB[i], s eq "naive" ? 3e11 : 3e7)
    set label kept_name(s) at n * 1.15, kept(i, n) * 0.75 left textcolor rgb colour(s)
}

set label 901 "Of the first pass S and P, of the second dP and dS: N² numbers each and head, besides the nine tensors. Recomputed, P is never whole, and what a step"
set label 902 "needs are the tensors, L, and D = rowsum(dO∘O), one number a query. A network keeps what lies between the passes once for every layer, thin lines,"
set label 903 "all else only once. Bytes are what each stage asks its device for, by its own declaration. The dotted verticals stand where 80 GB are full."

plot for [i = 1:words(stages)] memory(i, x) with lines linewidth 2.5 dashtype dashes(word(stages, i)) linecolor rgb colour(word(stages, i)), \
    for [i = 1:words(stages)] kept(i, x) with lines linewidth 1 dashtype dashes(word(stages, i)) linecolor rgb colour(word(stages, i)), \
    for [i = 1:words(stages)] pick(data, is(word(stages, i)), "kv_len run_bytes") with points pointtype points(word(stages, i)) pointsize 1.2 * dot linecolor rgb colour(word(stages, i))
