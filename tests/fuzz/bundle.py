"""Several strings of bytes as one input, so that a reader of several sections can be fuzzed as a function of bytes. Sizes
that do not fit are cut: every input is a bundle."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from tests.fuzz.mutations import Change, below
from tests.fuzz.target import Mutate


def pack(parts: Sequence[bytes]) -> bytes:
    """The sizes as u32, then the parts."""
    return b"".join(len(part).to_bytes(4, "little") for part in parts) + b"".join(parts)


def unpack(data: bytes, count: int) -> list[bytes]:
    """``count`` parts; the last takes what is left."""
    at, parts = 4 * count, []
    for number in range(count):
        size = int.from_bytes(data[4 * number : 4 * number + 4], "little")
        end = at + size if number < count - 1 else len(data)
        parts.append(data[at:end])
        at = min(end, len(data))
    return parts


def part_of(count: int, chosen: Collection[int] = ()) -> Mutate:
    """Changes one part, one of ``chosen`` where that is given; sizes stay right."""

    def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
        parts = unpack(data, count)
        filled = [number for number, part in enumerate(parts) if part and (not chosen or number in chosen)]
        may = filled or [*chosen] or [0]
        number = may[below(dice, len(may))]
        parts[number] = change(parts[number])
        return pack(parts)

    return mutate
