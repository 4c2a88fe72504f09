"""Changes to SPIR-V modules that know instructions: operands, opcodes and whole instructions change, and what follows still begins
where its reader looks for it."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from functools import lru_cache

from tests.fuzz.mutations import Change, below

_MAGIC = 0x07230203
_HEADER = 5
"""Words in front of the first instruction."""
HEADER_BYTES = 4 * _HEADER
_NUMBERS = (0, 1, 2, 3, 12, 100, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_LARGEST_KNOWN = 1 << 16
"""Bytes of a module of which is kept what was read."""


def is_spirv(data: bytes) -> bool:
    return data[:4] == _MAGIC.to_bytes(4, "little")


def extent(data: bytes) -> int:
    """Bytes of the header, and of the instructions behind it as far as they have a size."""
    _, instructions = _split(data) if len(data) <= _LARGEST_KNOWN else _split.__wrapped__(data)
    return min(len(data), HEADER_BYTES + sum(map(len, instructions)))


def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
    """A module with one to four instructions changed; now and then, and where it is none, any bytes."""
    if not is_spirv(data) or dice.random() < 1 / 4:
        return change(data)
    words, kept = _split(data) if len(data) <= _LARGEST_KNOWN else _split.__wrapped__(data)
    if not kept:
        return change(data)
    instructions = list(kept)
    for _ in range((1, 1, 2, 4)[below(dice, 4)]):
        _change(dice, instructions, words)
    return data[:HEADER_BYTES] + b"".join(instructions)


@lru_cache(maxsize=256)
def _split(data: bytes) -> tuple[Sequence[int], Sequence[bytes]]:
    """The words, and the instructions as far as they have a size. Most modules that are changed are one of a few seeds: what was
    read of them is kept."""
    words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
    found, at = [], _HEADER
    while at < len(words) and words[at] >> 16:
        end = at + (words[at] >> 16)
        found.append(data[4 * at : 4 * min(end, len(words))])
        at = end
    return words, found


def _change(dice: random.Random, instructions: list[bytes], words: Sequence[int]) -> None:
    """One instruction is another; the first of its words has the opcode in its low half, and how many words there are in its high half."""
    at = below(dice, len(instructions))
    one = [*struct.unpack(f"<{len(instructions[at]) // 4}I", instructions[at])]
    other = instructions[below(dice, len(instructions))]
    operand = 1 + below(dice, len(one) - 1) if len(one) > 1 else 0
    what = below(dice, 8)
    if what < 3 and operand:
        any_word, any_number = words[below(dice, len(words))], _NUMBERS[below(dice, len(_NUMBERS))]
        one[operand] = (any_word, any_number, one[operand] + 1 & 0xFFFFFFFF)[below(dice, 3)]
    elif what == 3:
        one[0] = one[0] >> 16 << 16 | int.from_bytes(other[:2], "little")
    elif what == 4:
        one.insert(operand + 1, words[below(dice, len(words))])
    elif what == 5 and operand:
        del one[operand]
    if what < 6:
        instructions[at] = _counted(one)
    elif what == 6:
        instructions.insert(below(dice, len(instructions)), other)
    elif len(instructions) > 1:
        del instructions[at]


def _counted(one: Sequence[int]) -> bytes:
    """The words of an instruction, of which the first says how many there are."""
    return struct.pack(f"<{len(one)}I", min(len(one), 0xFFFF) << 16 | one[0] & 0xFFFF, *one[1:])
