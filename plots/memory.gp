# memory.gp -- memory asked for besides the tensors, against N.
load "plots/style.gp"
data = "plots/data/traffic.csv"
EXTRA = "kv_len extra_bytes"
TENSORS = "kv_len model_read_bytes+model_written_bytes"
is(stage) = "stage=" . stage . " tensor=all"

# A logarithm has no place for a stage that asks for nothing: it is named on the axis.
stages = ""; none = ""
do for [s in "naive q-outer-plain q-outer kv-outer kv-grid kv-split"] {
    if (has(data, is(s))) {
        if (real(values(data, is(s) . " kv_len=1024", "extra_bytes")) > 0) { stages = stages . " " . s } else { none = none . (none eq "" ? "" : " and ") . s }
    }
}

set label 900 title("Extra memory against sequence length, forward, fp32, d = 64, 16 heads")
set logscale x 2; set logscale y 10
set xrange [110:19000]; set yrange [1e4:1e11]
@lengths_tics; @bytes_tics
set xlabel "sequence length N" offset 0,below
set ylabel "bytes" offset right,0
set rmargin at screen 0.69
set label none . ": none at all" at graph 0.98, 0.06 right textcolor rgb BLUE

set label 901 "Naive keeps S and P, N² numbers each and head: twice the N, four times the memory. With tiles they live on the chip, a tile at a time, and what is"
set label 902 "stored beyond O is the logsumexp L, one number a query, here among the tensors. This is where “from O(N²) to O(N)” is right: for memory."
set label 903 "Bytes are what each stage asks its device for, by its own declaration."

plot pick(data, "stage=compulsory", TENSORS) with lines linewidth 1.5 dashtype 3 linecolor rgb GREY, \
    last(data, "stage=compulsory", TENSORS) using 1:2:("the tensors: Q, K, V, O and L") with labels left offset 1,0 textcolor rgb GREY, \
    for [s in stages] pick(data, is(s), EXTRA) with linespoints linewidth 2.5 dashtype dashes(s) pointtype points(s) pointsize 1.2 * dot linecolor rgb colour(s), \
    for [s in stages] pick(data, is(s), EXTRA) . " | awk '$2 > 0' | tail -n 1" using 1:2:(name(s)) with labels left offset 1,0.3 textcolor rgb colour(s)
