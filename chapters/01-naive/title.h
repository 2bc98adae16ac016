// title.h -- what `make chapter1` is headed with, and what it ends with.
#define CHAPTER_TITLE   "Naive attention: three passes, S and P in memory"
#define CHAPTER_PREDICT "make chapter1 CAUSAL=1    (which columns change, and which ought to?)"
// What to do when S and P do not fit.
#define CHAPTER_TOO_LARGE \
    "S and P grow with N^2: try a smaller N, or chapter 2, which stores neither (make chapter2)"
