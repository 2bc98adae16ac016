#!/bin/sh
# report.sh FOLDER -- registers, shared memory and spills of every kernel, from ptxas' words in the .log
# files under FOLDER. Exit status 1 when a kernel spills registers to memory.
find "$1" -name '*.log' | sort | xargs cat /dev/null | awk '
    /Compiling entry function/ { split($0, part, "\x27"); kernel = part[2]; arch = part[4] }
    /bytes spill stores/       { spills = ($5 + $9 > 0) ? "  SPILLS " $5 + $9 " bytes" : ""; if (spills != "") bad = 1 }
    /Used [0-9]+ registers/    {
        match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
        shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
        name = ""
        demangle = "c++filt " kernel " 2>/dev/null"
        demangle | getline name
        close(demangle)
        sub(/\(.*/, "", name); sub(/^void /, "", name)
        if (name == "") name = kernel
        printf "%-6s %-40s %3d registers, %6d bytes of static shared memory%s\n", arch, name, registers, shared, spills
    }
    END { exit bad }'
