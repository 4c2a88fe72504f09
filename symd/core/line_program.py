# cython: language_level=3, boundscheck=True, wraparound=False
"""Line programs (DWARF 5, 6.2) -> line rows: the state machine of the standard, instruction by instruction.

Arithmetic is modulo 2**64, as in the registers of the machines that the rows describe, compiled or not."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import cython

from symd.model.light_typing import Any, NamedTuple

if cython.compiled:
    from cython.cimports.symd.core.byte_reader import ByteReader
else:
    from symd.core.byte_reader import ByteReader


_U32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)

# Standard opcodes (7.22); 0 begins an extended one.
_EXTENDED = cython.declare(cython.int, 0x00)
_COPY = cython.declare(cython.int, 0x01)
_ADVANCE_PC = cython.declare(cython.int, 0x02)
_ADVANCE_LINE = cython.declare(cython.int, 0x03)
_SET_FILE = cython.declare(cython.int, 0x04)
_SET_COLUMN = cython.declare(cython.int, 0x05)
_NEGATE_STMT = cython.declare(cython.int, 0x06)
_SET_BASIC_BLOCK = cython.declare(cython.int, 0x07)
_CONST_ADD_PC = cython.declare(cython.int, 0x08)
_FIXED_ADVANCE_PC = cython.declare(cython.int, 0x09)
_SET_PROLOGUE_END = cython.declare(cython.int, 0x0A)
_SET_EPILOGUE_BEGIN = cython.declare(cython.int, 0x0B)
_SET_ISA = cython.declare(cython.int, 0x0C)
# Extended opcodes (7.22), and NVIDIA's.
_END_SEQUENCE = cython.declare(cython.int, 0x01)
_SET_ADDRESS = cython.declare(cython.int, 0x02)
_DEFINE_FILE = cython.declare(cython.int, 0x03)
_INLINED_CALL = cython.declare(cython.int, 0x90)

# Bits of ``symd.model.debug_info.RowFlag``.
_IS_STMT = cython.declare(cython.int, 1)
_BASIC_BLOCK = cython.declare(cython.int, 2)
_ENDS = cython.declare(cython.int, 4)
_PROLOGUE_END = cython.declare(cython.int, 8)
_EPILOGUE_BEGIN = cython.declare(cython.int, 16)
_IMPLIED = cython.declare(cython.int, 32)
_NAMED = cython.declare(cython.int, 64)
NAMED = 64
"""A bit of the flags of a row for which the inlined call was set; it is gone when calls are resolved."""

_MIN_GROWTH = 64
_GUESSED_CAPACITY = 1024
"""Rows for which memory is taken at once where the rest of the section may have as many: a row takes some four
bytes."""


@cython.cclass
class ProgramParameters:
    """Everything of a line table's header that the meaning of instructions depends on (DWARF 5, 6.2.4). ``line_range``
    and ``max_ops``, which numbers are divided by, are not 0, nor is ``opcode_base``. ``operand_counts`` are
    standard_opcode_lengths: entry i belongs to opcode i + 1."""

    opcode_base = cython.declare(cython.int, visibility="readonly")
    line_base = cython.declare(cython.int, visibility="readonly")
    line_range = cython.declare(cython.int, visibility="readonly")
    min_inst_length = cython.declare(cython.int, visibility="readonly")
    max_ops = cython.declare(cython.int, visibility="readonly")
    default_is_stmt = cython.declare(cython.bint, visibility="readonly")
    operand_counts = cython.declare(bytes, visibility="readonly")

    def __init__(
        self,
        opcode_base: int,
        line_base: int,
        line_range: int,
        min_inst_length: int,
        max_ops: int,
        default_is_stmt: bool,
        operand_counts: bytes,
    ) -> None:
        self.opcode_base, self.line_base, self.line_range = opcode_base, line_base, line_range
        self.min_inst_length, self.max_ops = min_inst_length, max_ops
        self.default_is_stmt, self.operand_counts = default_is_stmt, operand_counts


class ObjectRows(NamedTuple):
    """Views into columns of ``LineProgramRows``: the rows of one object, and its sequences."""

    address: Any
    file: Any
    line: Any
    flags: Any
    context: Any
    name: Any
    ends: Any
    program: Any


@cython.cclass
class LineProgramRows(ByteReader):
    """The rows of line programs that are run one after the other, as equally long arrays, of which the first ``count``
    entries are rows: ``address`` u64; ``file`` (the register) and ``column`` u32, which stop at the largest u32;
    ``line`` u32, modulo 2**32; ``flags`` u8, bits of ``symd.model.debug_info.RowFlag`` and ``NAMED``. ``ends`` (i64)
    has the row number after each sequence, ``program`` (u32) the number of its program. ``context`` (row number inside
    the sequence, from 1) and ``name`` (offset from the header's base) are u64, of NVIDIA's inlined calls; they are
    empty where no program sets them.

    Objects may follow each other: ``ends`` count from the ``first`` row of a sequence's own object, and ``context`` and
    ``name`` are there for the object that was opened last.

    Rows that NVIDIA's assembler leaves out are here, too, with the flag ``IMPLIED``: ``_run`` has the rule.

    Threads may not share one.
    """

    address = cython.declare(object, visibility="readonly")
    file = cython.declare(object, visibility="readonly")
    line = cython.declare(object, visibility="readonly")
    column = cython.declare(object, visibility="readonly")
    flags = cython.declare(object, visibility="readonly")
    context = cython.declare(object, visibility="readonly")
    name = cython.declare(object, visibility="readonly")
    ends = cython.declare(object, visibility="readonly")
    program = cython.declare(object, visibility="readonly")
    count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    first = cython.declare(cython.Py_ssize_t, visibility="readonly")

    _first_sequence = cython.declare(cython.Py_ssize_t)
    _check_rows = cython.declare(object)
    _check_files = cython.declare(object)
    _capacity = cython.declare(cython.Py_ssize_t)
    _addresses = cython.declare(cython.ulonglong[::1])
    _files = cython.declare(cython.uint[::1])
    _lines = cython.declare(cython.uint[::1])
    _columns = cython.declare(cython.uint[::1])
    _flags = cython.declare(cython.uchar[::1])
    _contexts = cython.declare(cython.ulonglong[::1])
    _names = cython.declare(cython.ulonglong[::1])
    _has_calls = cython.declare(cython.bint)

    def __init__(
        self,
        data: bytes,
        section: str,
        check_rows: Callable[[int], object] | None = None,
        check_files: Callable[[int], object] | None = None,
    ) -> None:
        """``data`` is the section called ``section``. ``check_rows`` is told how many rows there will be at least
        whenever the arrays grow, ``check_files`` that so many more files are defined; both may raise."""
        self.section = section
        self._check_rows = check_rows
        self.count = 0
        self._has_calls = False
        self.address, self.flags = array("Q"), array("B")
        self.file, self.line, self.column = array("I"), array("I"), array("I")
        self.context = self.name = _NO_CALLS
        self.ends, self.program = array("q"), array("I")
        self._capacity = 0
        self._release_views()
        self.open(data, check_files)

    def open(self, data: bytes, check_files: Callable[[int], object] | None = None) -> None:
        """Go on with the programs of another object, whose section of the same name ``data`` is; the rows so far
        stay."""
        self.data, self._check_files = data, check_files
        self.first, self._first_sequence = self.count, len(self.ends)
        if self._has_calls:
            self._end_calls()

    def of_this_object(self) -> ObjectRows:
        """The rows of the object that was opened last. No rows can be added as long as somebody has them."""
        own = slice(self.first, self.count)
        return ObjectRows(
            memoryview(self.address)[own],
            memoryview(self.file)[own],
            memoryview(self.line)[own],
            memoryview(self.flags)[own],
            memoryview(self.context)[own],
            memoryview(self.name)[own],
            self.ends[self._first_sequence :],
            self.program[self._first_sequence :],
        )

    def run(
        self, number: int, begin: int, end: int, parameters: ProgramParameters
    ) -> tuple[bool, list[tuple[bytes, int]]]:
        """Run the program that stands from ``begin`` to ``end``, and number it so. Returns whether its last sequence
        has an end (without one it is left out), and the (name, directory index) of the files that it defines. Raises
        Malformed and what ``check_rows`` raises, without having added a row."""
        first: cython.Py_ssize_t = self.count
        sequences: cython.Py_ssize_t = len(self.ends)
        had_calls: cython.bint = self._has_calls
        is_whole: cython.bint = False
        files: list[tuple[bytes, int]] = []
        self.at, self.end = begin, min(end, len(self.data))
        try:
            self._run(number, parameters, files)
            kept: cython.Py_ssize_t = first
            if len(self.ends) > sequences:
                kept = self.first + cython.cast(cython.Py_ssize_t, self.ends[len(self.ends) - 1])
            is_whole = self.count == kept
            self.count = kept
        except BaseException:
            self.count = first
            del self.ends[sequences:]
            del self.program[sequences:]
            raise
        finally:
            if self._has_calls and not had_calls and self.count == first:
                self._end_calls()
        return is_whole, files

    def number_files(self, maps: Sequence[Any]) -> None:
        """Turn the file register of each row of the object that was opened last into the number that ``maps`` (u32
        arrays, one for each program by its number) has there; 0 where it has none."""
        begin: cython.Py_ssize_t = self.first
        stop: cython.Py_ssize_t
        sequence: cython.Py_ssize_t
        row: cython.Py_ssize_t
        register: cython.uint
        known = cython.declare(cython.const[cython.uint][::1])
        number: cython.longlong = -1  # of the program whose map this is
        for sequence in range(self._first_sequence, len(self.ends)):
            stop = self.first + cython.cast(cython.Py_ssize_t, self.ends[sequence])
            if number != self.program[sequence]:
                number = self.program[sequence]
                known = maps[number]
            for row in range(begin, stop):
                register = self._files[row]
                self._files[row] = known[register] if register < cython.cast(cython.size_t, len(known)) else 0
            begin = stop

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _run(self, number: int, parameters: ProgramParameters, files: list[tuple[bytes, int]]) -> cython.int:
        opcode_base: cython.int = parameters.opcode_base
        line_base: cython.longlong = parameters.line_base
        line_range: cython.int = parameters.line_range
        step: cython.ulonglong = parameters.min_inst_length
        max_ops: cython.ulonglong = parameters.max_ops
        default_is_stmt: cython.int = _IS_STMT if parameters.default_is_stmt else 0
        counts: bytes = parameters.operand_counts

        # The registers (6.2.2); ``marks`` are the flags of the next row alone.
        address: cython.ulonglong = 0
        op_index: cython.ulonglong = 0
        file: cython.ulonglong = 1
        line: cython.ulonglong = 1
        column: cython.ulonglong = 0
        is_stmt: cython.int = default_is_stmt
        marks: cython.int = 0
        context: cython.ulonglong = 0
        name: cython.ulonglong = 0
        named: cython.int = 0  # NAMED where the inlined call was set since the last row, else 0

        opcode: cython.int
        kind: cython.int
        _: cython.int
        operand: cython.ulonglong
        stop: cython.Py_ssize_t
        limit: cython.Py_ssize_t = self.end

        # NVIDIA's assembler (ptxas 12.3 to 13.5, below sm_90) leaves out the row of an instruction whose line is that
        # of the row before, also where that is a line of another file, and whose call is another: it sets file and
        # call, moves the address on and goes straight to the next row, although every row that it writes ends in
        # DW_LNS_copy behind DW_LNS_advance_pc, or in a special opcode. So a row is due behind the first
        # DW_LNS_advance_pc since the call was set where the next instruction begins another row.
        call_set: cython.bint = False  # an inlined call was set, and neither a row nor DW_LNS_advance_pc came since
        call_then_advance: cython.bint = False  # this instruction is that DW_LNS_advance_pc
        skipped_row_due: cython.bint  # the instruction before was

        while self.at < limit:
            start: cython.Py_ssize_t = self.at
            opcode = self.data[start]
            self.at = start + 1
            skipped_row_due, call_then_advance = call_then_advance, False
            if (
                skipped_row_due
                and opcode != _EXTENDED
                and (opcode >= opcode_base or opcode in (_ADVANCE_LINE, _SET_FILE))
            ):
                self._emit(address, file, line, column, is_stmt | named | _IMPLIED, context, name)
                named = 0

            if opcode >= opcode_base:  # special (6.2.5.1)
                operand = (opcode - opcode_base) // line_range
                line = (line + line_base + (opcode - opcode_base) % line_range) & _U32
                operand += op_index
                address = (address + step * (operand // max_ops)) & _U64
                op_index = operand % max_ops
                self._emit(address, file, line, column, is_stmt | named | marks, context, name)
                named = marks = 0
                call_set = False
            elif opcode == _COPY:
                self._emit(address, file, line, column, is_stmt | named | marks, context, name)
                named = marks = 0
                call_set = False
            elif opcode == _ADVANCE_PC:
                operand = (self.uleb() + op_index) & _U64
                address = (address + step * (operand // max_ops)) & _U64
                op_index = operand % max_ops
                call_then_advance, call_set = call_set, False
            elif opcode == _ADVANCE_LINE:
                line = (line + self.sleb()) & _U32
            elif opcode == _SET_FILE:
                file = self.uleb()
            elif opcode == _SET_COLUMN:
                column = self.uleb()
            elif opcode == _NEGATE_STMT:
                is_stmt ^= _IS_STMT
            elif opcode == _SET_BASIC_BLOCK:
                marks |= _BASIC_BLOCK
            elif opcode == _CONST_ADD_PC:
                operand = (255 - opcode_base) // line_range
                operand += op_index
                address = (address + step * (operand // max_ops)) & _U64
                op_index = operand % max_ops
            elif opcode == _FIXED_ADVANCE_PC:
                address = (address + self.uint(2)) & _U64
                op_index = 0
            elif opcode == _SET_PROLOGUE_END:
                marks |= _PROLOGUE_END
            elif opcode == _SET_EPILOGUE_BEGIN:
                marks |= _EPILOGUE_BEGIN
            elif opcode != _EXTENDED:  # DW_LNS_set_isa, and what nobody knows: passed over, as the header says how
                for _ in range(1 if opcode == _SET_ISA else counts[opcode - 1]):
                    self.uleb()
            else:
                operand = self.uleb()
                if operand > cython.cast(cython.ulonglong, limit - self.at):
                    raise self.fail(f"{operand} bytes are needed and {limit - self.at} are left")
                stop = self.end = self.at + operand
                kind = self.uint(1)
                if kind == _END_SEQUENCE:
                    self._emit(address, file, line, column, is_stmt | named | marks | _ENDS, context, name)
                    self.ends.append(self.count - self.first)
                    self.program.append(number)
                    address = op_index = column = context = name = 0
                    file = line = 1
                    is_stmt = default_is_stmt
                    named = marks = 0
                    call_set = False
                elif kind == _SET_ADDRESS:
                    if stop - self.at not in (2, 4, 8):
                        raise self.fail(f"an address of {stop - self.at} bytes")
                    address = self.uint(stop - self.at)
                    op_index = 0
                elif kind == _DEFINE_FILE:
                    if self._check_files is not None:
                        self._check_files(1)
                    files.append((self.text(), self.uleb()))
                    self.uleb()  # the time
                    self.uleb()  # the length
                elif kind == _INLINED_CALL:
                    if skipped_row_due:
                        self._emit(address, file, line, column, is_stmt | named | _IMPLIED, context, name)
                    context = self.uleb()
                    name = self.uleb()
                    named = _NAMED
                    call_set = True
                    if not self._has_calls:
                        self._begin_calls()
                self.at, self.end = stop, limit
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _emit(
        self,
        address: cython.ulonglong,
        file: cython.ulonglong,
        line: cython.ulonglong,
        column: cython.ulonglong,
        flags: cython.int,
        context: cython.ulonglong,
        name: cython.ulonglong,
    ) -> cython.int:
        at: cython.Py_ssize_t = self.count
        if at == self._capacity:
            self._grow(len(self.data) - self.at + 1)  # each further row takes a byte at least
        self._addresses[at] = address
        self._files[at] = min(_U32, file)
        self._lines[at] = line
        self._columns[at] = min(_U32, column)
        self._flags[at] = flags
        if self._has_calls:
            self._contexts[at] = context
            self._names[at] = name
        self.count = at + 1
        return 0

    def trim(self) -> None:
        """Give back the memory that no row takes. No rows can be added then, as long as somebody looks into the
        arrays."""
        self._release_views()
        columns = [self.address, self.file, self.line, self.column, self.flags]
        for column in [*columns, self.context, self.name] if self._has_calls else columns:
            del column[self.count :]
        self._capacity = self.count  # whoever takes more looks again

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _grow(self, most: cython.Py_ssize_t) -> cython.int:
        """Take memory for half as many rows more, or for those that the rest of a short section may have, and for no
        more than ``most``."""
        if self._check_rows is not None:
            self._check_rows(self.count + 1)
        more: cython.Py_ssize_t = max(self.count // 2 + _MIN_GROWTH, min(most // 4, _GUESSED_CAPACITY))
        more = min(more, most)
        wide, narrow = bytes(8 * more), bytes(4 * more)
        self._release_views()
        try:
            self.address.frombytes(wide)
            self.file.frombytes(narrow)
            self.line.frombytes(narrow)
            self.column.frombytes(narrow)
            self.flags.frombytes(narrow[:more])
            if self._has_calls:
                self.context.frombytes(wide)
                self.name.frombytes(wide)
            self._capacity += more
        finally:  # an array that did not grow ends at ``_capacity``, and one that did behind it
            self._acquire_views()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _acquire_views(self) -> cython.int:
        """Look into the arrays."""
        self._addresses, self._files, self._lines = self.address, self.file, self.line
        self._columns, self._flags = self.column, self.flags
        if self._has_calls:
            self._contexts, self._names = self.context, self.name
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _release_views(self) -> cython.int:
        """An array that somebody looks into cannot grow."""
        self._addresses = self._contexts = self._names = _NO_WIDE
        self._files = self._lines = self._columns = _NO_NARROW
        self._flags = _NO_BYTES
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _begin_calls(self) -> cython.int:
        """Make the columns of calls, zero for the rows so far."""
        context, name = array("Q", bytes(8 * self._capacity)), array("Q", bytes(8 * self._capacity))
        self._contexts, self._names = context, name
        self.context, self.name = context, name
        self._has_calls = True
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _end_calls(self) -> cython.int:
        """No row that was kept has a call."""
        self.context = self.name = _NO_CALLS
        self._contexts = self._names = _NO_WIDE
        self._has_calls = False
        return 0


_NO_CALLS = array("Q")
_NO_WIDE = cython.declare(cython.ulonglong[::1], array("Q"))
_NO_NARROW = cython.declare(cython.uint[::1], array("I"))
_NO_BYTES = cython.declare(cython.uchar[::1], array("B"))


def places_of_set_address(program: bytes, begin: int, end: int, width: int) -> array[int]:
    """Where operands of ``width`` bytes of what looks like DW_LNE_set_address begin in ``program[begin:end]``, found as
    Horspool's method does it: two of three bytes are not looked at."""
    found = array("Q")
    data: cython.const[cython.uchar][::1] = program  # type: ignore[valid-type] # a view, to Cython
    length: cython.int = width + 1
    at: cython.Py_ssize_t = begin + 2
    stop: cython.Py_ssize_t = min(end, len(program))
    byte: cython.int
    while at < stop:
        byte = data[at]
        if byte == _SET_ADDRESS and data[at - 1] == length and data[at - 2] == _EXTENDED:
            found.append(at + 1)
            at += 3
        elif byte == length:
            at += 1
        elif byte == _EXTENDED:
            at += 2
        else:
            at += 3
    return found
