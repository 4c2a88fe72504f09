"""Runs line programs of one shape, all at once: operands become deltas and settings of rows, cumulative sums and
forward fills do the rest (DWARF 5, 6.2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf import instructions
from symd.debuginfo.dwarf.cursor import Cursor
from symd.debuginfo.dwarf.gather import Positions, sleb_at, uleb_at, unsigned_at
from symd.debuginfo.dwarf.line_header import SECTION, LineHeader, ProgramShape, file_entry_directory
from symd.errors import Malformed
from symd.model import U8, U32, U64, RowFlag

Totals = TypeVar("Totals", U8, U32, U64)

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN, _NEGATE_STMT = 1, 2, 3, 4, 5, 6
_BASIC_BLOCK, _CONST_ADD_PC, _FIXED_ADVANCE_PC, _PROLOGUE_END, _EPILOGUE_BEGIN = 7, 8, 9, 10, 11
_ROW_FLAGS = (
    (_BASIC_BLOCK, RowFlag.BASIC_BLOCK),
    (_PROLOGUE_END, RowFlag.PROLOGUE_END),
    (_EPILOGUE_BEGIN, RowFlag.EPILOGUE_BEGIN),
)
_END_SEQUENCE, _SET_ADDRESS, _DEFINE_FILE, _NVIDIA_INLINED = 1, 2, 3, 0x90
_ADDRESS_SIZES = (2, 4, 8)
_NOTHING = np.zeros(0, np.int64)
_LARGEST = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class ProgramRows:
    """Rows of several programs, one program behind the other: equally long columns.

    ``program`` numbers the programs as they were passed; ``file`` is the file register; it and ``column`` stop at
    the largest u32, ``line`` counts modulo 2**32. ``ends`` holds
    the row number behind each sequence. ``context`` (row number inside the sequence, from 1) and ``name`` (offset from
    the header's base) are None where no program sets them. ``sick`` maps a program that was refused to the place and
    the reason; ``open`` lists programs whose last sequence has no end and was left out.
    """

    program: U32
    address: U64
    file: U32
    line: U32
    column: U32
    flags: U8
    ends: NDArray[np.int64]
    context: U64 | None
    name: U64 | None
    sick: dict[int, tuple[int, str]]
    open: tuple[int, ...]


class _Code:
    """Programs of one shape laid one behind the other, and which instruction belongs to which row."""

    def __init__(self, data: bytes, headers: Sequence[LineHeader]) -> None:
        shape = headers[0].shape
        self.shape = shape
        self.headers = headers
        sentinel = bytes([instructions.SENTINEL])
        self.bytes = b"".join(piece for h in headers for piece in (data[h.program : h.end], sentinel))
        self.u8: U8 = np.frombuffer(self.bytes, np.uint8)
        self.stops = np.cumsum([h.end - h.program + 1 for h in headers]) - 1
        self.begins = np.append(0, self.stops[:-1] + 1)
        self.found = instructions.find(self.bytes, shape, self.stops)
        self.sick: dict[int, tuple[int, str]] = {}
        self.refuse(self.found.sick, "an instruction passes the end of its table")
        self.kind = self._extended_kinds()
        self._find_rows()

    def refuse(self, at: Positions, why: str) -> None:
        """Refuse the programs that own the positions ``at``."""
        numbers = np.searchsorted(self.stops, at)
        for number, place in zip(numbers.tolist(), at.tolist(), strict=True):
            header = self.headers[number]
            self.sick.setdefault(number, (header.program + place - int(self.begins[number]), why))

    def _extended_kinds(self) -> NDArray[np.int16]:
        """The extended opcode of each extended instruction; -1 where the instruction is sick."""
        kind = np.full(len(self.found.extended), -1, np.int16)
        whole = self.found.payload < self.found.end
        kind[whole] = self.u8[self.found.payload[whole]]
        return kind

    def _find_rows(self) -> None:
        """Number rows and sequences, and sort the other instructions by opcode. A sentinel is a row of its own."""
        at = self.found.at
        opcode = self.u8[at]
        emits = (opcode >= self.shape.opcode_base) & (opcode != 0)
        emits |= opcode == _COPY
        ends = np.searchsorted(at, self.found.extended[self.kind == _END_SEQUENCE])
        emits[ends] = True
        self._before = np.cumsum(emits, dtype=np.int32)
        rows = np.flatnonzero(emits)
        self.row_at = at[rows]
        self.row_opcode = opcode[rows]
        self.end_rows = self._before[ends] - 1
        self.stop_rows = self._before[np.searchsorted(at, self.stops)] - 1
        closing = np.zeros(len(rows), np.bool_)
        closing[self.end_rows] = True
        closing[self.stop_rows] = True
        self.ends = np.flatnonzero(closing) + 1
        self.first = np.append(0, self.ends[:-1])
        self.length = self.ends - self.first
        self._others = np.flatnonzero(~emits)
        self._other_opcode = opcode[self._others]

    def opcode(self, opcode: int) -> tuple[Positions, NDArray[np.int32]]:
        """Where a standard opcode stands, and the row that its effect reaches first."""
        which = self._others[self._other_opcode == opcode] if opcode < self.shape.opcode_base else _NOTHING
        return self.found.at[which], self._before[which]

    def extended(self, kind: int) -> tuple[Positions, Positions, NDArray[np.int32]]:
        """Where operands of an extended opcode begin and end, and the row that its effect reaches first."""
        which = np.flatnonzero(self.kind == kind)
        row = self._before[np.searchsorted(self.found.at, self.found.extended[which])]
        return self.found.payload[which] + 1, self.found.end[which], row

    def since_sequence(self, total: Totals) -> Totals:
        """Running totals over all rows, made totals since each sequence began, in place."""
        base = np.zeros(len(self.first), total.dtype)
        base[1:] = total[self.first[1:] - 1]
        total -= np.repeat(base, self.length)
        return total

    def fill(
        self, default: int | U64, rows: NDArray[np.int32], values: NDArray[Any], dtype: type[np.generic]
    ) -> NDArray[Any]:
        """A register that every sequence begins with at ``default`` and that ``rows`` set, each to its value."""
        known = np.zeros(len(self.row_at), np.bool_)
        value = np.empty(len(self.row_at), dtype)
        known[self.first] = True
        value[self.first] = default
        known[rows] = True
        value[rows] = values
        changes = np.flatnonzero(known)
        return np.repeat(value[changes], np.diff(changes, append=len(known)))


def run(data: bytes, headers: Sequence[LineHeader]) -> ProgramRows:
    """Run the programs of ``headers``, all of one shape that ``is_regular``, over ``.debug_line``.

    DW_LNE_define_file appends to the ``files`` of its header.
    """
    code = _Code(data, headers)
    _define_files(code)
    columns: dict[str, NDArray[Any]] = {
        "address": _addresses(code),
        "line": _lines(code),
        "file": _register(code, _SET_FILE, 1),
        "column": _register(code, _SET_COLUMN, 0),
        "flags": _flags(code),
    }
    context, name = _inlined(code)
    if context is not None and name is not None:
        columns["context"], columns["name"] = context, name
    return _keep(code, columns)


def is_regular(shape: ProgramShape) -> bool:
    """Whether ``run`` can take programs of this shape; the others go through ``line_interpreter``."""
    return shape.max_ops == 1 and shape.opcode_base <= 0x80


def _operands(code: _Code, opcode: int, *, signed: bool = False) -> tuple[U64, Positions, NDArray[np.int32]]:
    """The operand, position and row of every instance of a standard opcode with one LEB128."""
    at, rows = code.opcode(opcode)
    # A sick program may hold an opcode whose operand is the sentinel; its rows are dropped.
    return (sleb_at if signed else uleb_at)(code.u8, at + 1)[0], at, rows


def _register(code: _Code, opcode: int, default: int) -> U32:
    values, _, rows = _operands(code, opcode)
    return code.fill(default, rows, np.minimum(values, _LARGEST).astype(np.uint32), np.uint32)


def _add(totals: Totals, rows: NDArray[np.int32], values: Totals) -> None:
    """Add to the rows, some of which may come twice."""
    if (rows[1:] != rows[:-1]).all():
        totals[rows] += values
    else:
        np.add.at(totals, rows, values)


def _lines(code: _Code) -> U32:
    shape = code.shape
    delta = np.zeros(256, np.int64)
    specials = np.arange(shape.opcode_base, 256)
    delta[specials] = shape.line_base + (specials - shape.opcode_base) % shape.line_range
    line = delta.astype(np.uint32)[code.row_opcode]
    operands, _, rows = _operands(code, _ADVANCE_LINE, signed=True)
    _add(line, rows, operands.astype(np.uint32))
    np.cumsum(line, out=line)
    return code.since_sequence(line) + np.uint32(1)


def _advances(code: _Code) -> tuple[Positions, NDArray[np.int32], U64]:
    """Position, row and byte count of everything but special opcodes that moves the address on, in order."""
    shape = code.shape
    operands, moved, moved_rows = _operands(code, _ADVANCE_PC)
    constant, constant_rows = code.opcode(_CONST_ADD_PC)
    fixed, fixed_rows = code.opcode(_FIXED_ADVANCE_PC)
    step = (255 - shape.opcode_base) // shape.line_range * shape.min_inst_length
    at = np.concatenate([moved, constant, fixed])
    count = np.concatenate(
        [
            operands * np.uint64(shape.min_inst_length),
            np.full(len(constant), step, np.uint64),
            # A sick instruction may stand before the last byte; its rows are dropped.
            unsigned_at(code.u8, np.minimum(fixed + 1, len(code.u8) - 2), 2),
        ]
    )
    order = np.argsort(at, kind="stable")
    return at[order], np.concatenate([moved_rows, constant_rows, fixed_rows])[order], count[order]


def _addresses(code: _Code) -> U64:
    shape = code.shape
    delta = np.zeros(256, np.uint64)
    specials = np.arange(shape.opcode_base, 256)
    delta[specials] = (specials - shape.opcode_base) // shape.line_range * shape.min_inst_length
    address = delta[code.row_opcode]
    at, rows, count = _advances(code)
    _add(address, rows, count)
    np.cumsum(address, out=address)
    set_at, set_rows, values = _set_addresses(code)
    before = np.zeros(len(code.first), np.uint64)
    before[1:] = address[code.first[1:] - 1]
    # What has been advanced before a set_address is taken back: in rows before its own, and in its own before it.
    so_far = np.where(set_rows > 0, address[set_rows - 1], np.uint64(0))
    if at.size and set_at.size:
        running = np.append(np.uint64(0), np.cumsum(count))
        row_begins = np.where(set_rows > 0, code.row_at[set_rows - 1], 0)
        so_far += running[np.searchsorted(at, set_at)] - running[np.searchsorted(at, row_begins)]
    address += code.fill(np.uint64(0) - before, set_rows, values - so_far, np.uint64)
    return address


def _set_addresses(code: _Code) -> tuple[Positions, NDArray[np.int32], U64]:
    """Position, row and operand of every DW_LNE_set_address; the operand is as long as the instruction says."""
    at, end, rows = code.extended(_SET_ADDRESS)
    size = end - at
    value = np.zeros(len(at), np.uint64)
    for number in _ADDRESS_SIZES:
        which = np.flatnonzero(size == number)
        value[which] = unsigned_at(code.u8, at[which], number)
    code.refuse(at[~np.isin(size, _ADDRESS_SIZES)], "an address of an unusual size")
    return at, rows, value


def _flags(code: _Code) -> U8:
    """is_stmt is the parity of its negations in the sequence; the others belong to the one row that follows."""
    flags = np.zeros(len(code.row_at), np.uint8)
    negated = code.opcode(_NEGATE_STMT)[1]
    _add(flags, negated, np.ones(len(negated), np.uint8))
    np.cumsum(flags, dtype=np.uint8, out=flags)
    code.since_sequence(flags)
    flags += np.uint8(code.shape.default_is_stmt)
    flags &= np.uint8(RowFlag.IS_STMT)
    for opcode, flag in _ROW_FLAGS:
        flags[code.opcode(opcode)[1]] |= np.uint8(flag)
    flags[code.end_rows] |= np.uint8(RowFlag.END_SEQUENCE)
    return flags


def _inlined(code: _Code) -> tuple[U64 | None, U64 | None]:
    """The context and name registers of NVIDIA's extension; both operands must end inside their instruction."""
    at, end, rows = code.extended(_NVIDIA_INLINED)
    if not at.size:
        return None, None
    context, behind = uleb_at(code.u8, at)
    whole = behind < end
    name = np.zeros(len(at), np.uint64)
    name[whole], behind[whole] = uleb_at(code.u8, behind[whole])
    code.refuse(at[~whole | (behind > end)], "an inlined call without its two operands")
    return code.fill(0, rows, context, np.uint64), code.fill(0, rows, name, np.uint64)


def _define_files(code: _Code) -> None:
    at, end, _ = code.extended(_DEFINE_FILE)
    for start, stop in zip(at.tolist(), end.tolist(), strict=True):
        cursor = Cursor(code.bytes, SECTION, start, stop)
        try:
            entry = cursor.text(), file_entry_directory(cursor)
        except Malformed:
            code.refuse(np.array([start]), "a file definition passes its end")
            continue
        code.headers[int(np.searchsorted(code.stops, start))].files.append(entry)


def _keep(code: _Code, columns: dict[str, NDArray[Any]]) -> ProgramRows:
    """Leave out the sentinels, sequences without an end and sick programs."""
    program = np.searchsorted(code.stop_rows, code.first)
    closed = np.zeros(len(code.row_at) + 1, np.bool_)
    closed[code.end_rows + 1] = True
    kept = closed[code.ends] & ~np.isin(program, list(code.sick))
    unfinished = np.unique(program[~closed[code.ends] & (code.length > 1)])
    length = code.length[kept]
    ends = np.cumsum(length)
    rows = _selection(np.repeat(kept, code.length), int(length.sum()))
    columns = {name: column[rows] for name, column in columns.items()}
    return ProgramRows(
        program=np.repeat(program[kept].astype(np.uint32), length),
        ends=ends,
        sick=code.sick,
        open=tuple(number for number in unfinished.tolist() if number not in code.sick),
        context=columns.pop("context", None),
        name=columns.pop("name", None),
        **columns,
    )


def _selection(mask: NDArray[np.bool_], count: int) -> slice | NDArray[np.intp]:
    """The rows of ``mask``; a slice where they are the first ones, so that nothing is copied."""
    return slice(count) if mask[:count].all() else np.flatnonzero(mask)
