#!/usr/bin/env python3
"""Known answers for test_random.c, from a second implementation of cpu/random.c, cpu/input.c and
cpu/dropout.h.

Written from the definitions in random.h, input.h and dropout.h, in Python's integers and IEEE
doubles; a float32 is rounded once, by struct. Prints the rows of the table `fills` in test_random.c,
then those of `kept`:

    python3 tests/random_answers.py
"""
import struct

BATCH, HEADS, KV_HEADS, Q_LEN, KV_LEN, DIM, SEED = 2, 4, 2, 119, 533, 5, 20240711


def philox(seed, stream, counter):
    c = [counter & 0xFFFFFFFF, counter >> 32, stream & 0xFFFFFFFF, stream >> 32]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


STEP = float32((8 * (2**32 - 1) / 12) ** -0.5)


def steps(stream, e):
    pieces = [half for word in philox(SEED, stream, e) for half in (word & 0xFFFF, word >> 16)]
    return sum(pieces) - 8 * 0xFFFF // 2


def element(kind, tensor, e, rows_a_head):
    normal = float32(steps(tensor, e) * STEP)  # 18 bits times 24: exact before the rounding
    row, column = divmod(e, DIM)
    if tensor == 3:
        return normal
    if kind == "outliers":
        outlier = philox(SEED, 4 + tensor, e)[0] < int(0.001 * 2**32)
        return float32((steps(tensor, e) + (10 * steps(8 + tensor, e) if outlier else 0)) * STEP)
    if kind == "wide" and tensor == 0:
        return normal * 2.0 ** (8 - row % 17)
    if kind == "equal" and tensor < 2:
        return 1.0
    if kind == "rising" and column == 0 and tensor < 2:
        return 8.0 if tensor == 0 else float(256 * (row % rows_a_head) // rows_a_head - 128)
    return normal


def fnv1a(values):
    h = 0xCBF29CE484222325
    for byte in struct.pack(f"<{len(values)}f", *values):
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def kept_keys(p, seed, offset, head, i, keys):
    """The first keys' weights that are not dropped, as bits from the lowest on."""
    bits = 0
    for j in range(keys):
        low, high = j // 4 | i << 32, head | offset << 32
        if philox(seed, high, low)[j % 4] >= p * 2**32:
            bits |= 1 << j
    return bits


if __name__ == "__main__":
    queries, keys = BATCH * HEADS * Q_LEN * DIM, BATCH * KV_HEADS * KV_LEN * DIM
    for kind in ("normal", "outliers", "wide", "equal", "rising"):
        hashes = []
        for tensor in range(4):
            count, rows = (keys, KV_LEN) if tensor in (1, 2) else (queries, Q_LEN)
            hashes.append(fnv1a([element(kind, tensor, e, rows) for e in range(count)]))
        answers = ", ".join(f"0x{h:016x}" for h in hashes)
        print(f"    {{ATTN_INPUT_{kind.upper()}, {{{answers}}}}},")
    for p, seed, offset, head, i in (
        (0.5, 1, 0, 0, 0),
        (0.1, 1, 0, 0, 0),
        (0.5, 2**64 - 1, 2**32 - 1, 2**32 - 1, 2**30 - 1),
        (0.5, 0x123456789ABCDEF0, 7, 5, 1000),
    ):
        bits = kept_keys(p, seed, offset, head, i, 64)
        print(f"        {{{p}f, {seed:#x}, {offset}u, {head}u, {i}, {bits:#018x}}},")
