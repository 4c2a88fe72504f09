"""The word stream of a SPIR-V module: header, instructions as columns, strings, constants, debug instructions. Instructions
are told apart by their word counts alone; operands are looked at by who needs them.

Source: SPIR-V 1.6, "Physical Layout of a SPIR-V Module and Instruction" and "Binary Form"."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from symd.errors import Malformed
from symd.formats.spirv.debug_sets import DEBUG_SETS, DebugSet, is_unknown
from symd.formats.spirv.grammar import MAGIC, Op
from symd.model.columns import I64, U32, U64
from symd.model.texts import counted

HEADER_WORDS = 5
_COMPARED_ONE_BY_ONE = 16
"""So many numbers are looked for one after another."""
_FEW_INSTRUCTIONS = 256
"""So many are sorted by opcode one after another."""


@dataclass(frozen=True)
class Words:
    """A module as columns. ``words`` are in host order whatever the file's; an instruction is its number in the equally
    long columns ``start`` (word index), ``opcode`` and ``count`` (words, the first included). ``problem`` tells why the
    split ended early ("" when it did not) and ``problem_at`` is that byte offset."""

    words: U32 = field(repr=False)
    swapped: bool
    start: I64 = field(repr=False)
    opcode: U32 = field(repr=False)
    count: U32 = field(repr=False)
    problem: str = ""
    problem_at: int = 0

    @property
    def version(self) -> tuple[int, int]:
        word = int(self.words[1])
        return (word >> 16) & 0xFF, (word >> 8) & 0xFF

    @property
    def generator(self) -> int:
        return int(self.words[2])

    def __len__(self) -> int:
        return len(self.start)

    def offset(self, number: int) -> int:
        """The instruction's byte offset; the end of the module for the number after the last."""
        return int(self.start[number]) * 4 if number < len(self) else self.end

    @property
    def end(self) -> int:
        """The byte offset after the last whole instruction."""
        return int(self.start[-1] + self.count[-1]) * 4 if len(self) else HEADER_WORDS * 4

    @property
    def offsets(self) -> U64:
        """The byte offset of every instruction, and that of the end after the last."""
        return np.append(self.start.astype(np.uint64) * np.uint64(4), np.uint64(self.end))

    def operands(self, number: int) -> list[int]:
        start = self.start.item(number)
        result: list[int] = self.words[start + 1 : start + self.count.item(number)].tolist()
        return result

    def where(self, *opcodes: int) -> list[int]:
        """The numbers of all instructions with one of these opcodes, ascending."""
        few = self._few_by_opcode
        if len(opcodes) == 1:
            return few.get(opcodes[0], [])[:] if few is not None else self._numbers_of(opcodes[0])
        every = (few.get(each, []) if few is not None else self._numbers_of(each) for each in set(opcodes))
        return sorted(chain.from_iterable(every))

    def _numbers_of(self, opcode: int) -> list[int]:
        order, places = self._by_opcode
        place = places.get(opcode)
        found: list[int] = [] if place is None else order[place].tolist()
        return found

    @cached_property
    def _few_by_opcode(self) -> dict[int, list[int]] | None:
        """The numbers of all instructions by their opcodes where there are few: in a fraction of the time of ``_by_opcode``."""
        if len(self.start) > _FEW_INSTRUCTIONS:
            return None
        found: dict[int, list[int]] = {}
        for number, opcode in enumerate(self.opcode.tolist()):
            found.setdefault(opcode, []).append(number)
        return found

    @cached_property
    def _by_opcode(self) -> tuple[I64, dict[int, slice]]:
        """The numbers of all instructions by their opcodes, and where those of an opcode stand."""
        order = np.argsort(self.opcode.astype(np.uint16), kind="stable")
        opcodes = self.opcode[order]
        first = np.flatnonzero(opcodes[1:] != opcodes[:-1]) + 1
        edges = [0, *first.tolist(), len(opcodes)]
        found = (slice(*edge) for edge in pairwise(edges))
        return order, {opcodes.item(place.start): place for place in found if place.stop}

    def each(self, *opcodes: int) -> Iterator[tuple[int, list[int]]]:
        """(number, operands) of all instructions with one of these opcodes."""
        return ((number, self.operands(number)) for number in self.where(*opcodes))

    @cached_property
    def imports(self) -> dict[int, str]:
        """Names of the extended instruction sets by id."""
        return {ops[0]: text(ops[1:])[0] for _, ops in self.each(Op.ExtInstImport) if ops}

    @cached_property
    def strings(self) -> dict[int, str]:
        """OpString contents by id."""
        return {ops[0]: text(ops[1:])[0] for _, ops in self.each(Op.String) if ops}

    @cached_property
    def names(self) -> dict[int, str]:
        """OpName contents by target id; the first name of an id stays."""
        found: dict[int, str] = {}
        for _, ops in self.each(Op.Name):
            if len(ops) > 1:
                found.setdefault(ops[0], text(ops[1:])[0])
        return found

    @cached_property
    def constants(self) -> dict[int, int]:
        """The low word of every OpConstant, by id: the literal of a debug operand, a scope, a size."""
        return {ops[1]: ops[2] for _, ops in self.each(Op.Constant) if len(ops) > 2}

    @cached_property
    def debug_sets(self) -> dict[int, DebugSet]:
        """The imported debug sets that are read, by id."""
        return {number: DEBUG_SETS[name] for number, name in self.imports.items() if name in DEBUG_SETS}

    @property
    def unknown_debug_sets(self) -> list[str]:
        """Names of imported debug sets that are not read."""
        return [name for name in self.imports.values() if is_unknown(name)]

    def debug_instructions(self, *opcodes: int) -> Iterator[DebugInstruction]:
        """The OpExtInst of a debug set with one of these instruction numbers (all without), in order."""
        for number in self._debug_numbers(opcodes):
            ops = self.operands(number)
            yield DebugInstruction(number, ops[1], ops[3], tuple(ops[4:]), self.debug_sets[ops[2]])

    def _debug_numbers(self, opcodes: tuple[int, ...]) -> list[int]:
        if not self.debug_sets:
            return []
        numbers = np.flatnonzero((self.opcode == Op.ExtInst) & (self.count >= 5))
        at = self.start[numbers]
        wanted = _one_of(self.words[at + 3], tuple(self.debug_sets))
        if opcodes:
            wanted &= _one_of(self.words[at + 4], opcodes)
        found: list[int] = numbers[wanted].tolist()
        return found

    def value(self, operands: tuple[int, ...], at: int, by_id: bool) -> int:
        """A number among the operands of a debug instruction; 0 where it is missing or is no plain constant."""
        if at >= len(operands):
            return 0
        return self.constants.get(operands[at], 0) if by_id else operands[at]


