# traffic-backward.gp -- bytes between the chip and device memory against N, backward.
load "plots/style.gp"
data = "plots/data/traffic-backward.csv"
direction = "backward"
is(stage) = "stage=" . stage . " tensor=all"
at(stage) = real(values(data, is(stage) . " kv_len=16384", "model_read_bytes+model_written_bytes"))

stages = unmasked(distinct(data, "tensor=all kv_len=16384 device=emulator", "stage"))
least = 1e30
do for [s in stages] { least = at(s) < least ? at(s) : least }
line_name(stage) = stage eq "naive" ? "naive: P, dP, dS stored" . (at("naive") > least ? sprintf(", %.1f times the rest", at("naive") / least) : "") : name(stage)
line_colour(stage) = colour(stage)
line_dashes(stage) = dashes(stage)
nudge(stage) = stage eq "naive" ? 0.3 : stage eq "recompute-atomic" ? 0.5 : -0.5

set label 901 "Recomputing P costs FLOPs and saves its way through memory, and that of dP and dS. One pass, KV outer, adds to dQ in memory by atomics, which"
set label 902 "read and write; a second pass with Q outer reads the inputs again instead. Both lines have slope 2; at DRAM both stand near the floor (O and L are"
set label 903 "read, too), since what is read again hits the L2. Written bytes still in the L2 at the end are counted as DRAM’s where it is modelled; a profiler doesn’t see them."
load "plots/traffic-lines.gp"
