# mutate.awk -- prints a source file with one mutant of mutants.txt in it, or fails and says why.
#
#   awk -v name=NAME -f mutate.awk mutants.txt SOURCE
#
# The text to replace must stand in the file, and only once: after the text of `after`, if there is one.
function complain(text) {
    print "mutant " name ": " text ": " ARGV[1] " is stale" > "/dev/stderr"
    failed = 1
    exit 1
}
FNR == 1 { file++ }
file == 1 && /^#/ { next }
file == 1 {
    key = $1
    value = substr($0, 10)
    if (key == "mutant") current = $2
    if (current == name && key == "after") after = value
    if (current == name && key == "from") from = value
    if (current == name && key == "to") to = value
    next
}
{ source = source $0 "\n" }
END {
    if (failed) exit 1
    if (from == "") { # the one that changes nothing
        printf "%s", source
        exit
    }
    start = 1
    if (after != "") {
        at = index(source, after)
        if (!at) complain("no '" after "' in " FILENAME)
        start = at + length(after)
    }
    head = substr(source, 1, start - 1)
    rest = substr(source, start)
    at = index(rest, from)
    if (!at) complain("no '" from "' in " FILENAME)
    tail = substr(rest, at + length(from))
    if (after == "" && index(tail, from)) complain("more than one '" from "' in " FILENAME)
    printf "%s%s%s%s", head, substr(rest, 1, at - 1), to, tail
}
