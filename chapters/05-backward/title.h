// title.h -- what `make chapter5` is headed with, and what it ends with.
#define CHAPTER_TITLE                                                                          \
    "Backward by recomputation: P is computed again from L, not kept (KV outer, both papers' " \
    "order)"
#define CHAPTER_PREDICT \
    "make chapter5 N=2048    (which of the bytes double, and which grow by four?)"
