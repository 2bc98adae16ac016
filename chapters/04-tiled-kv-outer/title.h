// title.h -- what `make chapter4` is headed with, and what it ends with.
#define CHAPTER_TITLE \
    "KV outer, Q inner: the loops swapped (this course's v2; FlashAttention's Algorithm 1)"
#define CHAPTER_PREDICT \
    "make chapter4 BC=128    (keys a slice: how many slices, how many bytes of partial O?)"
