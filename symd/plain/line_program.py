"""The row of a line program (DWARF 5, 6.2.5) that holds an address. Opcodes are told apart by regular expressions, and what those before the row
add to its address and line is added up many at a time."""

from __future__ import annotations

import re
from itertools import pairwise

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
_END_SEQUENCE = b"\0\1\1"
_EXTENDED = 0
_LAST_ADDRESS = 1 << 62
_LARGEST_STEP = 16
_MOST_SEQUENCES = 1 << 14
_LOT = 1024
"""Opcodes that are added up at a time."""
_LOW_BITS = bytes(byte & 0x7F for byte in range(256))
_SIGNS = bytes(byte >> 6 & 1 for byte in range(256))


class Row:
    """A row that holds from ``start`` to ``stop``: file register, line (0: none) and column."""

    __slots__ = ("column", "file", "line", "start", "stop")

    def __init__(self, start: int, stop: int, file: int, line: int, column: int) -> None:
        self.start, self.stop, self.file, self.line, self.column = start, stop, file, line, column


class _Registers:
    """What opcodes change, and the place ``at`` of the next one."""

    __slots__ = ("address", "at", "column", "file", "line")

    def __init__(self, at: int, address: int, file: int, line: int, column: int) -> None:
        self.at, self.address, self.file, self.line, self.column = at, address, file, line, column

    def row_to(self, stop: int) -> Row:
        """The row that holds up to an address."""
        return Row(self.address, stop, self.file, self.line & 0xFFFFFFFF, min(self.column, 0xFFFFFFFF))


class _Sequence:
    """The registers at its first address, and the places of its opcodes, a few at a time: where each lot begins, and where the last one ends."""

    __slots__ = ("first", "lots")

    def __init__(self, first: _Registers, lots: list[int]) -> None:
        self.first, self.lots = first, lots


