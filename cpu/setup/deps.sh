#!/bin/sh
# deps.sh -- installs what building, testing and plotting need and this machine lacks: a C and a C++
# compiler, make, Check and gnuplot, by the system's own package manager. Does nothing where all is
# present. Never installs CUDA: no chapter needs it.

have_check() {
    pkg-config --exists check 2> /dev/null || printf '#include <check.h>\n' | ${CC:-cc} -E -x c - > /dev/null 2>&1
}
missing=""
need() { missing="$missing $1"; }

{ command -v gcc || command -v clang || command -v cc; } > /dev/null 2>&1 || need compiler
{ command -v g++ || command -v clang++ || command -v c++; } > /dev/null 2>&1 || need compiler
have_check || need check
command -v gnuplot > /dev/null 2>&1 || need gnuplot
[ -n "$missing" ] || exit 0

names() { # names COMPILER CHECK GNUPLOT: this system's packages for what is missing, each once
    packages=""
    for what in $missing; do
        case $what in
        compiler) package=$1 ;;
        check) package=$2 ;;
        gnuplot) package=$3 ;;
        esac
        case " $packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
    done
    echo $packages
}

give_up() { # give_up COMMAND: the one line to type
    echo "deps: missing:$missing. Type this, then run make again:" >&2
    echo "    $1" >&2
    case $missing in *compiler*) exit 2 ;; esac
    echo "deps: going on without: the chapters need neither Check (for make test) nor gnuplot (for plots)" >&2
    exit 0
}

if command -v apt-get > /dev/null 2>&1; then
    packages=$(names "gcc g++ libc6-dev" "check pkg-config" gnuplot-nox)
    line="apt-get update && apt-get install -y $packages"
    if [ "$(id -u)" = 0 ]; then
        become=""
    elif command -v sudo > /dev/null 2>&1 && { sudo -n true 2> /dev/null || [ -t 0 ]; }; then
        become=sudo
    else
        give_up "su -c '$line'"
    fi
    echo "deps: installing $packages"
    $become apt-get update -qq &&
        $become env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages > /dev/null ||
        give_up "$line"
elif command -v brew > /dev/null 2>&1; then
    case $missing in *compiler*) give_up "xcode-select --install" ;; esac
    packages=$(names "" "check pkg-config" gnuplot)
    echo "deps: installing $packages"
    brew install -q $packages || give_up "brew install $packages"
elif command -v dnf > /dev/null 2>&1; then
    give_up "sudo dnf install $(names 'gcc gcc-c++' check-devel gnuplot)"
elif command -v pacman > /dev/null 2>&1; then
    give_up "sudo pacman -S $(names gcc check gnuplot)"
elif command -v zypper > /dev/null 2>&1; then
    give_up "sudo zypper install $(names 'gcc gcc-c++' check-devel gnuplot)"
else
    give_up "install, with your system's package manager: $(names 'gcc g++' check gnuplot)"
fi
