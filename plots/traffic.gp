# traffic.gp -- bytes between the chip and device memory against N.
load "plots/style.gp"
data = "plots/data/traffic.csv"
ncu = "plots/recorded/dram-h200.csv"
BYTES = "kv_len model_read_bytes+model_written_bytes"
COUNTED = "kv_len counted_read_bytes+counted_written_bytes"
DRAM = "kv_len dram_read_bytes+dram_written_bytes+dram_left_bytes"

# The plain kernel has naive's tiles, 64 x 64: what sets the two apart is S and P alone.
stages = "naive q-outer-plain"
if (has(data, "stage=kv-outer")) stages = stages . " kv-outer"
line_name(stage) = stage eq "q-outer-plain" ? "Q outer: v1,\nFlashAttention-2’s order" : name(stage)
line_colour(stage) = stage eq "q-outer-plain" ? BLUE : colour(stage)
line_dashes(stage) = stage eq "q-outer-plain" ? 2 : dashes(stage)
nudge(stage) = stage eq "kv-outer" ? 0.9 : stage eq "naive" ? 0.3 : -0.4
is(stage) = "stage=" . stage . " tensor=all"

set label 900 title("Traffic against sequence length, forward, fp32, d = 64, 16 heads")
set logscale x 2; set logscale y 10
set xrange [110:19000]; set yrange [1e6:4e11]
@lengths_tics; @bytes_tics
set xlabel "sequence length N" offset 0,0.4
set ylabel "bytes read and written" offset -0.5,0
set rmargin at screen 0.77

# How far apart, from the same file.
gap_n = 8192
at(stage) = real(values(data, is(stage) . " kv_len=8192", "model_read_bytes+model_written_bytes"))
naive_at = at("naive"); q_outer_at = at("q-outer-plain")
set arrow from gap_n, q_outer_at * 1.15 to gap_n, naive_at / 1.15 heads size screen 0.006, 25 filled linecolor rgb INK linewidth 1
set label sprintf("×%.1f", naive_at / q_outer_at) at gap_n * 1.08, sqrt(naive_at * q_outer_at) left textcolor rgb INK

set label "counted by the emulator; the lines are closed forms" at graph 0.04, 0.95 point pointtype 7 pointsize 1.2 offset 1,0
set label "of these, DRAM behind an H200’s L2, modelled" at graph 0.04, 0.885 point pointtype 6 pointsize 1.5 linewidth 2 offset 1,0
set label "DRAM, by Nsight Compute on the H200" at graph 0.04, 0.82 point pointtype 12 pointsize 2.2 linewidth 2 offset 1,0

set label 901 "Asked of device memory, each stage’s line has slope 2, as in the papers’ model: twice the N, four times the bytes. With the same 64×64 tiles,"
set label 902 "what is between them is S and P, stored and read back. Q outer reads K and V again for every tile of queries, but those re-reads hit the L2:"
set label 903 "at DRAM it stands on the floor. Written bytes still in the L2 at the end are counted as DRAM’s where it is modelled; a profiler doesn’t see them."

plot pick(data, "stage=compulsory", BYTES) with lines linewidth 1.5 dashtype 3 linecolor rgb GREY, \
    last(data, "stage=compulsory", BYTES) using 1:2:("compulsory: each input\nand output once") with labels left offset 1,0.5 textcolor rgb GREY, \
    for [s in stages] pick(data, is(s), BYTES) with lines linewidth 2.5 dashtype line_dashes(s) linecolor rgb line_colour(s), \
    for [s in stages] pick(data, is(s), COUNTED) with points pointtype 7 pointsize 1.2 linecolor rgb line_colour(s), \
    for [s in stages] pick(data, is(s), DRAM) with points pointtype 6 pointsize 1.5 linewidth 2 linecolor rgb line_colour(s), \
    for [s in stages] summed(ncu, "stage=" . s . " pass=forward batch=1 heads=16 head_dim=64", "kv_len dram_read_bytes+dram_written_bytes") with points pointtype 12 pointsize 2.2 linewidth 2 linecolor rgb line_colour(s), \
    for [s in stages] last(data, is(s), BYTES) using 1:2:(line_name(s)) with labels left offset 1,nudge(s) textcolor rgb line_colour(s)
