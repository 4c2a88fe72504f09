"""SPIR-V modules. Here is their word stream: header, instructions as columns, strings, constants, debug instructions.
Instructions are told apart by their word counts alone; operands are looked at by who needs them. Nothing in the package
knows a container.

Source: SPIR-V 1.6, "Physical Layout of a SPIR-V Module and Instruction" and "Binary Form"."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from functools import cached_property
from struct import pack

from symd.core import spirv_words as core
from symd.errors import Malformed
from symd.formats.spirv.grammar import (
    DEBUG_SETS,
    MAGIC,
    DebugSet,
    Decoration,
    FunctionParameterAttribute,
    Op,
    is_unknown,
)
from symd.model.light_typing import NamedTuple
from symd.model.texts import counted

HEADER_WORDS = 5
_NOTHING: array[int] = array("I")


class Words:
    """A module as columns. ``words`` (u32) are in host order whatever the file's; an instruction is its number in the
    equally long columns ``start`` (word index), ``opcode`` and ``count`` (words, the first included). ``problem`` tells
    why the split ended early ("" when it did not) and ``problem_at`` is that byte offset."""

    def __init__(self, words: array[int], *, swapped: bool, rest: int) -> None:
        """``rest`` is how many bytes of another word there are."""
        self.words, self.swapped = words, swapped
        self.start, self.opcode, self.count, stop = core.split(words, HEADER_WORDS)
        self.columns = words, self.start, self.opcode, self.count
        """The instructions as the core takes them: words, and where each begins and how long it is."""
        self.end = (self.start[-1] + self.count[-1]) * 4 if self.start else HEADER_WORDS * 4
        """The byte offset after the last whole instruction."""
        self.problem, self.problem_at = "", 0
        if stop < len(words):
            self.problem, self.problem_at = _why(words[stop] >> 16, len(words) - stop), 4 * stop
        elif rest:
            self.problem, self.problem_at = f"the file ends with {counted(rest, 'byte')} of a word", 4 * len(words)

    @property
    def version(self) -> tuple[int, int]:
        word = self.words[1]
        return (word >> 16) & 0xFF, (word >> 8) & 0xFF

    @property
    def generator(self) -> int:
        return self.words[2]

    def __len__(self) -> int:
        return len(self.start)

    def offset(self, number: int) -> int:
        """The instruction's byte offset; the end of the module for the number after the last."""
        return self.start[number] * 4 if number < len(self.start) else self.end

    def operands(self, number: int) -> list[int]:
        start = self.start[number]
        return self.words[start + 1 : start + self.count[number]].tolist()

    def where(self, *opcodes: int) -> list[int]:
        """The numbers of all instructions with one of these opcodes, ascending."""
        found = [number for opcode in set(opcodes) for number in self._numbers_of(opcode)]
        return found if len(opcodes) == 1 else sorted(found)

    def _numbers_of(self, opcode: int) -> array[int]:
        order, first = self._by_opcode
        return order[first[opcode] : first[opcode + 1]] if opcode + 1 < len(first) else _NOTHING

    @cached_property
    def _by_opcode(self) -> tuple[array[int], array[int]]:
        return core.by_opcode(self.opcode)

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
        for number in self.debug_numbers(*opcodes):
            ops = self.operands(number)
            yield DebugInstruction(number, ops[1], ops[3], tuple(ops[4:]), self.debug_sets[ops[2]])

    def debug_numbers(self, *opcodes: int) -> array[int]:
        """The numbers of the instructions that ``debug_instructions`` gives."""
        if not self.debug_sets:
            return _NOTHING
        table = bytearray(max(opcodes, default=-1) + 1)
        for opcode in opcodes:
            table[opcode] = 1
        return core.of_sets(
            self.words, self.start, self.count, self._numbers_of(Op.ExtInst), self.debug_sets, bytes(table)
        )


class DebugInstruction(NamedTuple):
    """``number`` counts instructions; ``operands`` follow the instruction number; ``layout`` is the version of its
    set."""

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
    rest = len(data) % 4
    words = array("I")
    words.frombytes(memoryview(data)[: len(data) - rest])
    if swapped == (sys.byteorder == "little"):
        words.byteswap()
    return Words(words, swapped=swapped, rest=rest)


def parse(data: bytes) -> Words:
    """Split a module; raises Malformed, naming the byte offset, where it does not split to its end."""
    module = split(data)
    if module.problem:
        raise Malformed(f"at byte {module.problem_at}: {module.problem}", hint="the file is damaged or was cut off")
    return module


def _why(size: int, left: int) -> str:
    """Why an instruction of so many words is none where so many are left."""
    if not size:
        return "an instruction has word count 0"
    return f"an instruction of {counted(size, 'word')} ends {counted(size - left, 'word')} past the file"


def text(operands: list[int]) -> tuple[str, int]:
    """A literal string and the number of operands it takes: UTF-8, NUL-terminated, lowest byte first in each word."""
    data = pack(f"<{len(operands)}I", *operands)
    end = data.find(b"\0")
    if end < 0:
        return data.decode("utf-8", "replace"), len(operands)
    return data[:end].decode("utf-8", "replace"), end // 4 + 1


def by_value_parameters(words: Words) -> frozenset[int]:
    """Ids of parameters that clang passes by value through a private pointer (OpDecorate FuncParamAttr ByVal)."""
    meant = [Decoration.FuncParamAttr, FunctionParameterAttribute.ByVal]
    return frozenset(ops[0] for _, ops in words.each(Op.Decorate) if ops[1:3] == meant)
