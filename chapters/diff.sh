#!/bin/sh
# diff.sh FOLDER -- what a chapter changed, from FOLDER/before.txt; `make diffN` runs it. It needs no git.
#
#   idea   TEXT                      what changed, in words; three lines or so
#   keeps  FILE                      a file of an earlier chapter that this one calls as it stands
#   pair   OLD NEW F:G [F:G ...]     NEW took the place of OLD, and in it the function G that of F
#
# Files are named from the project's root. With colours where they are seen; NO_COLOR=1: never.
folder=$1
list=$(dirname "$0")/functions.awk
tab=$(printf '\t')
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

complain() {
    echo "diff.sh: $folder/before.txt: $*" >&2
    exit 2
}
[ -r "$folder/before.txt" ] || { echo "diff.sh: there is no $folder/before.txt" >&2; exit 2; }

if [ -t 1 ] && [ -z "$NO_COLOR" ]; then
    bold=$(printf '\033[1m') red=$(printf '\033[31m') green=$(printf '\033[32m') plain=$(printf '\033[0m')
fi

# Names, a line each, after a word, in lines of 100 columns; nothing where there is none.
names() {
    awk -v what="$1" 'NR == 1 { line = sprintf("    %-8s %s", what, $0); next }
        { line = line ","
          if (length(line " " $0) < 100) { line = line " " $0; next }
          print line; line = "             " $0 }
        END { if (NR) print line }'
}

show_pair() {
    old=$1 new=$2
    shift 2
    for file in "$old" "$new"; do [ -r "$file" ] || complain "there is no file $file"; done
    awk -f "$list" "$old" > "$work/old" && awk -f "$list" "$new" > "$work/new" || exit 1
    printf '%s%s (%d lines) -> %s (%d lines)%s\n' "$bold" "$old" "$(wc -l < "$old")" "$new" "$(wc -l < "$new")" "$plain"
    printf '%s\n' "$@" | tr -s ':' "$tab" > "$work/became"
    # kept, changed and gone: of the old; new: of the new; not those of which the pair says what they became
    awk -F "$tab" 'NR == FNR { text[$1] = $2; next }
        { print (!($1 in text) ? "gone" : text[$1] == $2 ? "kept" : "changed") "\t" $1 }' \
        "$work/new" "$work/old" > "$work/fate"
    awk -F "$tab" 'NR == FNR { there[$1]; next } !($1 in there) { print "new\t" $1 }' \
        "$work/old" "$work/new" >> "$work/fate"
    awk -F "$tab" '$1 != $2 { print $1 " -> " $2 }' "$work/became" | names became
    awk -F "$tab" 'NR == FNR { gone[$1]; new[$2]; next }
        !($1 == "gone" && $2 in gone || $1 == "new" && $2 in new)' "$work/became" "$work/fate" > "$work/rest"
    for fate in kept changed gone new; do
        awk -F "$tab" -v fate=$fate '$1 == fate { print $2 }' "$work/rest" | names $fate
    done
}

# Lines that are only in the old function, only in the new one, and in both, whatever their indent.
show_functions() {
    from=${1%%:*} to=${1##*:}
    awk -v show="$from" -f "$list" "$old" > "$work/from"
    awk -v show="$to" -f "$list" "$new" > "$work/to"
    [ -s "$work/from" ] || complain "there is no function $from in $old"
    [ -s "$work/to" ] || complain "there is no function $to in $new"
    printf '\n%s--- %s of %s   +++ %s of %s%s\n' "$bold" "$from" "${old##*/}" "$to" "${new##*/}" "$plain"
    cmp -s "$work/from" "$work/to" && echo ' the same, line for line'
    diff -w -U 1000 "$work/from" "$work/to" | sed -e 1,3d -e "s/^-.*/$red&$plain/" -e "s/^+.*/$green&$plain/"
}

sed -n '1s/^# *//p' "$folder/README.md"
echo
sed -n 's/^idea  *//p' "$folder/before.txt"
echo
while read -r word first second rest; do
    case $word in
    '' | '#'* | idea) ;;
    keeps)
        [ -r "$first" ] || complain "there is no file $first"
        echo "$first, as it stands; of it are called:"
        awk -f "$list" "$first" | cut -f 1 | while read -r name; do
            grep -qw "$name" "$folder"/*.c "$folder"/*.h "$folder"/*.cu "$folder"/*.cuh 2> /dev/null && echo "$name"
        done | names ''
        echo
        ;;
    pair)
        show_pair "$first" "$second" $rest
        for functions in $rest; do show_functions "$functions"; done
        echo
        ;;
    *) complain "$word is none of idea, keeps and pair" ;;
    esac
done < "$folder/before.txt"
