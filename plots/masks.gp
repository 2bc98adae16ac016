# masks.gp -- bytes and time of chapter 6 against N on an H200: without a mask, causal, and with a window.
load "plots/style.gp"
data = "plots/recorded/h200-masks.csv"
machine = provenance(data)
WINDOW = 256
is(pass, mask) = "stage=masked batch=1 heads=16 head_dim=64 pass=" . pass . " " . mask
masks = "'causal=0 window=0' 'causal=1 window=0' 'causal=1 window=" . WINDOW . "'"
mask_colour(i) = i == 1 ? VERMILION : i == 2 ? BLUE : GREEN
mask_name(i) = i == 1 ? "no mask" : i == 2 ? "causal" : sprintf("causal, window %d", WINDOW)

set label 900 title("A mask’s bytes and time against sequence length, fp32, 16 heads, d = 64")
set label 901 "Recorded on " . machine . " (" . data . "). Solid: forward, dashed: backward."
set label 902 "From N = 4096 on a causal mask takes about half of both, and both keep their slope of 2. A window makes them linear in N. Bytes are asked of device memory."
set label 903 "Where N is short the lines bend: tiles on an edge are whole tiles’ work, and 16 heads are few blocks; at N = 1024 a causal mask saves no time at all."

set logscale x 2; set logscale y 10
set xrange [900:20000]
set xtics (1024, "" 2048, 4096, "" 8192, 16384)
set xlabel "sequence length N" offset 0,below
set multiplot
do for [panel = 1:2] {
    set lmargin at screen panel == 1 ? 0.115 : 0.51; set rmargin at screen panel == 1 ? 0.42 : 0.83
    SHOW = panel == 1 ? "kv_len model_read_bytes+model_written_bytes" : "kv_len ms"
    if (panel == 1) { eval(bytes_tics); set ylabel "bytes read and written" offset right,0; set yrange [1e7:1e12] }
    if (panel == 2) { set ytics ("0.01" 0.01, "0.1" 0.1, "1" 1, "10" 10, "100" 100); set ylabel "time, ms"; set yrange [0.02:200] }
    plot for [i = 1:3] pick(data, is("forward", word(masks, i)), SHOW) with linespoints linewidth 2.5 pointtype 5 + 2 * i pointsize 1.1 * dot linecolor rgb mask_colour(i), \
        for [i = 1:3] pick(data, is("backward", word(masks, i)), SHOW) with linespoints linewidth 2.5 dashtype 2 pointtype 4 + 2 * i pointsize 1.1 * dot linecolor rgb mask_colour(i), \
        for [i = 1:3] last(data, is("backward", word(masks, i)), SHOW) using 1:2:(panel == 2 ? mask_name(i) : "") with labels left offset 1,0.3 textcolor rgb mask_colour(i)
    do for [j = 900:903] { unset label j }
}
unset multiplot
