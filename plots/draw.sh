#!/bin/sh
# draw.sh FOLDER -- draws plots/*.gp: SVG, which is committed, beside them, and PNG in FOLDER. Without gnuplot,
# a table and a plot in characters.
folder=$1
if ! command -v gnuplot > /dev/null 2>&1; then
    for pass in traffic traffic-backward; do
        awk -f plots/text.awk plots/data/$pass.csv || exit 1
        echo
    done
    echo 'Pictures need gnuplot: type make deps (or apt install gnuplot, brew install gnuplot), then make plots.'
    exit 0
fi
mkdir -p "$folder" || exit 1
for script in plots/traffic.gp plots/traffic-backward.gp plots/tiles.gp plots/memory.gp plots/memory-training.gp plots/time.gp \
    plots/time-backward.gp plots/roofline.gp; do
    name=$(basename "$script" .gp)
    gnuplot -e "kind = 'svg'; set output '$folder/$name.svg'" "$script" || exit 1
    # Its SVG draws hollow points with lines of one width, thinner than all others.
    sed -e "/id='gpPt/s/stroke-width='[0-9.]*'/stroke-width='0.32'/" "$folder/$name.svg" > "plots/$name.svg" || exit 1
    gnuplot -e "kind = 'png'; set output '$folder/$name.png'" "$script" || exit 1
    echo "drew plots/$name.svg and $folder/$name.png"
done
