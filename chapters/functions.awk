# functions.awk -- the functions of a C or CUDA file, for diff.sh.
#
#   awk -f functions.awk FILE                  a line each: name, a tab, and its text without comments and blanks
#   awk -v show=NAME -f functions.awk FILE     that function as it stands, with the comment above it
#
# It knows the layout that clang-format gives: what begins in the first column, and ends with a } or a ;
# there, is one thing. Hooks for make traceN (cpu/trace/hooks.h) are left out.

# Takes `word(...)` out, whatever parentheses are inside.
function without(text, word,    at, end, depth, c) {
    at = index(text, word "(")
    if (!at) return text
    for (end = at + length(word); end <= length(text); end++) {
        c = substr(text, end, 1)
        depth += (c == "(") - (c == ")")
        if (depth == 0) break
    }
    return substr(text, 1, at - 1) substr(text, end + 1)
}

# The name in "template <int D> __global__ void kernel(float *p) {", or nothing where it is no function.
function name_of(head) {
    sub(/\{.*/, "", head)
    sub(/template *<[^>]*>/, "", head)
    head = without(without(head, "__launch_bounds__"), "__attribute__")
    if (head !~ /\)[ ]*(const)?[ ]*$/ || head ~ /=/) return ""
    sub(/\(.*/, "", head)
    sub(/[ ]+$/, "", head)
    sub(/.*[^A-Za-z0-9_]/, "", head)
    return head
}

function finish(    name, plain) {
    name = name_of(head)
    plain = code
    gsub(/[ \t]+/, "", plain)
    if (name != "" && show == "") print name "\t" plain
    if (name != "" && show == name) printf "%s%s", comment, raw
    head = code = raw = comment = ""
    depth = opened = 0
}

/TRACE_/ { next }
{
    line = $0
    sub(/[ \t]*\/\/.*/, "", line)
}
raw == "" && (line ~ /^[ \t]*$/ || line ~ /^#/ || line ~ /^extern "C"/ || line ~ /^}/) {
    comment = $0 ~ /^\/\// ? comment $0 "\n" : ""
    next
}
{
    raw = raw $0 "\n"
    code = code " " line
    if (!opened) head = head " " line
    opens = gsub(/[{]/, "&", line)
    opened += opens
    depth += opens - gsub(/[}]/, "&", line)
    if (depth == 0 && (opened || line ~ /;[ \t]*$/)) finish()
}
