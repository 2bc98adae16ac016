# q-outer-peers.awk -- chapter 3: its kernels beside PyTorch's and cuBLAS' sgemm, in turn in the same rounds.
BEGIN {
    PEERS = "recorded/h200-peers.csv"
    problem[1] = n_shape(8, 32, 2048, 64); problem[2] = n_shape(8, 16, 2048, 128)
    print "| | " words(8, 32, 2048, 64) ": ms | TFLOP/s | of sgemm | " words(8, 16, 2048, 128) ": ms | TFLOP/s | of sgemm |"
    print "|---|---:|---:|---:|---:|---:|---:|"
    print_kernel("`q-outer-plain`", "kernel=q-outer-plain pass=forward")
    print_kernel("`q-outer`", "kernel=q-outer pass=forward")
    print_kernel("PyTorch's memory-efficient attention, fp32", "kernel=pytorch-efficient pass=forward")
    print_kernel("cuBLAS' sgemm, 8192³", "kernel=sgemm")
    print "\n" machine(PEERS)
}

function print_kernel(name, is,    p, line, where) {
    if (get(PEERS, is " " problem[1], "ms") == "") return # not in that run
    for (p = 1; p <= 2; p++) {
        where = is " " problem[p]
        line = line " | " short(need(PEERS, where, "ms")) " | " short(need(PEERS, where, "tflops")) " | " \
            ratio(need(PEERS, where, "share_of_sgemm"))
    }
    print "| " name line " |"
}
