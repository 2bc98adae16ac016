#!/bin/sh
# commands.sh [--list] [FOLDER] -- runs the commands in the texts of the project (or of a folder): of all
# Markdown files, and what each chapter's title.h tells the reader to type. commands.awk finds them,
# commands.txt says what is done with each. Ends at the first that fails. --list runs nothing.
#
# They run in a copy of the folder, in build/commands, so that what they write harms nothing, each with a time
# limit of COMMAND_SECONDS, where there is the program `timeout`.
scripts=$(cd "$(dirname "$0")" && pwd)
list=
[ "$1" = --list ] && list=1 && shift
cd "${1:-$scripts/../..}" || exit 2
LC_ALL=C
export LC_ALL
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

copy=build/commands
mkdir -p "$copy"
commands=$PWD/$copy/list log=$PWD/$copy/log finished=$PWD/$copy/finished
texts=$(find . \( -name '*.md' -o -name title.h \) ! -path './build/*' ! -path './.*' | sed 's,^\./,,' | sort)
awk -f "$scripts/markdown.awk" -f "$scripts/commands.awk" "$scripts/commands.txt" $texts > "$commands" || exit 2
[ -z "$list" ] || exec cat "$commands"

tree=$copy/tree
rm -rf "$tree"
mkdir -p "$tree/build"
for entry in *; do
    [ "$entry" = build ] || cp -Rp "$entry" "$tree" || exit 2
done
rm -rf "$tree"/chapters/*/work # a learner's own answers
for entry in build/*; do # times are kept: nothing is built again
    case $entry in build/commands | build/mutants | build/seeded | build/asan | build/clang | build/gcc | build/nvcc) ;;
    *) cp -Rp "$entry" "$tree/build" || exit 2 ;; esac
done
ci=$PWD/.ci/run

limit=
command -v timeout > /dev/null && limit="timeout ${COMMAND_SECONDS:-120}"

# Whether make knows the targets and the knobs, the program the subcommand, the tests the suite. For chapterN
# some number must do.
parses() {
    case $1 in
    *build/attention*)
        build/attention 2>&1 | grep -q "^  attention $(echo "$1" | sed 's,.*build/attention ,,; s, .*,,') " ;;
    *build/tests*--suite*)
        grep "{\"$(echo "$1" | sed 's,.*--suite \([^ ]*\).*,\1,')\"" tests/main.c ;;
    *build/tests*) ;;
    *)
        for number in 1 2 3 4 5 6 7 8 9; do
            numbered=$(echo "$1 " | sed "s/\([a-z]\)N /\1$number /g; s/[<>]/_/g; s/make /make -n /g")
            $limit sh -c "$numbered" && return
            case "$1 " in *[a-z]"N "*) ;; *) return 1 ;; esac
        done
        return 1 ;;
    esac
}

cd "$tree" || exit 2
rm -f "$finished"
touch "$finished"
tab=$(printf '\t')
ran=0 looked=0
while IFS=$tab read -r verdict place command how expected <&3; do
    case $verdict in
    run) [ "$command" = "$how" ] && as= || as="    as  $how"
        ran=$((ran + 1))
        if grep -qxF "$how" "$finished"; then # a larger problem that is the same here
            printf '%6s  %s\n' '' "$command$as"
            continue
        fi
        echo "$how" >> "$finished"
        since=$(date +%s)
        $limit sh -c "$how" > "$log" 2>&1 < /dev/null
        status=$?
        printf '%4d s  %s\n' $(($(date +%s) - since)) "$command$as" ;;
    parse)
        parses "$command" > "$log" 2>&1 < /dev/null
        status=$? looked=$((looked + 1)) ;;
    ci) grep -q "^$command" "$ci" 2> "$log"
        status=$? how="$how, says commands.txt, and it is none" looked=$((looked + 1)) ;;
    esac
    if [ $status -ne "$expected" ]; then
        echo "FAIL  $command, in $place: exit status $status and not $expected:"
        echo "      $how"
        tail -n 30 "$log"
        exit 1
    fi
done 3< "$commands"

echo
awk -F'\t' '$1 != "run" { printf "not run: %-40s  %s\n", $3, $4 }' "$commands"
echo "$ran commands ran, $looked were only looked at"
cd - > /dev/null && rm -rf "$tree"
