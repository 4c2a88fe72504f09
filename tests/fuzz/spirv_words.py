"""Changes to SPIR-V modules that know instructions: operands, opcodes and whole instructions change, and what follows still begins
where its reader looks for it."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from itertools import chain

from tests.fuzz.mutations import Change

_MAGIC = 0x07230203
_HEADER = 5
"""Words in front of the first instruction."""
_NUMBERS = (0, 1, 2, 3, 12, 100, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
Instruction = list[int]
"""Its words; the first has the opcode in its low half, and how many words there are in its high half."""


def is_spirv(data: bytes) -> bool:
    return data[:4] == _MAGIC.to_bytes(4, "little")


def mutate(dice: random.Random, data: bytes, change: Change) -> bytes:
    """A module with one to four instructions changed; now and then, and where it is none, any bytes."""
    words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
    instructions = _split(words) if is_spirv(data) else []
    if not instructions or dice.random() < 1 / 4:
        return change(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        _change(dice, instructions, words)
    made = [*words[:_HEADER], *chain.from_iterable(_counted(each) for each in instructions)]
    return struct.pack(f"<{len(made)}I", *made)


def _split(words: Sequence[int]) -> list[Instruction]:
    """As far as instructions have a size."""
    found, at = [], _HEADER
    while at < len(words) and words[at] >> 16:
        found.append(list(words[at : at + (words[at] >> 16)]))
        at += words[at] >> 16
    return found


def _change(dice: random.Random, instructions: list[Instruction], words: Sequence[int]) -> None:
    at = dice.randrange(len(instructions))
    one, other = instructions[at], dice.choice(instructions)
    operand = dice.randrange(1, len(one)) if len(one) > 1 else 0
    what = dice.randrange(8)
    if what < 3 and operand:
        one[operand] = dice.choice((dice.choice(words), dice.choice(_NUMBERS), one[operand] + 1 & 0xFFFFFFFF))
    elif what == 3:
        one[0] = one[0] >> 16 << 16 | other[0] & 0xFFFF
    elif what == 4:
        one.insert(operand + 1, dice.choice(words))
    elif what == 5 and operand:
        del one[operand]
    elif what == 6:
        instructions.insert(dice.randrange(len(instructions)), list(other))
    elif len(instructions) > 1:
        del instructions[at]


def _counted(one: Instruction) -> Instruction:
    """With as many words as it says."""
    return [min(len(one), 0xFFFF) << 16 | one[0] & 0xFFFF, *one[1:]]
