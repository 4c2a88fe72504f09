"""The row of a line program (DWARF 5, 6.2.5) that holds an address. Opcodes are told apart by regular expressions, and what those before the row
add to its address and line is added up many at a time."""

from __future__ import annotations

import re

from symd.model.plain_answers import NotPlain
from symd.plain.abbreviations import LEB_EXPRESSION
from symd.plain.numbers import sleb, uleb

OPERANDS = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
"""standard_opcode_lengths, as all compilers write it."""
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN = 1, 2, 3, 4, 5
_CONST_ADD_PC, _FIXED_ADVANCE_PC, _SET_ISA = 8, 9, 12
_DISCRIMINATORS = rb"\x00(?:\x02\x04.|\x03\x04..|\x04\x04.{3})"
_ADVANCE = rb"\x02[\x80-\xff]{0,3}+[\x00-\x7f]|\x09.."
"""What moves the address and adds no row: not by so much that addresses could wrap."""
_SET_ADDRESS, _END_SEQUENCE = rb"\x00\x09\x02(.{8})", rb"\x00\x01\x01"
_EXTENDED = 0
_LAST_ADDRESS = 1 << 62
_LARGEST_STEP = 16
_MOST_SEQUENCES = 1 << 14
_CHUNK = 1024
"""Opcodes that are added up at a time."""
_LOW_BITS = bytes(byte & 0x7F for byte in range(256))
_SIGNS = bytes(byte >> 6 & 1 for byte in range(256))


class Row:
    """A row that holds from ``start`` to ``stop``: file register, line (0: none) and column."""

    __slots__ = ("column", "file", "line", "start", "stop")

    def __init__(self, start: int, stop: int, file: int, line: int, column: int) -> None:
        self.start, self.stop, self.file, self.line, self.column = start, stop, file, line, column


class _Registers:
    """What opcodes change, and the place ``at`` of the next one; the column may be unknown."""

    __slots__ = ("address", "at", "column", "file", "line")

    def __init__(self, at: int, address: int, file: int, line: int, column: int | None) -> None:
        self.at, self.address, self.file, self.line, self.column = at, address, file, line, column

    def copy(self) -> _Registers:
        return _Registers(self.at, self.address, self.file, self.line, self.column)


