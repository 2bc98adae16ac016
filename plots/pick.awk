# pick.awk -- rows and columns of this project's CSV files, for gnuplot.
#
#   awk -f plots/pick.awk -v where='stage=naive tensor=all' -v show='kv_len model_read_bytes+model_written_bytes' FILE...
#
# where: what columns must hold, all of them. show: what to print, columns or sums of them; a row in which
# one is empty is left out. total=1: rows with the same first value become one, their second values added
# up, as those of a pass' kernels. Lines after # are provenance; the next names the columns.
BEGIN {
    FS = ","
    conditions = split(where, condition, " ")
    shown = split(show, formula, " ")
}
FNR == 1 { named = 0 }
/^#/ { next }
!named {
    split("", column)
    for (i = 1; i <= NF; i++) column[$i] = i
    named = 1
    next
}
{
    for (i = 1; i <= conditions; i++) {
        split(condition[i], pair, "=")
        if (!(pair[1] in column) || $column[pair[1]] != pair[2]) next
    }
    line = key = ""
    for (i = 1; i <= shown; i++) {
        terms = split(formula[i], term, "+")
        value = terms == 1 ? $column[term[1]] : 0
        for (t = 1; t <= terms; t++) {
            if (!(term[t] in column) || $column[term[t]] == "") next
            if (terms > 1) value += $column[term[t]]
        }
        if (terms > 1) value = sprintf("%.0f", value)
        if (i == 1) key = value
        line = line (i > 1 ? " " : "") value
    }
    if (!total) {
        print line
    } else {
        if (!(key in sum)) order[++keys] = key
        sum[key] += value
    }
}
END {
    for (i = 1; i <= keys; i++) printf "%s %.0f\n", order[i], sum[order[i]]
}
