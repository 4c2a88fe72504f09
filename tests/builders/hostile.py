"""Bytes that no compiler wrote: every reader must answer them with a clear error or an answer, nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator


def truncations(data: bytes, step: int = 64) -> Iterator[bytes]:
    """``data`` cut at 0, ``step``, 2 * ``step``, ... bytes; never the whole of it."""
    return (data[:at] for at in range(0, len(data), step))


def flips(data: bytes, seed: int, count: int = 100, bits: int = 8) -> Iterator[bytes]:
    """``count`` copies with one to ``bits`` bits flipped, always the same ones for a seed; one in eight gets the extreme
    bytes 0x00, 0x7f, 0x80 or 0xff over a field of 1, 2, 4 or 8 bytes instead."""
    chance = random.Random(seed)
    for _ in range(count if data else 0):
        changed = bytearray(data)
        if chance.random() < 1 / 8:
            width = min(chance.choice((1, 2, 4, 8)), len(data))
            at = chance.randrange(len(data) - width + 1)
            changed[at : at + width] = bytes([chance.choice((0x00, 0x7F, 0x80, 0xFF))]) * width
        else:
            for place in chance.sample(range(len(data) * 8), k=min(chance.randint(1, bits), len(data) * 8)):
                changed[place // 8] ^= 1 << place % 8
        yield bytes(changed)


def random_bytes(seed: int, size: int, prefix: bytes = b"") -> bytes:
    """Noise of ``size`` bytes in all, after a ``prefix`` such as a magic number."""
    return (prefix + random.Random(seed).randbytes(max(0, size - len(prefix))))[:size]
