// title.h -- what `make chapter6` is headed with, and what it ends with.
#define CHAPTER_TITLE "Masks: causal and sliding window, forward and backward, tile by tile"
#define CHAPTER_PREDICT \
    "make chapter6 N=2048 WINDOW=256 CAUSAL=1    (which of the bytes double, and which do not?)"
