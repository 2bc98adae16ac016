// tiles.h -- exercise 3's tiles: queries a block, one a thread, and keys a tile.
#ifndef EXERCISE3_TILES_H
#define EXERCISE3_TILES_H

enum { EXERCISE3_BR = 64, EXERCISE3_BC = 32 };

#endif
