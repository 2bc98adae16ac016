#include "chapters/05-backward/forward.c" // not traced here: make trace2 is
