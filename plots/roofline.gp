# roofline.gp -- every stage recorded on an H200 under that GPU's roof: speed against arithmetic intensity.
load "plots/style.gp"
data = "plots/recorded/h200-*.csv" # those that have the columns asked for below; a stage's last row counts
peers = "plots/recorded/h200-peers.csv"
ncu = "plots/recorded/dram-h200.csv"
copy = "plots/recorded/copy-h200.csv" # bytes read and written by a copy, and its ms
PROBLEM = "batch=8 heads=32 q_len=2048 kv_len=2048 head_dim=64"
machine = provenance("plots/recorded/h200-stages.csv")
is(stage) = "stage=" . stage . " pass=forward causal=0 " . PROBLEM
# intensity TFLOP/s, from ms TFLOP/s read written: FLOPs are their product.
SHOW = "ms tflops model_read_bytes+model_written_bytes"
flops(ms, tflops) = ms * tflops * 1e9
# Stages with a backward pass of their own run another stage's forward pass, all but naive: they'd stand on it.
stages = ""
do for [s in system(command(data, "pass=forward causal=0 " . PROBLEM, "stage") . " | sort -u | tr '\n' ' '")] {
    if (s eq "naive" || strlen(values(data, "pass=backward stage=" . s, "ms")) == 0) { stages = stages . " " . s }
}
peak = real(system(command(peers, "kernel=sgemm batch=8 heads=32", "tflops")))

# The bytes that reached DRAM, where Nsight Compute has counted them.
dram_text(stage) = system("awk -v total=1" . command(ncu, "stage=" . stage . " pass=forward " . PROBLEM, "stage dram_read_bytes+dram_written_bytes")[4:] . " | cut -d' ' -f2")
dram(stage) = strlen(dram_text(stage)) > 0 ? real(dram_text(stage)) : NaN

has_copy = system("test -f " . copy . " && echo 1") eq "1"
bandwidth = has_copy ? real(system(command(copy, "", "bytes"))) / real(system(command(copy, "", "ms"))) * 1e3 : 0 # bytes a second
roof(x) = has_copy ? (x * bandwidth / 1e12 < peak ? x * bandwidth / 1e12 : peak) : peak

label_of(stage) = stage eq "naive" ? "naive" : name(stage)
# Where labels have room: kv-outer and kv-grid stand on each other, kv-split on q-outer; kv-split's is written at its hollow point.
nudge(stage) = stage eq "kv-grid" ? -2 : stage eq "kv-outer" ? -0.9 : stage eq "kv-split" ? -0.8 : stage eq "q-outer" ? 0.6 : 0.9
at_hollow(stage) = stage eq "kv-split"

set label 900 title("Speed against arithmetic intensity, forward, fp32, B = 8, H = 32, N = 2048, d = 64")
set samples 400
set logscale x 10; set logscale y 10
set xrange [3:2000]; set yrange [5:70]
set xtics (1, 3, 10, 30, 100, 300, 1000)
set ytics (5, 10, 20, 50)
set xlabel "FLOP a byte" offset 0,below
set ylabel "TFLOP/s"
set rmargin at screen 0.96
set label sprintf("cuBLAS sgemm, 8192³, on this GPU: %.0f TFLOP/s", peak) at graph 0.98, first peak * 1.09 right textcolor rgb INK
set label "bytes asked of device memory (closed form)" at graph 0.04, 0.12 point pointtype 7 pointsize 1.4 * dot offset 1,0
set label "bytes that reached DRAM (Nsight Compute)" at graph 0.04, 0.06 point pointtype 6 pointsize 1.6 * dot linewidth 2 offset 1,0

set label 901 "Recorded on " . machine . " (plots/recorded)."
set label 902 has_copy ? "The sloping roof is a copy’s bandwidth, recorded on the same GPU (copy-h200.csv)." : "The roof that slopes, DRAM’s bandwidth, is left out: no copy is recorded yet."
set label 903 "FLOPs are those of both products, 4N²d a head. What a stage asks for is answered by the L2 as far as it can: a hollow point stands to the right. Points of two names coincide."

plot roof(x) with lines linewidth 2 linecolor rgb INK, \
    for [s in stages] last(data, is(s), SHOW) using (flops($1, $2) / $3):2:(flops($1, $2) / dram(s) - flops($1, $2) / $3):(0) with vectors nohead linewidth 1 dashtype 3 linecolor rgb colour(s), \
    for [s in stages] last(data, is(s), SHOW) using (flops($1, $2) / $3):2 with points pointtype 7 pointsize 1.8 * dot linecolor rgb colour(s), \
    for [s in stages] last(data, is(s), SHOW) using (flops($1, $2) / dram(s)):2 with points pointtype 6 pointsize 2 * dot linewidth 2 linecolor rgb colour(s), \
    for [s in stages] last(data, is(s), SHOW) using (flops($1, $2) / (at_hollow(s) ? dram(s) : $3)):2:(label_of(s)) with labels left offset 1.2,nudge(s) textcolor rgb colour(s)
