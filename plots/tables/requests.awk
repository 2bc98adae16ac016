# requests.awk -- gpu/emulator: what each launch asked of memory, as the check build counts it and as Nsight Compute
# counted it: one number where the two agree, "check build, H200" where they do not. A launch that was recorded and
# that data/requests.csv lacks is an error: make requests.
BEGIN {
    H200 = "recorded/requests-h200.csv"; CHECK = "data/requests.csv"
    print "| pass | kernel | loaded | copied | load counter | stored | passes read | written | conflicts |"
    print "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for (row = 1; row <= load(H200); row++) {
        launch = ""
        names = split("stage pass batch heads q_len kv_len head_dim number", name, " ")
        for (i = 1; i <= names; i++) launch = launch " " name[i] "=" cell[H200, row, name[i]]
        if (get(CHECK, launch, "kernel") == "") fail("data/requests.csv lacks" launch ": make requests")
        differs = 0
        loaded = counted("load_sectors")
        copied = counted("copy_sectors")
        line = "| " cell[H200, row, "stage"] " " cell[H200, row, "pass"] " | `" kernel(cell[H200, row, "kernel"]) "` | "
        line = line loaded " | " beside(copied, recorded("copy_sectors"))
        line = line " | " beside(loaded + 9 * copied / 8, recorded("global_load_sectors"))
        line = line " | " beside(counted("store_sectors"), recorded("global_store_sectors"))
        line = line " | " beside(counted("shared_load_passes"), recorded("shared_load_passes"))
        line = line " | " beside(counted("shared_store_passes"), recorded("shared_store_passes"))
        conflicts = beside(counted("shared_load_conflicts") + counted("shared_store_conflicts"), \
                           recorded("shared_load_conflicts") + recorded("shared_store_conflicts"))
        print line " | " conflicts " |"
        launches++
        agree += !differs
    }
    printf "\n%d of %d launches agree in every number.\n\n%s\n", agree, launches, source(H200)
}

function counted(column) { return need(CHECK, launch, column) }
function recorded(column) { return ((H200, row, column) in cell) ? cell[H200, row, column] : "" }
function kernel(text) { gsub(/ /, ", ", text); return text }
function beside(here, there) {
    if (there == "" || here + 0 == there + 0) return here
    differs = 1
    return here ", " there
}
