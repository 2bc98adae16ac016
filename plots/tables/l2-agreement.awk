# l2-agreement.awk -- gpu/emulator: DRAM bytes of every pass that Nsight Compute has counted, beside the model's.
# A pass that was counted and not modelled is an error: make l2-model.
BEGIN {
    DRAM = "recorded/dram-h200.csv"; MODEL = "data/l2-model.csv"; LIMIT = 10
    print "| pass | problem | modelled on | read MB: H200, model | written MB: H200, model | off |"
    print "|---|---|---|---:|---:|---:|"
    for (row = 1; row <= load(DRAM); row++) {
        is = ""
        count = split("stage pass batch heads q_len kv_len head_dim", name, " ")
        for (i = 1; i <= count; i++) {
            value[name[i]] = cell[DRAM, row, name[i]]
            is = is " " name[i] "=" value[name[i]]
        }
        if (is in seen) continue
        seen[is] = 1
        if (get(MODEL, is, "gpu") == "") fail("data/l2-model.csv lacks" is ": make l2-model")
        what = value["stage"] " " value["pass"]
        problem = words(value["batch"], value["heads"], value["kv_len"], value["head_dim"])
        read = total(DRAM, is, "dram_read_bytes") / 1e6
        written = total(DRAM, is, "dram_written_bytes") / 1e6
        model_read = need(MODEL, is, "dram_read_mb")
        model_written = need(MODEL, is, "dram_written_mb")
        off = 100 * ((model_read + model_written) / (read + written) - 1)
        size = off < 0 ? -off : off
        passes++
        if (size <= LIMIT) {
            if (size > worst) worst = size
        } else {
            beyond = beyond (beyonds++ ? ", " : "") what " on " problem sprintf(" (%+.0f%%)", off)
        }
        printf "| %s | %s | %s | %s, %s | %s, %s | %+.1f%% |\n", what, problem, need(MODEL, is, "gpu"), \
            mb(read), mb(model_read), mb(written), mb(model_written), off
    }
    printf "\nOf %d passes %d are off by %d%% or less, the worst of these by %.1f%%.", passes, passes - beyonds, LIMIT, worst
    print (beyond == "" ? "" : " Not so: " beyond ".")
    print "\n" source(DRAM)
}

function mb(x) { return sprintf(x + 0 >= 1000 ? "%.0f" : "%.4g", x) }