@dataclass(frozen=True, slots=True)
class DebugInstruction:
    """``number`` counts instructions; ``operands`` follow the instruction number; ``layout`` is the version of its set."""

    number: int
    id: int
    opcode: int
    operands: tuple[int, ...]
    layout: DebugSet


def claims(data: bytes) -> bool:
    """Whether the first word is SPIR-V's magic number in either byte order."""
    return len(data) >= 4 and MAGIC in (int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big"))


def split(data: bytes) -> Words:
    """Split a module into instructions as far as that is possible, and say in ``problem`` where it is not. Raises
    Malformed only without a whole header."""
    if not claims(data):
        raise Malformed("is not a SPIR-V module: the first word is not 0x07230203 in either byte order")
    if len(data) < HEADER_WORDS * 4:
        raise Malformed(f"the file ends inside the SPIR-V header, at byte {len(data)}")
    swapped = int.from_bytes(data[:4], "big") == MAGIC
    words = np.frombuffer(data, ">u4" if swapped else "<u4", len(data) // 4).astype(np.uint32)
    starts, problem = _starts((words >> 16).tolist())
    start = np.array(starts, np.int64)
    problem_at = 4 * (int(start[-1]) + int(words[start[-1]] >> 16) if starts else HEADER_WORDS) if problem else 0
    if not problem and (rest := len(data) % 4):
        problem, problem_at = f"the file ends with {counted(rest, 'byte')} of a word", len(words) * 4
    head = words[start]
    opcode, count = (head & 0xFFFF).astype(np.uint32), (head >> 16).astype(np.uint32)
    return Words(words, swapped, start, opcode, count, problem, problem_at)


def parse(data: bytes) -> Words:
    """Split a module; raises Malformed, naming the byte offset, where it does not split to its end."""
    module = split(data)
    if module.problem:
        raise Malformed(f"at byte {module.problem_at}: {module.problem}", hint="the file is damaged or was cut off")
    return module


def _starts(counts: list[int]) -> tuple[list[int], str]:
    """Word indexes of the instructions, and what stopped the walk."""
    starts: list[int] = []
    at, end = HEADER_WORDS, len(counts)
    while at < end:
        count = counts[at]
        if not count:
            return starts, "an instruction has word count 0"
        if at + count > end:
            past = counted(at + count - end, "word")
            return starts, f"an instruction of {counted(count, 'word')} ends {past} past the file"
        starts.append(at)
        at += count
    return starts, ""


def _one_of(column: U32, numbers: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which entries are one of a few numbers: of small modules, in a fraction of the time of ``np.isin``."""
    if len(numbers) > _COMPARED_ONE_BY_ONE:
        return np.isin(column, numbers)
    found: NDArray[np.bool_] = column == numbers[0]
    for number in numbers[1:]:
        found |= column == number
    return found


def text(operands: list[int]) -> tuple[str, int]:
    """A literal string and the number of operands it takes: UTF-8, NUL-terminated, lowest byte first in each word."""
    data = struct.pack(f"<{len(operands)}I", *operands)
    end = data.find(b"\0")
    if end < 0:
        return data.decode("utf-8", "replace"), len(operands)
    return data[:end].decode("utf-8", "replace"), end // 4 + 1
