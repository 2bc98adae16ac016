# shared-passes.awk -- notes/gpu: what the products ask of shared memory, as Nsight Compute counted it, beside the
# clocks that their multiply-adds take: a multiprocessor of compute capability 9.0 does 128 of these a clock, and
# serves one pass of shared memory.
BEGIN {
    H200 = "recorded/requests-h200.csv"
    H = 2; N = 512; D = 64
    print "| kernel | multiply-adds, clocks | passes of shared memory, clocks | passes over multiply-adds |"
    print "|---|---:|---:|---:|"
    print_kernel("naive forward", "stage=naive pass=forward number=1", 1)
    print_kernel("q-outer-plain", "stage=q-outer-plain pass=forward number=1", 2)
    print_kernel("q-outer", "stage=q-outer pass=forward number=1", 2)
    print_kernel("recompute-atomic backward", "stage=recompute-atomic pass=backward number=2", 5)
    print "\nB=1 H=" H " N=" N " d=" D ", summed over all multiprocessors; products are N²d multiply-adds a head. " source(H200)
}

function print_kernel(name, is, products,    clocks, passes, kernel) {
    is = is " batch=1 heads=" H " q_len=" N " kv_len=" N " head_dim=" D
    clocks = products * N * N * D * H / 128
    passes = need(H200, is, "shared_load_passes") + need(H200, is, "shared_store_passes")
    kernel = need(H200, is, "kernel")
    sub(/[< ].*/, "", kernel)
    print "| " name ", `" kernel "` | " clocks " | " passes " | " ratio(passes / clocks) " |"
}
