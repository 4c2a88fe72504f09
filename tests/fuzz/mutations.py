"""Inputs for the fuzzer: every sample of every vendor, changed in ways that format readers get wrong. The seed and the
number of an input are enough to make it again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "samples"
_FIELDS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
_WIDE = (*_FIELDS, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 8, (1 << 64) - 1)
_HEADER = 1024
"""Where most headers are: half of all changes go there, or to as much at the end, where section tables are."""

Mutator = Callable[[random.Random, bytearray], None]
Change = Callable[[bytes], bytes]
"""Bytes, changed in some way."""


@cache
def samples() -> tuple[bytes, ...]:
    """The files of all manifests' folders, in a steady order."""
    paths = sorted(path for path in SAMPLES.glob("*/bin/**/*") if path.is_file())
    return tuple(path.read_bytes() for path in paths)


def changed(dice: random.Random, content: bytes) -> bytes:
    """The bytes, changed once or a few times."""
    data = bytearray(content)
    for _ in range((1, 1, 1, 2, 4, 16)[below(dice, 6)]):
        MUTATORS[below(dice, len(MUTATORS))](dice, data)
    return bytes(data)


def below(dice: random.Random, count: int) -> int:
    """A number from 0 to ``count`` - 1, as ``randrange`` makes one in three times as long."""
    return int(dice.random() * count)


def place(dice: random.Random, data: Sequence[int], width: int = 1) -> int:
    """A position at which ``width`` bytes stand (0 where there are fewer): often in the headers, and aligned as often."""
    room = max(len(data) - width, 0)
    first, last = 0, room
    region = below(dice, 4)
    if region == 0:
        last = min(room, _HEADER)
    elif region == 1:
        first = max(room - _HEADER, 0)
    at = first + below(dice, last - first + 1)
    return at - at % width if dice.random() < 0.5 else at


def flip(dice: random.Random, data: bytearray) -> None:
    if data:
        data[place(dice, data)] ^= 1 << below(dice, 8)


def truncate(dice: random.Random, data: bytearray) -> None:
    del data[place(dice, data) :]


def insert(dice: random.Random, data: bytearray) -> None:
    at = place(dice, data)
    data[at:at] = dice.randbytes(dice.choice((1, 4, 8, 64))) if dice.random() < 0.5 else bytes(dice.choice((1, 4, 64)))


def remove(dice: random.Random, data: bytearray) -> None:
    at = place(dice, data)
    del data[at : at + dice.choice((1, 4, 8, 64, 1024))]


def overwrite_32(dice: random.Random, data: bytearray) -> None:
    _put(dice, data, 4, dice.choice(_FIELDS))


def overwrite_64(dice: random.Random, data: bytearray) -> None:
    _put(dice, data, 8, dice.choice(_WIDE))


def grow_count(dice: random.Random, data: bytearray) -> None:
    """A small number, as counts, sizes and offsets are, becomes a little or a lot larger."""
    width = 1 << below(dice, 4)
    for _ in range(32):
        at = place(dice, data, width)
        value = int.from_bytes(data[at : at + width], "little")
        if 0 < value < 1 << 16:
            _put_at(data, at, width, dice.choice((value + 1, value * 2, value * 256, value << 20, value - 1)))
            return


def copy_inside(dice: random.Random, data: bytearray) -> None:
    """A piece of the file over another: records twice, tables that overlap."""
    size = dice.choice((8, 24, 64, 256))
    start, at = place(dice, data, 8), place(dice, data, 8)
    data[at : at + size] = data[start : start + size]


def splice(dice: random.Random, data: bytearray) -> None:
    """The beginning of one sample and the end, or a piece in the same place, of another."""
    other, at = dice.choice(samples()), place(dice, data)
    size = dice.choice((16, 256, 4096, len(other)))
    data[at : at + size] = other[at : at + size]


def repeat(dice: random.Random, data: bytearray) -> None:
    """A piece many times over: long lists."""
    at = place(dice, data)
    data[at:at] = bytes(data[at : at + dice.choice((4, 16, 64))]) * dice.choice((2, 16, 256))


MUTATORS: tuple[Mutator, ...] = (
    flip,
    truncate,
    insert,
    remove,
    overwrite_32,
    overwrite_64,
    grow_count,
    grow_count,
    copy_inside,
    splice,
    repeat,
)


def _put(dice: random.Random, data: bytearray, width: int, value: int) -> None:
    _put_at(data, place(dice, data, width), width, value)


def _put_at(data: bytearray, at: int, width: int, value: int) -> None:
    data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")[: len(data) - at]
