# kv-outer-orders.awk -- chapter 4: what the two loop orders move and take, and how many times the one the other.
BEGIN {
    STAGES = "recorded/h200-stages.csv"; DRAM = "recorded/dram-h200.csv"; MODEL = "data/l2-model.csv"
    q = "stage=q-outer pass=forward "; kv = "stage=kv-outer pass=forward "
    plain = "stage=q-outer-plain pass=forward "
    where = shape(8, 32, 2048, 64) " causal=0"; dram = dram_shape(8, 32, 2048, 64)

    print "| | `q-outer` (v1, FlashAttention-2's order) | `kv-outer` (v2, FlashAttention's) | times |"
    print "|---|---:|---:|---:|"
    print_bytes("bytes asked for, GB, with an outer tile of 64 in both (`q-outer-plain`: 64 queries; `kv-outer`: 64 keys)", \
        need(STAGES, plain where, "model_read_bytes"), need(STAGES, plain where, "model_written_bytes"), \
        need(STAGES, kv where, "model_read_bytes"), need(STAGES, kv where, "model_written_bytes"))
    print_bytes("... with the same tiles in both, 128 queries × 64 keys (`q-outer`)", \
        need(STAGES, q where, "model_read_bytes"), need(STAGES, q where, "model_written_bytes"), \
        need(STAGES, kv where, "model_read_bytes"), need(STAGES, kv where, "model_written_bytes"))
    print_bytes("DRAM bytes, GB, counted by Nsight Compute", \
        counted(q, "read"), counted(q, "written"), counted(kv, "read"), counted(kv, "written"))
    print_bytes("DRAM bytes, GB, modelled, with what is left in the L2", \
        modelled(q, "read"), modelled(q, "written") + modelled(q, "left"), \
        modelled(kv, "read"), modelled(kv, "written") + modelled(kv, "left"))
    print_time("ms", where)
    print_time("ms, 8 heads, N=4096", shape(1, 8, 4096, 64) " causal=0")
    print "\n" words(8, 32, 2048, 64) " where nothing else is said; bytes are read + written. Times: " machine(STAGES) \
        "; DRAM: `plots/" DRAM "`, `plots/" MODEL "`"
}

function counted(is, what,    bytes) {
    bytes = total(DRAM, is dram, "dram_" what "_bytes")
    if (bytes == "") fail(DRAM " has no " is dram)
    return bytes
}
function modelled(is, what) { return need(MODEL, is dram, "dram_" what "_mb") * 1e6 }
function print_bytes(name, q_read, q_written, kv_read, kv_written) {
    print "| " name " | " both(gb(q_read), gb(q_written)) " | " both(gb(kv_read), gb(kv_written)) " | " \
        short((kv_read + kv_written) / (q_read + q_written)) " |"
}
function print_time(name, at) {
    print "| " name " | " short(need(STAGES, q at, "ms")) " | " short(need(STAGES, kv at, "ms")) " | " \
        short(need(STAGES, kv at, "ms") / need(STAGES, q at, "ms")) " |"
}
