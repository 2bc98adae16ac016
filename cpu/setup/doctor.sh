#!/bin/sh
# doctor.sh -- says what this machine has, one line each, and what each missing piece costs the reader.
# CC, CXX and NVCC come from make.

row() { printf '  %-13s %s\n' "$1" "$2"; }
version() { "$@" --version 2> /dev/null | head -n 1; }
found() { command -v "$1" > /dev/null 2>&1; }

echo "What this machine has ($(uname -s) $(uname -m), $(getconf _NPROCESSORS_ONLN 2> /dev/null || echo '?') processors):"

c=$(version "$CC")
row "C compiler" "${c:-missing: nothing can be built; type make deps}"
cxx=$(version "$CXX")
row "C++ compiler" "${cxx:-missing: the CUDA kernels cannot run on the emulator; type make deps}"

if printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' |
    "$CC" -fopenmp -x c - -o /dev/null 2> /dev/null; then
    row OpenMP "yes"
else
    row OpenMP "missing: all runs on one thread, more slowly"
fi

check=$(pkg-config --modversion check 2> /dev/null)
if [ -z "$check" ] && printf '#include <check.h>\n' | "$CC" -E -x c - > /dev/null 2>&1; then check="yes"; fi
row Check "${check:-missing: make test cannot run, the chapters can; type make deps}"

if found gnuplot; then row gnuplot "$(version gnuplot)"; else
    row gnuplot "missing: no plots, the tables remain; type make deps"
fi

if [ -n "$NVCC" ] && found "$NVCC"; then
    row nvcc "$("$NVCC" --version | sed -n 's/.*release \([0-9.]*\).*/CUDA \1/p')"
else
    row nvcc "missing: CUDA kernels run on the emulator only (bytes exact, races caught, no times)"
fi

gpu=$(nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2> /dev/null | head -n 1)
row GPU "${gpu:-none found: DEVICE=gpu is not available; recorded H200 figures are shown instead}"
[ -z "$gpu" ] || [ -n "$NVCC" ] || row "" "a GPU without nvcc: install the CUDA toolkit to use it"

if found ncu; then row "Nsight (ncu)" "$(ncu --version 2> /dev/null | tail -n 1)"; else
    row "Nsight (ncu)" "missing: DRAM bytes cannot be measured here"
fi
