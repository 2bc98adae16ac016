# time-backward.gp -- time of forward and backward on an H200, as recorded: naive's is 100 %.
load "plots/style.gp"
data = "plots/recorded/h200-stages.csv"
machine = provenance(data)
FULL = "pass=backward causal=0"
stages = unmasked(distinct(data, FULL, "stage"))

# Problems with as many queries as keys, the largest first: "batch heads kv_heads N d" with : between.
problems = system(command(data, FULL . " stage=naive", "batch heads kv_heads q_len head_dim kv_len ms") . " | awk '$4 == $6' | sort -k7,7gr | awk '!seen[$1,$2,$3,$4,$5]++ { print $1 \":\" $2 \":\" $3 \":\" $4 \":\" $5 }' | tr '\n' ' '")
part(problem, i) = system("echo " . problem . " | cut -d: -f" . i)
where(stage, pass, p) = "stage=" . stage . " pass=" . pass . " causal=0 batch=" . part(p, 1) . " heads=" . part(p, 2) . " kv_heads=" . part(p, 3) . " q_len=" . part(p, 4) . " kv_len=" . part(p, 4) . " head_dim=" . part(p, 5)
ms(stage, pass, p) = values(data, where(stage, pass, p), "ms")
title_of(p) = sprintf("B = %s, H = %s\nN = %s, d = %s", part(p, 1), part(p, 2), part(p, 4), part(p, 5))

# A bar a stage and problem, drawn downwards: y, forward and both passes in % of naive's, colour, text.
set print $bars
y = 0; most = 100.0
do for [p in problems] {
    whole = real(ms("naive", "forward", p)) + real(ms("naive", "backward", p))
    top = y
    do for [s in stages] {
        if (strlen(ms(s, "backward", p)) > 0) {
            forward = real(ms(s, "forward", p)); both = forward + real(ms(s, "backward", p))
            print sprintf("%g %g %g %d \"%s\"", y, 100 * forward / whole, 100 * both / whole, colour(s), \
                sprintf("%.3g + %.3g = %.3g ms", forward, both - forward, both) . (p eq word(problems, 1) ? "   " . name(s) : ""))
            if (y == 0) {
                set label "forward" at 50 * forward / whole, 0 center font small textcolor rgb INK front
                set label "backward" at 50 * (forward + both) / whole, 0 center font small textcolor rgb "white" front
            }
            if (100 * both / whole > most) { most = 100 * both / whole }
            y = y - 1
        }
    }
    set label title_of(p) at graph -0.01, first (top + y + 1) / 2.0 right font small textcolor rgb INK
    y = y - 0.8
}
set print

set label 900 title("Time of a training step, forward + backward, fp32, on an H200")
set xrange [0:most + 75]; set yrange [y + 0.6:0.9]
set xtics 0, 25, ceil(most / 25 - 0.01) * 25; unset ytics
set border 1
set xlabel "time, % of naive’s two passes" offset 0,below
set lmargin at screen 0.15; set rmargin at screen 0.97
set style fill solid 1 noborder

set label 901 "Recorded on " . machine . " (" . data . ")."
set label 902 "FLOPs that a head executes backward: 8N²d where P is read, 10N²d where it is recomputed in one pass, 14N²d in two. But naive’s are plainer product"
set label 903 "kernels, with all factors in memory: this is what these kernels take, not what storing P alone costs."

plot $bars using (($2) / 2):1:(0):2:($1 - 0.38):($1 + 0.38):(lighter($4)) with boxxyerror linecolor rgb variable, \
    $bars using (0):1:2:3:($1 - 0.38):($1 + 0.38):4 with boxxyerror linecolor rgb variable, \
    $bars using 3:1:5:4 with labels left offset 1,0 font small textcolor rgb variable
