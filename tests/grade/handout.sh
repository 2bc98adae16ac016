#!/bin/sh
# handout.sh -- make handout: a copy of the tree without the answers to the exercises, as a folder and as an
# archive. What grades them is there: closed forms, cases and the reference hold no answer.
#
#   handout.sh BUILD
set -e
build=$1 name=attention-exercises
rm -rf "$build/handout"
mkdir -p "$build/handout/$name"
if git ls-files --error-unmatch Makefile > /dev/null 2>&1; then
    git ls-files
else # a tree without its history
    find . -type f ! -path './build/*' ! -path './.git/*' ! -path '*/work/*' ! -path "./$build/*"
fi > "$build/handout/files"
tar -cf "$build/handout/tree.tar" -T "$build/handout/files" # not a pipe, which would hide a missing file
tar -xf "$build/handout/tree.tar" -C "$build/handout/$name"
rm "$build/handout/files" "$build/handout/tree.tar"
for source in chapters/*/exercise/exercise.c chapters/*/exercise/exercise.cu; do
    [ ! -f "$source" ] || awk -f tests/grade/stub.awk "$source" > "$build/handout/$name/$source"
done
rm -f "$build/handout/$name/tests/grade/wrong.txt" # it quotes the answers
tar -czf "$build/handout/$name.tar.gz" -C "$build/handout" "$name"
echo "Without the answers: $build/handout/$name, and $build/handout/$name.tar.gz to hand out"
echo 'The chapters'"'"' own kernels are in it: they are the lesson, and do the same in another form.'
