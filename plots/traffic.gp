# traffic.gp -- bytes between the chip and device memory against N, forward.
load "plots/style.gp"
data = "plots/data/traffic.csv"
direction = "forward"
is(stage) = "stage=" . stage . " tensor=all"
at(stage) = real(values(data, is(stage) . " kv_len=16384", "model_read_bytes+model_written_bytes"))

# The plain kernel has naive's tiles, 64 x 64: what sets the two apart is S and P alone.
stages = "naive q-outer-plain"
if (has(data, "stage=kv-outer")) stages = stages . " kv-outer"
ratio = at("naive") / at("q-outer-plain")
line_name(stage) = stage eq "naive" ? sprintf("naive: S and P stored, %.1f times Q outer", ratio) : \
    stage eq "q-outer-plain" ? "Q outer: v1, FlashAttention-2’s order" : name(stage)
line_colour(stage) = stage eq "q-outer-plain" ? BLUE : colour(stage)
line_dashes(stage) = stage eq "q-outer-plain" ? 2 : dashes(stage)
nudge(stage) = stage eq "kv-outer" ? 0.5 : stage eq "naive" ? 0.3 : -0.4

set label 901 "Asked of device memory, each stage’s line has slope 2, as in the papers’ model: twice the N, four times the bytes. With an outer tile of 64,"
set label 902 "what is between them is S and P, stored and read back. Q outer reads K and V again for every tile of queries, but those re-reads hit the L2:"
set label 903 "at DRAM it stands on the floor. Written bytes still in the L2 at the end are counted as DRAM’s where it is modelled; a profiler doesn’t see them."
load "plots/traffic-lines.gp"