class LineProgram:
    """``program`` is its bytes; the others are of its header: minimum_instruction_length, line_base, line_range and opcode_base (10 to 13).
    Raises NotPlain where there is more than the opcodes of all compilers, in sequences that begin with an address each."""

    def __init__(self, program: bytes, step: int, line_base: int, line_range: int, opcode_base: int) -> None:
        self._program, self._step, self._line_base, self._opcode_base = program, step, line_base, opcode_base
        opcodes = [max(byte - opcode_base, 0) for byte in range(256)]
        self._lines = bytes(opcode % line_range for opcode in opcodes)
        opcodes[_CONST_ADD_PC] = opcodes[255]
        self._addresses = bytes(opcode // line_range for opcode in opcodes)
        if step > _LARGEST_STEP:
            raise NotPlain
        self._compile()
        self._sequences = self._find_sequences()

    def _compile(self) -> None:
        """The expressions: what may stand in front of the first address of a sequence, up to that; some opcodes; what stands between those
        that add rows; DW_LNS_advance_line and DW_LNS_set_file, one by one; and DW_LNS_set_column likewise."""
        base = self._opcode_base
        single = rb"[\x01\x08\x%02x-\xff]" % base
        flags = rb"[\x06\x07%b]" % b"".join(rb"\x%02x" % opcode for opcode in (10, 11) if opcode < base)
        isa = rb"|\x0c%b" % LEB_EXPRESSION if base > _SET_ISA else b""
        others = rb"%b%b|%b" % (flags, isa, _DISCRIMINATORS)
        column, settings = rb"\x05(%b)" % LEB_EXPRESSION, rb"[\x03\x04]%b" % LEB_EXPRESSION
        operands = rb"[\x03-\x05]%b|%b" % (LEB_EXPRESSION, others)
        self._head = re.compile(rb"(?:%b)*+\x00\x09\x02(.{8})" % operands, re.DOTALL)
        self._some = re.compile(b"(?:%b|%b|%b){1,%d}+" % (single, operands, _ADVANCE, _LOT), re.DOTALL)
        self._between = re.compile(b"(%b)|(?:%b)++" % (_ADVANCE, operands), re.DOTALL)
        self._settings = re.compile(
            rb"(?:%b|\x05%b|%b|%b)*+(?:(%b)|\Z)" % (single, LEB_EXPRESSION, others, _ADVANCE, settings), re.DOTALL
        )
        self._columns = re.compile(
            rb"(?:%b|%b|%b|%b)*+(?:%b|\Z)" % (single, settings, others, _ADVANCE, column), re.DOTALL
        )

    def _find_sequences(self) -> list[_Sequence]:
        """All of them, to the program's end."""
        found: list[_Sequence] = []
        program, at = self._program, 0
        while at < len(program):
            head = self._head.match(program, at)
            if head is None or len(found) >= _MOST_SEQUENCES:
                raise NotPlain
            first = _Registers(at, 0, 1, 1, 0)
            while first.at < head.end():
                self._step_over(first)
            first.address = int.from_bytes(head[1], "little")
            lots = [head.end()]
            while some := self._some.match(program, lots[-1]):
                lots.append(some.end())
            if first.address > _LAST_ADDRESS or not program.startswith(_END_SEQUENCE, lots[-1]):
                raise NotPlain
            found.append(_Sequence(first, lots))
            at = lots[-1] + len(_END_SEQUENCE)
        return found

    def rows_to(self, since: int, address: int) -> list[Row]:
        """The rows from ``since`` on, or from where there are any, up to the one that holds ``address``. Raises NotPlain unless there is that,
        and no other sequence has a part in what they hold."""
        found, others = [], []
        for sequence in self._sequences:
            start = sequence.first.address
            rows = start + 1 if start > address else self._follow(sequence, since, address)
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

    def _follow(self, sequence: _Sequence, since: int, address: int) -> list[Row] | int:
        """The rows of a sequence, as ``rows_to``, or the address where it ends."""
        first, lots = sequence.first, sequence.lots
        passed = [(first.address, first.line)]
        for begin, end in pairwise(lots):
            addresses, lines = self._sums(begin, end)
            if passed[-1][0] + addresses > since:
                break
            passed.append((passed[-1][0] + addresses, passed[-1][1] + lines))
        lot = max(len(passed) - 2, 0)  # the last row before may be of the lot before
        registers = _Registers(lots[lot], passed[lot][0], first.file, passed[lot][1], first.column)
        self._set(registers, lots, lot)
        return self._rows(registers, lots[-1], since, address)

    def _sums(self, begin: int, end: int) -> tuple[int, int]:
        """What opcodes add to the address, and to the line, but for DW_LNS_advance_line."""
        parts = self._between.split(self._program[begin:end])
        rows = b"".join(parts[::2])
        special = len(rows) - rows.count(_COPY) - rows.count(_CONST_ADD_PC)
        addresses = self._step * sum(rows.translate(self._addresses))
        for advance in filter(None, parts[1::2]):
            if advance[0] == _ADVANCE_PC:
                addresses += self._step * uleb(advance, 1)[0]
            else:
                addresses += int.from_bytes(advance[1:], "little")
        return addresses, sum(rows.translate(self._lines)) + self._line_base * special

    def _set(self, registers: _Registers, lots: list[int], lot: int) -> None:
        """What opcodes of the lots before set besides."""
        settings = list(filter(None, self._settings.findall(self._program, lots[0], lots[lot])))
        lines = [each for each in settings if each[0] == _ADVANCE_LINE]
        registers.line += _sum_of_slebs(lines)
        if len(lines) < len(settings):
            registers.file = uleb(next(each for each in reversed(settings) if each[0] == _SET_FILE), 1)[0]
        while lot:
            columns = list(filter(None, self._columns.findall(self._program, lots[lot - 1], lots[lot])))
            if columns:
                registers.column = uleb(columns[-1], 0)[0]
                break
            lot -= 1

    def _rows(self, registers: _Registers, end: int, since: int, address: int) -> list[Row] | int:
        """As ``_follow``, from these registers on."""
        rows: list[Row] = []
        last: _Registers | None = None
        while registers.at < end and (last is None or last.address <= address):
            if self._step_over(registers):
                if last is not None and last.address < registers.address > since:
                    rows.append(last.row_to(registers.address))
                last = _Registers(registers.at, registers.address, registers.file, registers.line, registers.column)
        if last is not None and last.address <= address and last.address < registers.address > since:
            rows.append(last.row_to(registers.address))
        if rows and rows[-1].start <= address < rows[-1].stop:
            return rows
        if registers.at < end:
            raise NotPlain
        return registers.address

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
