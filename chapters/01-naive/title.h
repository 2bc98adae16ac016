// title.h -- what `make chapter1` is headed with, and what it ends with.
#define CHAPTER_TITLE "Naive attention: three passes, S and P in memory"
#define CHAPTER_PREDICT \
    "make chapter1 N=2048    (how many times the bytes, how many times the memory?)"
