#!/bin/sh
# grade.sh -- builds an answer and grades it. `make gradeN` calls it.
#
#   grade.sh NUMBER BUILD WORK [grader's options]
#
# Exit status: 0 passed; 1 wrong; 2 nothing to grade; 3 it does not compile; 4 ended by a limit of time or
# memory (ATTENTION_GRADE_SECONDS, ATTENTION_GRADE_MEGABYTES) or by a crash. make itself turns every one but
# 0 into 2, but prints it.
number=$1 build=$2 work=$3
shift 3
if [ ! -f "$work" ]; then
    echo "There is no $work to grade: make exercise$number makes one" >&2
    exit 2
fi
folder=$build/grade/$number
mkdir -p "$folder"
junit=
for argument; do [ "$last" = --junit ] && junit=$argument; last=$argument; done
rm -f "$junit"
${MAKE:-make} --no-print-directory "answer$number" > "$folder/log" 2>&1 || {
    grep -v '^make' "$folder/log"
    echo "FAIL  $work does not compile"
    {
        echo "<testsuite name=\"exercise$number\" tests=\"1\" failures=\"1\">"
        echo "  <testcase classname=\"exercise$number\" name=\"compile\"><failure message=\"does not compile\">"
        sed -e 's/&/\&amp;/g' -e 's/</\&lt;/g' "$folder/log"
        echo '</failure></testcase></testsuite>'
    } > "$junit"
    exit 3
}
grep -A 6 'warning:' "$folder/log"
untouched=
for source in chapters/0"$number"-*/exercise/exercise.*[cu]; do
    awk -f tests/grade/stub.awk "$source" | cmp -s - "$work" && untouched='--untouched 1'
done
# One thread: blocks run one after another, and a mistake looks the same every time.
# shellcheck disable=SC2086
OMP_NUM_THREADS=1 "$build/grader" "$number" "$folder" "$@" --seconds "${ATTENTION_GRADE_SECONDS:-120}" \
    --megabytes "${ATTENTION_GRADE_MEGABYTES:-2048}" $untouched
status=$?
[ -z "$untouched" ] ||
    echo "This is exercise $number as it is handed out: write what is marked 'Yours' in $work"
exit "$status"
