# csv.awk -- what the scripts of plots/tables share: this project's CSV files, asked for rows and values.
#
# `folder` is set by tables.sh. A file's lines after # are its notes (where it is from), the next names the
# columns. Conditions are written "stage=naive pass=forward"; a column that the file lacks equals nothing.

function fail(text) {
    print "tables: " text > "/dev/stderr"
    failed = 1
    exit 2
}

# Reads a file once; returns how many rows it has.
function load(file,    path, line, count, i, field) {
    if (file in rows) return rows[file]
    path = folder "/" file
    rows[file] = notes[file] = 0
    while ((getline line < path) > 0) {
        if (line ~ /^#/) {
            sub(/^# */, "", line)
            note[file, ++notes[file]] = line
            continue
        }
        count = split(line, field, ",")
        if (!(file in columns)) {
            columns[file] = count
            for (i = 1; i <= count; i++) column[file, i] = field[i]
            continue
        }
        rows[file]++
        for (i = 1; i <= count; i++) cell[file, rows[file], column[file, i]] = field[i]
    }
    close(path)
    if (!(file in columns)) fail(path " cannot be read")
    return rows[file]
}

# Whether there is such a file: what has not been recorded yet has no table.
function is_there(file,    line, read) {
    read = (getline line < (folder "/" file)) > 0
    close(folder "/" file)
    return read
}

function fits(file, row, where,    conditions, condition, i, pair) {
    conditions = split(where, condition, " ")
    for (i = 1; i <= conditions; i++) {
        split(condition[i], pair, "=")
        if (!((file, row, pair[1]) in cell) || cell[file, row, pair[1]] "" != pair[2] "") return 0
    }
    return 1
}

# The value of the last row that fits, as plots/*.gp take it; "" where there is none.
function get(file, where, name,    row) {
    for (row = load(file); row > 0; row--)
        if (fits(file, row, where)) return ((file, row, name) in cell) ? cell[file, row, name] : ""
    return ""
}

# The same where there must be one.
function need(file, where, name,    value) {
    value = get(file, where, name)
    if (value == "") fail(folder "/" file " has no " name " of " where)
    return value
}

# The sum over all rows that fit, as those of a pass' kernels; "" where there is none.
function total(file, where, name,    row, sum) {
    sum = ""
    for (row = load(file); row > 0; row--)
        if (fits(file, row, where)) sum += cell[file, row, name]
    return sum
}

# Values of a column in the order of their first row that fits: list[1..]; returns how many.
function distinct(file, where, name, list,    row, count, seen, value) {
    split("", list)
    split("", seen)
    for (row = 1; row <= load(file); row++) {
        value = cell[file, row, name]
        if (value in seen || !fits(file, row, where)) continue
        seen[value] = 1
        list[++count] = value
    }
    return count + 0
}

# Three digits that count: 0.00290, 8.72, 12.0, 30.1, 2173.
function short(x,    text) {
    if (x == "") return ""
    x += 0 # not every awk takes a field's text for a number
    if (x >= 999.5) return sprintf("%.0f", x)
    text = sprintf("%#.3g", x)
    sub(/\.$/, "", text)
    return text
}
function ratio(x) { return x == "" ? "" : sprintf("%.2f", x) } # of two values
function gb(bytes) { return bytes == "" ? "" : short(bytes / 1e9) }
function both(a, b) { return a == "" || b == "" ? "" : a " + " b } # read + written

# A problem as conditions, on the columns that h200-stages.csv has, dram-h200.csv, and the files with an n.
function shape(b, h, n, d) { return shape_q(b, h, n, n, d) }
function shape_q(b, h, q, n, d) {
    return "batch=" b " heads=" h " kv_heads=" h " q_len=" q " kv_len=" n " head_dim=" d
}
function dram_shape(b, h, n, d) {
    return "batch=" b " heads=" h " q_len=" n " kv_len=" n " head_dim=" d
}
function n_shape(b, h, n, d) { return "batch=" b " heads=" h " n=" n " head_dim=" d }
function words(b, h, n, d) { return "B=" b " H=" h " N=" n " d=" d }

# Where a file is from: its machine; the same with what was run there; what else must be known, its notes 3 on.
function machine(file) { load(file); return note[file, 1] " (`plots/" file "`)" }
function source(file) { load(file); return note[file, 1] "; " note[file, 2] " (`plots/" file "`)" }
function caveats(file,    i, text) {
    load(file)
    for (i = 3; i <= notes[file]; i++) text = text (i > 3 ? "; " : "") note[file, i]
    return text
}
