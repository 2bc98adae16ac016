// tiles.h -- exercise 5's tiles: keys a block, one a thread, and queries a tile.
#ifndef EXERCISE5_TILES_H
#define EXERCISE5_TILES_H

enum { EXERCISE5_BR = 16, EXERCISE5_BC = 64 };

#endif
