// title.h -- what `make chapter6` is headed with, and what it ends with.
#define CHAPTER_TITLE \
    "Masks and shapes of real models: causal, window, lengths, bias, dropout, step by step"
#define CHAPTER_PREDICT \
    "make chapter6 N=2048 WINDOW=256 CAUSAL=1    (which of the bytes double, and which do not?)"
