# recorded-stages.awk -- README: every stage of h200-stages.csv on the two problems of the course, each pass a group
# of rows; beside it what Nsight Compute counted and the share of cuBLAS' sgemm, where these are recorded.
BEGIN {
    STAGES = "recorded/h200-stages.csv"; DRAM = "recorded/dram-h200.csv"; PEERS = "recorded/h200-peers.csv"
    print_problem(8, 32, 2048, 64)
    print_problem(8, 16, 2048, 128)
    print "Times without a share: " source(STAGES) ".\n"
    print "DRAM: " source(DRAM) ".\n"
    print "The other times, PyTorch's among them, and the share of sgemm: " source(PEERS) "."
}

function print_problem(b, h, n, d,    pass, causal) {
    where = shape(b, h, n, d)
    peer = n_shape(b, h, n, d)
    counted = total(DRAM, dram_shape(b, h, n, d), "dram_read_bytes") != ""
    print words(b, h, n, d) "; cuBLAS' sgemm of 8192³ reached " \
        short(need(PEERS, "kernel=sgemm " peer, "tflops")) " TFLOP/s in the same rounds:\n"
    print "| pass | stage | asked for, GB |" (counted ? " reached DRAM, GB |" : "") " ms | TFLOP/s | of sgemm |"
    print "|---|---|---:|" (counted ? "---:|" : "") "---:|---:|---:|"
    for (causal = 0; causal < 2; causal++)
        for (pass = 0; pass < 2; pass++)
            print_pass(pass ? "backward" : "forward", causal, dram_shape(b, h, n, d))
    print ""
}

function print_pass(pass, causal, dram,    stage, count, i, is, name, share, peer_is) {
    name = pass (causal ? ", causal" : "")
    count = distinct(STAGES, where " pass=" pass " causal=" causal, "stage", stage)
    for (i = 1; i <= count; i++) {
        is = where " stage=" stage[i] " pass=" pass " causal=" causal
        if (pass == "forward" && is_borrowed(stage[i])) continue
        if (stage[i] ~ /^(masked|variants)$/ && !causal) continue # without a mask chapter 6 runs the others' kernels
        dram_is = dram " stage=" stage[i] " pass=" pass
        # Where its share was measured, its time is of the same rounds.
        peer_is = peer " kernel=" stage[i] " pass=" pass
        share = causal ? "" : get(PEERS, peer_is, "share_of_sgemm")
        print_row(name, "`" stage[i] "`",
            both(gb(get(STAGES, is, "model_read_bytes")), gb(get(STAGES, is, "model_written_bytes"))),
            causal ? "" : both(gb(total(DRAM, dram_is, "dram_read_bytes")), gb(total(DRAM, dram_is, "dram_written_bytes"))),
            share == "" ? get(STAGES, is, "ms") : get(PEERS, peer_is, "ms"),
            share == "" ? get(STAGES, is, "tflops") : get(PEERS, peer_is, "tflops"), share)
    }
    is = peer " kernel=pytorch-efficient pass=" pass
    if (!causal && get(PEERS, is, "ms") != "")
        print_row(name, "PyTorch's fp32: 3xTF32 on Tensor Cores", "", "", get(PEERS, is, "ms"),
            get(PEERS, is, "tflops"), get(PEERS, is, "share_of_sgemm"))
}

# From chapter 5 on a stage with a backward pass has another one's forward pass. Naive's is its own.
function is_borrowed(stage) {
    return stage != "naive" && get(STAGES, where " stage=" stage " pass=backward causal=0", "ms") != ""
}

function print_row(pass, stage, asked, reached, ms, tflops, share) {
    print "| " pass " | " stage " | " asked " |" (counted ? " " reached " |" : "") " " short(ms) " | " \
        short(tflops) " | " ratio(share) " |"
}
