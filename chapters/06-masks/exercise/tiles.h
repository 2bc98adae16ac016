// tiles.h -- exercise 6's tiles: queries a block, one a thread, and keys a tile.
#ifndef EXERCISE6_TILES_H
#define EXERCISE6_TILES_H

enum { EXERCISE6_BR = 32, EXERCISE6_BC = 16 };

#endif
