# naive-kernels.awk -- chapter 1: its kernels one by one: their FLOPs, the bytes that reached DRAM, and the time that each
# alone would take at the rates of cuBLAS' sgemm and of a copy; then both passes as they were measured.
BEGIN {
    STAGES = "recorded/h200-stages.csv"; DRAM = "recorded/dram-h200.csv"
    PEERS = "recorded/h200-peers.csv"; COPY = "recorded/copy-h200.csv"
    B = 8; H = 32; N = 2048; D = 64
    bytes_a_ms = need(COPY, "", "bytes") / need(COPY, "", "ms")
    flops_a_ms = need(PEERS, "kernel=sgemm " n_shape(B, H, N, D), "tflops") * 1e9
    print "| pass | kernel | FLOPs, 10⁹ | DRAM, read + written, GB | FLOPs alone, ms | bytes alone, ms |"
    print "|---|---|---:|---:|---:|---:|"
    print_pass("forward", 3)
    print_pass("backward", 5)
    print "\n" words(B, H, N, D) "; all of `naive` took " short(ms("forward")) " ms forward and " short(ms("backward")) \
        " ms backward. The rates: " short(flops_a_ms / 1e9) " TFLOP/s of sgemm (`plots/" PEERS "`), " \
        short(bytes_a_ms / 1e9) " TB/s of a copy (`plots/" COPY "`). Times: " source(STAGES) "; DRAM: `plots/" DRAM "`"
}

function ms(pass) { return need(STAGES, "stage=naive causal=0 pass=" pass " " shape(B, H, N, D), "ms") }

function print_pass(pass, kernels,    i, is, name, flops, read, written) {
    for (i = 1; i <= kernels; i++) {
        is = "stage=naive pass=" pass " number=" i " " dram_shape(B, H, N, D)
        name = need(DRAM, is, "kernel")
        flops = name ~ /^softmax/ ? 0 : 2 * N * N * D * B * H # the two softmax kernels have no product
        read = need(DRAM, is, "dram_read_bytes"); written = need(DRAM, is, "dram_written_bytes")
        sub(/<.*/, "", name)
        print "| " pass " | `" name "` | " (flops ? short(flops / 1e9) : "") " | " both(gb(read), gb(written)) " | " \
            (flops ? short(flops / flops_a_ms) : "") " | " short((read + written) / bytes_a_ms) " |"
    }
}
