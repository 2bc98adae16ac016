#!/bin/sh
# exercise.sh -- copies an exercise without its answers to where the learner works; never over what is there.
#
#   exercise.sh NUMBER SOURCE WORK
set -e
if [ -e "$3" ]; then
    echo "Exercise $1 is there already, and stays as it is: $3"
    echo "To begin anew, move it away first. To grade it: make grade$1"
    exit 0
fi
mkdir -p "$(dirname "$3")"
awk -f tests/grade/stub.awk "$2" > "$3"
echo "Exercise $1: $3"
echo "Open it, write what is marked 'Yours', and grade it: make grade$1 (as often as you like)"
