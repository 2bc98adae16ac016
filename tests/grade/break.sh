#!/bin/sh
# break.sh -- make breakN: lists a chapter's bugs, or builds the chapter with one of them and shows what that
# does. The bugs are mutants of tests/mutants/mutants.txt; bugs.txt, in the chapter's folder, says why each is
# one.
#
#   break.sh NUMBER BUILD CHAPTER [BUG]
#
# Exit status: 0 the bug was seen, 1 it was not, 2 there is no such bug.
number=$1 build=$2 chapter=$3 bug=$4
bugs=chapters/$chapter/bugs.txt
field() { # of the bug
    awk -v bug="$bug" -v key="$1" '/^#/ { next } $1 == "bug" { here = $2 == bug }
        here && $1 == key { print substr($0, 10); exit }' "$bugs"
}
mutant=$(field mutant)
if [ -z "$mutant" ]; then
    [ -z "$bug" ] || echo "There is no bug '$bug' in chapter $number." >&2
    echo "Bugs to plant in chapter $number: make break$number BUG=name"
    awk '/^#/ { next } $1 == "bug" { name = $2 } $1 == "what" { printf "  %-28s %s\n", name, substr($0, 10) }' \
        "$bugs"
    [ -z "$bug" ] && exit 0
    exit 2
fi
file=$(awk -v name="$mutant" '/^#/ { next } $1 == "mutant" { here = $2 == name }
    here && $1 == "file" { print $2; exit }' tests/mutants/mutants.txt)
case $file in
*.cu | *.cuh) devices="emulator check" ;;
*) devices=host ;;
esac
modules=
for device in $devices; do modules="$modules $build/mutants/$mutant/$device/${chapter%%-*}.so"; done
mkdir -p "$build/grade"
echo "Building chapter $number with it: some seconds; where a header is changed, a minute or two"
# shellcheck disable=SC2086
${MAKE:-make} --no-print-directory $modules > "$build/grade/break.log" 2>&1 || {
    cat "$build/grade/break.log"
    exit 2
}
changes=$(diff "$file" "$build/mutants/$mutant/$file")
printf '%s, line %s:\n' "$file" "$(echo "$changes" | sed -n '1s/[^0-9].*//p')"
echo "$changes" | sed -n -e 's/^< */  - /p' -e 's/^> */  + /p'
echo
OMP_NUM_THREADS=1 "$build/grader" "$number" "$build/mutants/$mutant" --bug 1 \
    --seconds "${ATTENTION_GRADE_SECONDS:-300}"
status=$?
printf '\nWhy: %s\n' "$(field why)" | fold -s -w 100
exit "$status"
