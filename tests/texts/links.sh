#!/bin/sh
# links.sh [FOLDER] -- checks the links of all Markdown files of the project, or of a folder (links.awk).
# Nothing is fetched from a network.
scripts=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$scripts/../..}" || exit 2
# Built files and hidden folders are nobody's text.
export LC_ALL=C
find . -name '*.md' ! -path './build/*' ! -path './.*' | sed 's,^\./,,' | sort |
    xargs awk -f "$scripts/markdown.awk" -f "$scripts/links.awk"