class LineProgram:
    """``program`` is its bytes; the others are of its header: minimum_instruction_length, line_base, line_range and opcode_base (10 to 13).
    Raises NotPlain where there is more than the opcodes of all compilers, in sequences that begin with an address each."""

    def __init__(self, program: bytes, step: int, line_base: int, line_range: int, opcode_base: int) -> None:
        self._program, self._step, self._line_base, self._opcode_base = program, step, line_base, opcode_base
        self._line_range = line_range
        opcodes = [max(byte - opcode_base, 0) for byte in range(256)]
        self._lines = bytes(opcode % line_range for opcode in opcodes)
        opcodes[_CONST_ADD_PC] = opcodes[255]
        self._addresses = bytes(opcode // line_range for opcode in opcodes)
        self._compile()
        self._sequences = self._find_sequences()

    def _compile(self) -> None:
        """The expressions: all opcodes but those that begin and end sequences; those that add no row; and these one by one."""
        base = self._opcode_base
        single = b"[\\x01\\x08\\x%02x-\\xff]" % base
        flags = b"[\\x06\\x07%b]" % b"".join(b"\\x%02x" % opcode for opcode in (10, 11) if opcode < base)
        isa = rb"\x0c" if base > _SET_ISA else b""
        column = rb"[\x05%b]%b|%b|%b" % (isa, LEB_EXPRESSION, flags, _DISCRIMINATORS)
        settings = rb"[\x03\x04]%b" % LEB_EXPRESSION
        every = b"%b|%b|%b|%b" % (single, column, settings, _ADVANCE)
        sequence = b"(?:%b|%b)*+%b((?:%b)*+)%b" % (column, settings, _SET_ADDRESS, every, _END_SEQUENCE)
        self._sequence = re.compile(sequence, re.DOTALL)
        self._some = re.compile(b"(?:%b){1,%d}+" % (every, _CHUNK), re.DOTALL)
        self._between = re.compile(b"(?:%b|%b|%b)++" % (column, settings, _ADVANCE), re.DOTALL)
        self._operations = re.compile(rb"(?:%b|%b)*+(?:(%b|%b)|\Z)" % (single, column, settings, _ADVANCE), re.DOTALL)
        self._columns = re.compile(rb"(?:(?!\x05)(?:%b))*+(?:\x05(%b)|\Z)" % (every, LEB_EXPRESSION), re.DOTALL)

    def _find_sequences(self) -> list[tuple[int, int, int, int]]:
        """(where it begins, its first address, where the opcodes after that begin, and end) of each sequence."""
        found: list[tuple[int, int, int, int]] = []
        at = 0
        while at < len(self._program):
            sequence = self._sequence.match(self._program, at)
            if sequence is None or len(found) >= _MOST_SEQUENCES:
                raise NotPlain
            found.append((at, int.from_bytes(sequence[1], "little"), *sequence.span(2)))
            at = sequence.end()
        if self._step > _LARGEST_STEP or any(start > _LAST_ADDRESS for _, start, _, _ in found):
            raise NotPlain
        return found

    def row_at(self, address: int) -> Row:
        """The row that holds an address; as ``rows_to``."""
        return self.rows_to(address, address)[-1]

    def rows_to(self, since: int, address: int) -> list[Row]:
        """The rows from ``since`` on, or from where there are any, up to the one that holds ``address``. Raises NotPlain unless there is that,
        and no other sequence has a part in what they hold."""
        found, others = [], []
        for begin, start, first, end in self._sequences:
            rows = start + 1 if start > address else self._follow(begin, start, first, end, since, address)
            if isinstance(rows, list):
                found.append(rows)
            else:
                others.append((start, rows))
        if len(found) != 1:
            raise NotPlain
        first, last = min(since, found[0][0].start), found[0][-1].stop
        if any(start < last and first < stop for start, stop in others):
            raise NotPlain
        return found[0]

    def _follow(self, begin: int, start: int, first: int, end: int, since: int, address: int) -> list[Row] | int:
        """The rows of a sequence, as ``rows_to``, or the address where it ends."""
        now = self._head(begin, first, start)
        skipped = [now]
        while now.at < end:
            after = now.copy()
            self._skip(after, end)
            if after.address > since:
                break
            skipped, now = [*skipped[-2:], after], after
        return self._rows(skipped, end, since, address)

    def _head(self, begin: int, first: int, start: int) -> _Registers:
        """What is set in front of the first address."""
        registers = _Registers(begin, 0, 1, 1, 0)
        while registers.at < first:
            self._step_over(registers)
        registers.address = start
        return registers

    def _skip(self, registers: _Registers, end: int) -> None:
        """Pass some opcodes at once. The column is not known after them."""
        some = self._some.match(self._program, registers.at, end)
        if some is None:
            raise NotPlain
        rows = b"".join(self._between.split(some[0]))
        special = len(rows) - rows.count(_COPY) - rows.count(_CONST_ADD_PC)
        registers.address += self._step * sum(rows.translate(self._addresses))
        registers.line += sum(rows.translate(self._lines)) + self._line_base * special
        lines = []
        for operation in self._operations.findall(some[0]):
            if operation[:1] == b"\3":
                lines.append(operation)
            elif operation:
                self._set(registers, operation)
        registers.line += _sum_of_slebs(lines)
        registers.at, registers.column = some.end(), None

    def _set(self, registers: _Registers, operation: bytes) -> None:
        """One opcode with its operand: DW_LNS_set_file, DW_LNS_advance_pc or DW_LNS_fixed_advance_pc."""
        if operation[0] == _SET_FILE:
            registers.file = uleb(operation, 1)[0]
        elif operation[0] == _ADVANCE_PC:
            registers.address += self._step * uleb(operation, 1)[0]
        else:
            registers.address += int.from_bytes(operation[1:], "little")

    def _rows(self, skipped: list[_Registers], end: int, since: int, address: int) -> list[Row] | int:
        """As ``_follow``: the rows begin after the last but one of the places up to which opcodes were passed."""
        registers = skipped[-2 if len(skipped) > 1 else -1].copy()
        if registers.column is None:
            columns = [found for found in self._columns.findall(self._program, skipped[0].at, registers.at) if found]
            registers.column = uleb(columns[-1], 0)[0] if columns else skipped[0].column
        rows: list[Row] = []
        last: _Registers | None = None
        while registers.at < end and (last is None or last.address <= address):
            if self._step_over(registers):
                self._add(rows, last, registers.address, since)
                last = registers.copy()
        if last is None or last.address <= address:
            self._add(rows, last, registers.address, since)
        if rows and rows[-1].start <= address < rows[-1].stop:
            return rows
        if registers.at < end:
            raise NotPlain
        return registers.address

    def _add(self, rows: list[Row], row: _Registers | None, stop: int, since: int) -> None:
        """What a row holds up to ``stop``, where that is not nothing and lies behind ``since``."""
        if row is not None and row.address < stop > since:
            if row.column is None:
                raise NotPlain
            rows.append(Row(row.address, stop, row.file, row.line & 0xFFFFFFFF, min(row.column, 0xFFFFFFFF)))

    def _step_over(self, registers: _Registers) -> bool:
        """Do what one opcode says; whether it adds a row."""
        program, at = self._program, registers.at
        opcode = program[at]
        registers.at = at = at + 1
        if opcode >= self._opcode_base:
            registers.address += self._step * self._addresses[opcode]
            registers.line += self._line_base + self._lines[opcode]
        elif opcode == _CONST_ADD_PC:
            registers.address += self._step * self._addresses[opcode]
        elif opcode == _ADVANCE_PC:
            advance, registers.at = uleb(program, at)
            registers.address += self._step * advance
        elif opcode == _FIXED_ADVANCE_PC:
            registers.address += int.from_bytes(program[at : at + 2], "little")
            registers.at += 2
        elif opcode == _ADVANCE_LINE:
            advance, registers.at = sleb(program, at)
            registers.line += advance
        elif opcode == _SET_FILE:
            registers.file, registers.at = uleb(program, at)
        elif opcode == _SET_COLUMN:
            registers.column, registers.at = uleb(program, at)
        elif opcode == _SET_ISA:
            _, registers.at = uleb(program, at)
        elif opcode == _EXTENDED:
            size, at = uleb(program, at)
            registers.at = at + size
        return opcode >= self._opcode_base or opcode == _COPY


def _sum_of_slebs(operations: list[bytes]) -> int:
    """The sum of the signed LEB128 behind the first byte of each."""
    total = 0
    for size in {len(operation) for operation in operations}:
        joined = b"".join([operation for operation in operations if len(operation) == size])
        for place in range(1, size):
            total += sum(joined[place::size].translate(_LOW_BITS)) << 7 * (place - 1)
        total -= sum(joined[size - 1 :: size].translate(_SIGNS)) << 7 * (size - 1)
    return total
