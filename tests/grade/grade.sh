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
rm -f "$folder/junit.xml"
${MAKE:-make} --no-print-directory "answer$number" > "$folder/log" 2>&1 || {
    grep -v '^make' "$folder/log"
    echo "FAIL  $work does not compile"
    exit 3
}
grep -A 6 'warning:' "$folder/log"
# One thread: blocks run one after another, and a mistake looks the same every time.
OMP_NUM_THREADS=1 "$build/grader" "$number" "$folder" "$@" --seconds "${ATTENTION_GRADE_SECONDS:-120}" \
    --megabytes "${ATTENTION_GRADE_MEGABYTES:-2048}"
