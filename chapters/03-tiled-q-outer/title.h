// title.h -- what `make chapter3` is headed with, and what it ends with.
#define CHAPTER_TITLE \
    "Q outer, KV inner: tiles on the chip (this course's v1; the order of FlashAttention-2)"
#define CHAPTER_PREDICT \
    "make chapter3 BR=32    (how many times the bytes of K and V? which stage takes BR?)"
