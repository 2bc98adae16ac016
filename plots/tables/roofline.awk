# roofline.awk -- notes/theory: each stage's arithmetic intensity, at the kernels' requests and at the DRAM, and the
# time that its DRAM bytes and its FLOPs would take each alone, at the rates of a copy and of cuBLAS' sgemm.
BEGIN {
    STAGES = "recorded/h200-stages.csv"; DRAM = "recorded/dram-h200.csv"
    PEERS = "recorded/h200-peers.csv"; COPY = "recorded/copy-h200.csv"
    B = 8; H = 32; N = 2048; D = 64
    bytes_a_ms = need(COPY, "", "bytes") / need(COPY, "", "ms")
    flops_a_ms = need(PEERS, "kernel=sgemm " n_shape(B, H, N, D), "tflops") * 1e9
    print "| | FLOPs, 10⁹ | FLOP a byte asked for | FLOP a byte of DRAM | DRAM bytes alone, ms | FLOPs alone, ms | measured, ms |"
    print "|---|---:|---:|---:|---:|---:|---:|"
    print_stage("naive", "forward", 4)
    print_stage("q-outer-plain", "forward", 4)
    print_stage("q-outer", "forward", 4)
    print_stage("kv-outer", "forward", 4)
    print_stage("naive", "backward", 8)
    print_stage("recompute-atomic", "backward", 10)
    print_stage("recompute-two-pass", "backward", 14)
    print "\n" words(B, H, N, D) ". The ridge is at " short(flops_a_ms / bytes_a_ms) " FLOP a byte: a copy moved " \
        short(bytes_a_ms / 1e9) " TB/s (`plots/" COPY "`), sgemm did " short(flops_a_ms / 1e9) " TFLOP/s (`plots/" PEERS \
        "`). Times and bytes asked for: " source(STAGES) "; DRAM: `plots/" DRAM "`"
}

function print_stage(stage, pass, products,    is, flops, asked, dram) {
    is = "stage=" stage " pass=" pass
    flops = products * N * N * D * B * H
    asked = need(STAGES, is " causal=0 " shape(B, H, N, D), "model_read_bytes") + \
        need(STAGES, is " causal=0 " shape(B, H, N, D), "model_written_bytes")
    dram = total(DRAM, is " " dram_shape(B, H, N, D), "dram_read_bytes") + \
        total(DRAM, is " " dram_shape(B, H, N, D), "dram_written_bytes")
    if (dram == 0) fail("no DRAM bytes of " is)
    print "| `" stage "`, " pass " | " short(flops / 1e9) " | " short(flops / asked) " | " short(flops / dram) " | " \
        short(dram / bytes_a_ms) " | " short(flops / flops_a_ms) " | " \
        short(need(STAGES, is " causal=0 " shape(B, H, N, D), "ms")) " |"
}
