# recompute-stages.awk -- chapter 5: each backward pass beside naive's, where P is kept.
BEGIN {
    STAGES = "recorded/h200-stages.csv"; PEERS = "recorded/h200-peers.csv"; DRAM = "recorded/dram-h200.csv"
    print "| | backward pass of | FLOPs of naive's | asked for, GB | reached DRAM, GB | ms | of naive's | TFLOP/s | of sgemm |"
    print "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    print_problem(8, 32, 2048, 64)
    print_problem(8, 16, 2048, 128)
    print "\nTFLOP/s and the share of cuBLAS' sgemm at 8192³ in the same rounds: of 10·N²·d a head, whatever runs. " \
        machine(PEERS) "; DRAM by Nsight Compute: `plots/" DRAM "`"
}

function print_problem(b, h, n, d,    where, peer, dram, i, count, stage, flops, is, of, naive) {
    where = shape(b, h, n, d) " pass=backward causal=0"
    peer = n_shape(b, h, n, d) " pass=backward"
    dram = dram_shape(b, h, n, d) " pass=backward"
    naive = need(PEERS, peer " kernel=naive", "ms")
    count = split("naive recompute-atomic recompute-two-pass", stage, " ")
    split("8 10 14", flops, " ")
    for (i = 1; i <= count; i++) {
        is = where " stage=" stage[i]
        of = peer " kernel=" stage[i]
        print "| " words(b, h, n, d) " | `" stage[i] "` | " ratio(flops[i] / 8) " | " \
            both(gb(need(STAGES, is, "model_read_bytes")), gb(need(STAGES, is, "model_written_bytes"))) " | " \
            both(gb(total(DRAM, dram " stage=" stage[i], "dram_read_bytes")), gb(total(DRAM, dram " stage=" stage[i], "dram_written_bytes"))) " | " \
            short(need(PEERS, of, "ms")) " | " ratio(need(PEERS, of, "ms") / naive) " | " \
            short(need(PEERS, of, "tflops")) " | " ratio(need(PEERS, of, "share_of_sgemm")) " |"
    }
    print "| " words(b, h, n, d) " | PyTorch's fp32: 3xTF32 on Tensor Cores | | | | " \
        short(need(PEERS, peer " kernel=pytorch-efficient", "ms")) " | " \
        ratio(need(PEERS, peer " kernel=pytorch-efficient", "ms") / naive) " | " \
        short(need(PEERS, peer " kernel=pytorch-efficient", "tflops")) " | " \
        ratio(need(PEERS, peer " kernel=pytorch-efficient", "share_of_sgemm")) " |"
}
