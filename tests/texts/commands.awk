# commands.awk -- the commands in Markdown files, and in the chapters' title.h, one a line:
#
#   VERDICT <tab> FILE:LINE <tab> COMMAND <tab> how it runs here, or the reason why it does not <tab> STATUS
#
# A command is a line of a code block, or inline code, that begins with make, build/attention or
# build/tests, with or without VARIABLE=value before it; `attention ...` is build/attention. What is said
# twice is listed once. Where its comment ends with "status 2", that is its STATUS. The rules are in
# commands.txt, the first argument; the first that fits decides.
#
#   run      it runs, smaller where it would take long, and ends with exit status STATUS, mostly 0
#   parse    it is only looked at: its make target, its knobs or its subcommand exist
#   ci       it is a step of .ci/run, and need not run twice

BEGIN { start = "^([A-Z_]+=[^ ]+ )*(make|build/attention|build/tests)( |$)" }

FILENAME ~ /commands\.txt$/ {
    if ($0 !~ /^(limit|set|ends|parse|ci) /) next
    split($0, field, /   */) # fields are apart by two blanks or more
    rules++
    rule[rules] = field[1]
    pattern[rules] = field[2]
    argument[rules] = field[3]
    next
}

FILENAME ~ /\.h$/ {
    rest = $0
    while (match(rest, /["(]make [a-z][^"()]*/)) {
        found = substr(rest, RSTART + 1, RLENGTH - 1)
        rest = substr(rest, RSTART + RLENGTH)
        command_found(found) # which matches anew
    }
    next
}

{ read_line() }
is_block { command_found(block) }
{ for (c = 1; c <= codes; c++) command_found(code[c]) }

function command_found(text,   r, status) {
    status = 0
    if (match(text, / # .*status [0-9]+$/)) { status = text; sub(/.* /, "", status) }
    sub(/^\$ /, "", text)
    sub(/ +# .*$/, "", text)
    gsub(/[ \t]+/, " ", text)
    sub(/[ ,.:;]+$/, "", text)
    sub(/^ /, "", text)
    sub(/^attention /, "build/attention ", text)
    if (text !~ start || text in listed) return
    listed[text] = 1
    for (r = 1; r <= rules; r++) {
        if (rule[r] ~ /^(limit|set)$/ || text !~ pattern[r]) continue
        if (rule[r] == "ends") {
            status = argument[r]
            break
        }
        print rule[r] "\t" FILENAME ":" FNR "\t" text "\t" argument[r] "\t0"
        return
    }
    print "run\t" FILENAME ":" FNR "\t" text "\t" smaller(text) "\t" status
}

# The rules `limit` and `set`, all that fit: a knob's value is no larger than the one given; a knob that the
# command does not have gets the one given.
function smaller(text,   r, knob, most, value) {
    for (r = 1; r <= rules; r++) {
        if (rule[r] !~ /^(limit|set)$/ || text !~ pattern[r]) continue
        knob = most = argument[r]
        sub(/=.*/, "", knob)
        sub(/.*=/, "", most)
        if (!match(text, " " knob "=[0-9]+")) {
            if (rule[r] == "set" && match(text, /make [^ ]+/))
                text = substr(text, 1, RSTART + RLENGTH - 1) " " knob "=" most \
                    substr(text, RSTART + RLENGTH)
            continue
        }
        value = substr(text, RSTART, RLENGTH)
        sub(/.*=/, "", value)
        if (value + 0 > most + 0)
            text = substr(text, 1, RSTART - 1) " " knob "=" most substr(text, RSTART + RLENGTH)
    }
    return text
}
