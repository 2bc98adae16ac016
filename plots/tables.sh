#!/bin/sh
# tables.sh renew|check [FOLDER] -- the tables of recorded figures in the READMEs and the notes.
#
# What stands between the lines <!-- NAME:begin --> and <!-- NAME:end --> is what plots/tables/NAME.awk prints,
# from the CSV in FOLDER/recorded and FOLDER/data (plots). `renew` writes it; `check` says which table isn't
# what its CSV says, and then has exit status 1. A new table is a script and two lines in one of these texts.
what=$1 folder=${2:-plots}
case $what in renew | check) ;; *) echo "tables.sh: say renew or check" >&2; exit 2 ;; esac
LC_ALL=C # a point, not a comma, in numbers
export LC_ALL
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
status=0 unused=
for script in plots/tables/*.awk; do unused="$unused $(basename "$script" .awk)"; done
unused=$(echo "$unused" | sed 's/ csv / /')

for file in README.md chapters/*/README.md gpu/README.md gpu/emulator/README.md notes/*.md; do
    for name in $(sed -n 's/^<!-- \([a-z0-9-]*\):begin -->$/\1/p' "$file"); do
        [ -f "plots/tables/$name.awk" ] || continue # of another program: make bench, attention list
        unused=$(echo " $unused " | sed "s/ $name / /")
        awk -v folder="$folder" -f plots/tables/csv.awk -f "plots/tables/$name.awk" > "$work/table" || exit 2
        awk -v begin="<!-- $name:begin -->" -v end="<!-- $name:end -->" -v table="$work/table" '
            $0 == end { inside = 0; ended = 1 }
            !inside
            $0 == begin { inside = 1; while ((getline line < table) > 0) print line }
            END { exit !ended }' "$file" > "$work/file" || {
            echo "tables.sh: $file has no line <!-- $name:end -->" >&2
            exit 2
        }
        cmp -s "$work/file" "$file" && continue
        if [ "$what" = renew ]; then
            cp "$work/file" "$file" && echo "renewed $name in $file" || exit 2
        else
            echo "$file: the table $name is not what its CSV says; make tables renews it" >&2
            status=1
        fi
    done
done
for name in $unused; do
    echo "tables.sh: plots/tables/$name.awk has no place in a README: <!-- $name:begin -->, <!-- $name:end -->" >&2
    status=1
done
exit $status
