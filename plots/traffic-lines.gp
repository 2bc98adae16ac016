# traffic-lines.gp -- what the pictures of traffic against N share: closed forms as lines, the emulator's counts
# as points, and hollow, what reaches DRAM. Their scripts set data, direction, stages, line_name(stage) and
# the captions before.
ncu = "plots/recorded/dram-h200.csv"
BYTES = "kv_len model_read_bytes+model_written_bytes"
COUNTED = "kv_len counted_read_bytes+counted_written_bytes"
DRAM = "kv_len dram_read_bytes+dram_written_bytes+dram_left_bytes"
MEASURED = " pass=" . direction . " batch=1 heads=16 head_dim=64" # of ncu: the data's problem
measured = ""
do for [s in stages] { if (has(ncu, "stage=" . s . MEASURED)) { measured = measured . " " . s } }

set label 900 title("Traffic against sequence length, " . direction . ", fp32, d = 64, 16 heads")
set logscale x 2; set logscale y 10
set xrange [110:19000]; set yrange [1e6:4e11]
@lengths_tics; @bytes_tics
set xlabel "sequence length N" offset 0,below
set ylabel "bytes read and written" offset right,0
set rmargin at screen 0.69

set label "counted by the emulator; the lines are closed forms" at graph 0.04, 0.95 point pointtype 7 pointsize 1.2 * dot offset 1,0
set label "of these, DRAM behind an H200’s L2, modelled" at graph 0.04, 0.885 point pointtype 6 pointsize 1.5 * dot linewidth 2 offset 1,0
set label "DRAM, by Nsight Compute on the H200" at graph 0.04, 0.82 point pointtype 12 pointsize 2.2 * dot linewidth 2 offset 1,0

# Of marks that would hide each other the later one is smaller.
inner(s) = s eq "kv-outer" ? 0.6 : 1

plot pick(data, "stage=compulsory", BYTES) with lines linewidth 1.5 dashtype 3 linecolor rgb GREY, \
    last(data, "stage=compulsory", BYTES) using 1:2:("compulsory: each input and output once") with labels left offset 1,0 textcolor rgb GREY, \
    for [s in stages] pick(data, is(s), BYTES) with lines linewidth 2.5 dashtype line_dashes(s) linecolor rgb line_colour(s), \
    for [s in stages] pick(data, is(s), COUNTED) with points pointtype 7 pointsize 1.2 * dot linecolor rgb line_colour(s), \
    for [s in stages] pick(data, is(s), DRAM) with points pointtype 6 pointsize 1.5 * dot * inner(s) linewidth 2 linecolor rgb line_colour(s), \
    for [s in measured] summed(ncu, "stage=" . s . MEASURED, "kv_len dram_read_bytes+dram_written_bytes") with points pointtype 12 pointsize 2.2 * dot * inner(s) linewidth 2 linecolor rgb line_colour(s), \
    for [s in stages] last(data, is(s), BYTES) using 1:2:(line_name(s)) with labels left offset 1,nudge(s) textcolor rgb line_colour(s)
