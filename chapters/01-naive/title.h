// title.h -- what `make chapter1` is headed with, and what it ends with.
#define CHAPTER_TITLE "Naive attention: three passes, S and P in memory"
#define CHAPTER_PREDICT \
    "make chapter1 N=2048    (how many times the bytes, how many times the memory?)"
// What to do when S and P do not fit.
#define CHAPTER_TOO_LARGE \
    "S and P grow with N^2: try a smaller N, or chapter 2, which stores neither (make chapter2)"
