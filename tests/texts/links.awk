# links.awk -- tells every link in Markdown files that leads nowhere: a relative link to a file or a folder,
# an anchor (#heading) in a file, and a path named in the text, `plots/recorded/x.csv`, that is not there.
# Links to other hosts are not followed. Paths are relative to the folder it runs in.
#
#   awk -f tests/texts/markdown.awk -f tests/texts/links.awk README.md ...     status 1: something is broken

{ read_line() }

is_block { next }

# The anchor that GitHub gives a heading: small letters, no punctuation, hyphens for blanks.
/^#+ / {
    heading = $0
    sub(/^#+ +/, "", heading)
    sub(/ +#* *$/, "", heading)
    while (match(heading, /\]\([^)]*\)/)) # a link's text counts, its target does not
        heading = substr(heading, 1, RSTART - 1) substr(heading, RSTART + RLENGTH)
    heading = tolower(heading)
    gsub(/·|×|–|—|→|←|…|²|³|√|∞|−|≠|≤|≥|“|”|‘|’|，|。|：|、|（|）|？/, "", heading)
    gsub(/[!-,.\/:-@\[-^`{-~]/, "", heading)
    gsub(/ /, "-", heading)
    seen = headings[FILENAME, heading]++
    anchors[FILENAME, heading (seen ? "-" seen : "")] = 1
}

{
    for (rest = prose; match(rest, /\]\([^() ]+( "[^"]*")?\)|(id|name)="[^"]+"|^\[[^]]+\]: *[^ ]+/);
         rest = substr(rest, RSTART + RLENGTH)) {
        found = substr(rest, RSTART, RLENGTH)
        if (found ~ /^(id|name)=/) {
            gsub(/^[a-z]*="|"$/, "", found)
            anchors[FILENAME, found] = 1
            continue
        }
        sub(/^\]\(|^\[[^]]+\]: */, "", found)
        sub(/( "[^"]*")?\)$/, "", found)
        note(found, 0)
    }
    gsub(/\]\([^()]*\)|https?:[^ )]*/, " ", prose)
    named_paths(prose)
    for (c = 1; c <= codes; c++) named_paths(code[c])
}

function note(target, from_root) {
    if (target ~ /^[a-z]+:/) return # https:, mailto:
    links++
    link_target[links] = target
    link_file[links] = FILENAME
    link_line[links] = FNR
    link_from_root[links] = from_root
}

# Words such as chapters/01-naive/naive.c, but not chapters/NN/README.md or plots/<gpu>.csv.
function named_paths(text,   words, count, w, word) {
    count = split(text, words, /[ \t,;()|"]+/)
    for (w = 1; w <= count; w++) {
        word = words[w]
        sub(/[.:]+$/, "", word)
        sub(/:[0-9]+$/, "", word)
        if (word ~ /^(chapters|cpu|gpu|tests|plots|notes)\/[A-Za-z0-9_.\/-]+\.(c|h|cu|cuh|md|csv|svg|gp|py|awk|sh|txt|mk)$/ &&
            word !~ /NN|XX/)
            note(word, 1)
    }
}

# "a/b/../c" is "a/c"; "" where it leaves the project.
function normal(path,   parts, count, i, kept, depth, result) {
    count = split(path, parts, "/")
    for (i = 1; i <= count; i++) {
        if (parts[i] == "" || parts[i] == ".") continue
        if (parts[i] != "..") {
            kept[++depth] = parts[i]
        } else if (--depth < 0) {
            return ""
        }
    }
    for (i = 1; i <= depth; i++) result = result (i > 1 ? "/" : "") kept[i]
    return result == "" ? "." : result
}

function exists(path,    quoted) {
    quoted = path
    gsub(/'/, "'\\''", quoted)
    if (!(path in known)) known[path] = system("test -e '" quoted "'") == 0
    return known[path]
}

function broken(l, what) {
    printf "%s:%d: %s: %s\n", link_file[l], link_line[l], link_target[l], what
    failed++
}

END {
    for (l = 1; l <= links; l++) {
        file = link_file[l]
        path = link_target[l]
        anchor = ""
        if (match(path, /#/)) {
            anchor = substr(path, RSTART + 1)
            path = substr(path, 1, RSTART - 1)
        }
        folder = file
        if (!sub(/\/[^\/]*$/, "", folder)) folder = "."
        if (path == "") {
            path = normal(file)
        } else if (path ~ /^\//) {
            broken(l, "an absolute path")
            continue
        } else {
            path = normal(link_from_root[l] ? path : folder "/" path)
        }
        if (path == "") {
            broken(l, "leaves the project")
        } else if (!exists(path)) {
            broken(l, "there is no " path)
        } else if (anchor != "") {
            if (path !~ /\.md$/) {
                if (anchor !~ /^L[0-9]/) broken(l, "an anchor in a file that is not Markdown")
            } else if (!((path, anchor) in anchors)) {
                broken(l, "no heading in " path " gives #" anchor)
            }
        }
    }
    printf "%d links checked, %d broken\n", links, failed
    exit failed > 0
}
