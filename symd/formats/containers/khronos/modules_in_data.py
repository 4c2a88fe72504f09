"""SPIR-V modules among the data of a host program: Vulkan programs keep their shaders as arrays, in no section of their own and
in no table.

A module begins with its header (magic number, version, generator, a bound that is not 0, schema 0) and an OpCapability, and has
no length. It ends behind its last OpFunctionEnd, and behind what may follow that in a module: instructions of non-semantic sets.
The next header ends it at the latest, so that every byte is walked once.

Source: SPIR-V 1.6, 2.3 "Physical Layout of a SPIR-V Module and Instruction" and 2.4 "Logical Layout of a Module"."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from symd.formats.budget import Budget
from symd.formats.containers.file_part import FilePart
from symd.formats.spirv.grammar import Op
from symd.formats.spirv.words import HEADER_WORDS

LARGEST: Final = 64 << 20
"""Bytes of a module that are looked at; a longer one is not found."""
_HEADER = re.compile(rb"\x03\x02\x23\x07\x00[\x00-\x06]\x01\x00.{4}(?!\x00{4}).{4}\x00{4}\x11\x00\x02\x00", re.DOTALL)
"""Versions 1.0 to 1.6, in the byte order of all hosts whose images are read."""
_HEADER_BYTES = 24
_PIECE = 32 << 20
"""Bytes that are searched at a time."""
_WORD = 4
_HEAD = struct.Struct("<HH")
"""An instruction's opcode and the number of its words."""
_FUNCTION, _FUNCTION_END = int(Op.Function), int(Op.FunctionEnd)
_EXT_INST_IMPORT, _EXT_INST = int(Op.ExtInstImport), int(Op.ExtInst)
_EXT_INST_BYTES = 5 * _WORD
"""Bytes that every OpExtInst has: type, result, set, and the number of the instruction in it."""
_LINES = frozenset((int(Op.Line), int(Op.NoLine)))
_NON_SEMANTIC = b"NonSemantic."


class FoundModules(NamedTuple):
    """Where modules are, in order, and how many headers begin none."""

    extents: tuple[slice, ...]
    headers_alone: int


def modules_in(data: FilePart, name: str, budget: Budget) -> FoundModules:
    """The modules in a section's content; every header counts as an element. Raises LimitExceeded."""
    starts = []
    for start in _headers(data):
        budget.count_elements(name)
        starts.append(start)
    found = []
    for start, following in pairwise([*starts, len(data)]):
        size = _size(data[start : min(following, start + LARGEST)])
        if size:
            found.append(slice(start, start + size))
    return FoundModules(tuple(found), len(starts) - len(found))


def _headers(data: FilePart) -> Iterator[int]:
    for at in range(0, len(data), _PIECE):
        piece = data[at : at + _PIECE + _HEADER_BYTES - 1]
        yield from (at + found.start() for found in _HEADER.finditer(piece))


def _size(data: bytes) -> int:
    """Bytes of the module that ``data`` begins with; 0 where no function of it ends."""
    inside, end = False, 0
    sets: set[int] = set()
    for at, opcode, after in _instructions(data):
        if inside:
            if opcode == _FUNCTION_END:
                inside, end = False, after
        elif opcode == _FUNCTION:
            inside = True
        elif not end:
            if opcode == _EXT_INST_IMPORT and data[at + 8 : after].startswith(_NON_SEMANTIC):
                sets.add(_word(data, at + 4))
        elif opcode == _EXT_INST and after - at >= _EXT_INST_BYTES and _word(data, at + 12) in sets:
            end = after
        elif opcode not in _LINES:
            break
    return end


def _instructions(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(byte, opcode, byte behind it) of each instruction that is whole."""
    at, size = HEADER_WORDS * _WORD, len(data)
    head = _HEAD.unpack_from
    while at + _WORD <= size:
        opcode, count = head(data, at)
        after = at + count * _WORD
        if not count or after > size:
            return
        yield at, opcode, after
        at = after


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + _WORD], "little")
