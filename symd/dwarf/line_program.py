"""Runs line programs of the same parameters, all at once: operands become deltas and settings of rows, cumulative sums
and forward fills do the rest (DWARF 5, 6.2.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from symd.dwarf import opcode_boundaries
from symd.dwarf.bulk_read import Positions, sleb_at, spread, uleb_at, unsigned_at
from symd.dwarf.constants import Lne, Lns
from symd.dwarf.cursor import Cursor
from symd.dwarf.line_header import LineHeader, ProgramParameters, file_entry_directory
from symd.dwarf.sections import DebugSection
from symd.errors import Malformed
from symd.model.columns import U8, U32, U64
from symd.model.debug_info import RowFlag

Number = TypeVar("Number", np.uint32, np.uint64)

_ROW_FLAGS = (
    (Lns.DW_LNS_set_basic_block, RowFlag.BASIC_BLOCK),
    (Lns.DW_LNS_set_prologue_end, RowFlag.PROLOGUE_END),
    (Lns.DW_LNS_set_epilogue_begin, RowFlag.EPILOGUE_BEGIN),
)
_COPY, _END_SEQUENCE = int(Lns.DW_LNS_copy), int(Lne.DW_LNE_end_sequence)
_NEGATE_STMT = int(Lns.DW_LNS_negate_stmt)
_ADVANCE_PC = int(Lns.DW_LNS_advance_pc)
BETWEEN_ROWS = (int(Lns.DW_LNS_advance_line), int(Lns.DW_LNS_set_file))
"""Instructions with which NVIDIA's assembler begins a row, none of which it writes behind DW_LNS_advance_pc of the same one."""
NAMED = 64
"""A bit of the flags of a row that the inlined call was set for; it is gone when calls are resolved."""
_FREQUENT = (int(Lns.DW_LNS_advance_line), int(Lns.DW_LNS_set_column), _NEGATE_STMT)
_ADDRESS_SIZES = (2, 4, 8)
_LARGEST = np.uint64(0xFFFFFFFF)


class ProgramRows(NamedTuple):
    """Rows of several programs, one program after the other: equally long columns.

    ``file`` is the file register; it and ``column`` stop at the largest u32, ``line`` counts modulo 2**32. ``ends``
    holds the row number after each sequence, ``program`` the number of the program of each sequence, as they were
    passed. ``context`` (row number inside the sequence, from 1) and ``name`` (offset from the header's base) are None
    where no program sets them. ``malformed`` maps a program that was refused to the place and the reason; ``open``
    lists programs whose last sequence has no end and was left out.

    NVIDIA's assembler (ptxas 12.4 to 13.5, below sm_90) leaves out the row of an instruction whose line is that of the row before and whose call is another: it sets the call, moves
    the address on and goes straight to the next row, although every row that it writes ends in DW_LNS_copy behind DW_LNS_advance_pc, or in a special opcode. Such a row
    is here, with the flag ``IMPLIED``.
    """

    address: U64
    file: U32
    line: U32
    column: U32
    flags: U8
    ends: Positions
    program: U32
    context: U64 | None
    name: U64 | None
    malformed: dict[int, tuple[int, str]]
    open: tuple[int, ...]


class _Code:
    """Programs of the same parameters laid one after the other, and which instruction belongs to which row."""

    def __init__(self, section: DebugSection, headers: Sequence[LineHeader]) -> None:
        parameters = headers[0].parameters
        data = section.data
        self.section = section.name
        self.parameters = parameters
        self.headers = headers
        sentinel = bytes([opcode_boundaries.SENTINEL])
        self.bytes = b"".join(piece for h in headers for piece in (data[h.program : h.end], sentinel))
        self.u8: U8 = np.frombuffer(self.bytes, np.uint8)
        self.stops = np.cumsum([h.end - h.program + 1 for h in headers]) - 1
        self.begins = np.append(0, self.stops[:-1] + 1)
        self.found = opcode_boundaries.find(self.bytes, parameters, self.stops)
        self.malformed: dict[int, tuple[int, str]] = {}
        self.refuse(self.found.malformed, "an instruction passes the end of its table")
        self.kind = self._extended_kinds()
        self._find_rows()

    def refuse(self, at: Positions, why: str) -> None:
        """Refuse the programs that own the positions ``at``."""
        numbers = np.searchsorted(self.stops, at)
        for number, place in zip(numbers.tolist(), at.tolist(), strict=True):
            header = self.headers[number]
            self.malformed.setdefault(number, (header.program + place - int(self.begins[number]), why))

    def _extended_kinds(self) -> NDArray[np.int16]:
        """The extended opcode of each extended instruction; -1 where the instruction is malformed."""
        kind = np.full(len(self.found.extended), -1, np.int16)
        whole = self.found.payload < self.found.end
        kind[whole] = self.u8[self.found.payload[whole]]
        return kind

    def _find_rows(self) -> None:
        """Number rows and sequences. A sentinel is a row of its own."""
        emits = self.u8 >= self.parameters.opcode_base
        emits |= self.u8 == _COPY
        emits &= self.found.starts
        self.implied = self._implied(emits)
        emits[self.implied] = True
        closers = self.found.extended[self.kind == _END_SEQUENCE]
        emits[closers] = True
        # Twice as fast as cumsum(emits, dtype=np.int32).
        self._rows = emits.astype(np.int32)
        np.cumsum(self._rows, out=self._rows)
        self.row_at = np.flatnonzero(emits)
        self.row_opcode = self.u8.take(self.row_at)
        self.end_rows = self._rows[closers] - 1
        self.stop_rows = self._rows[self.stops] - 1
        closing = np.zeros(len(self.row_at), np.bool_)
        closing[self.end_rows] = True
        closing[self.stop_rows] = True
        self.ends = np.flatnonzero(closing) + 1
        self.first = np.append(0, self.ends[:-1])
        self._sort_others(self.found.starts ^ emits)

    def _implied(self, emits: NDArray[np.bool_]) -> Positions:
        """The positions of DW_LNS_advance_pc that stand for a row which NVIDIA's assembler left out (``ProgramRows``)."""
        calls: Positions = self.found.extended[self.kind == int(Lne.DW_LNE_NVIDIA_inlined_call)]
        if not len(calls):
            return calls
        moves = np.flatnonzero((self.u8 == _ADVANCE_PC) & self.found.starts)
        starts = np.flatnonzero(self.found.starts)
        after = starts[np.searchsorted(starts, moves, side="right")]  # behind the last one stands the sentinel
        opcode = self.u8[after]
        follows = (opcode >= self.parameters.opcode_base) | np.isin(opcode, BETWEEN_ROWS) | np.isin(after, calls)
        ends = np.append(-1, np.flatnonzero(emits))
        earlier = np.maximum(ends[np.searchsorted(ends, moves) - 1], np.append(-1, moves[:-1]))
        call = np.append(-1, calls)[np.searchsorted(calls, moves)]
        found: Positions = moves[follows & (call > earlier)]
        return found

    def _sort_others(self, others: NDArray[np.bool_]) -> None:
        """Tell instructions that add no row apart: the frequent ones as masks of bytes, the others as one list."""
        self._frequent = {
            opcode: (self.u8 == opcode) & others for opcode in _FREQUENT if opcode < self.parameters.opcode_base
        }
        for mask in self._frequent.values():
            others ^= mask
        self._rare = np.flatnonzero(others)
        self._rare_opcode = self.u8.take(self._rare)

    def opcode(self, opcode: int) -> Positions:
        """Where a standard opcode stands."""
        if opcode in self._frequent:
            return np.flatnonzero(self._frequent[opcode])
        at: Positions = self._rare[self._rare_opcode == int(opcode)]
        return at

    def negations(self) -> NDArray[np.int32]:
        """How many DW_LNS_negate_stmt stand before each row."""
        if _NEGATE_STMT not in self._frequent:
            return np.zeros(len(self.row_at), np.int32)
        count = self._frequent[_NEGATE_STMT].astype(np.int32)
        np.cumsum(count, out=count)
        before: NDArray[np.int32] = count.take(self.row_at)
        return before

    def row(self, at: Positions) -> Positions:
        """The row that an instruction's effect reaches first."""
        return self._rows.take(at).astype(np.intp)

    def written(self, rows: Positions) -> Positions:
        """The same rows, or those behind them that are the next ones to stand in the table."""
        if not len(self.implied):
            return rows
        following = np.arange(len(self.row_at))
        following[self.row(self.implied) - 1] = len(self.row_at)
        following = np.minimum.accumulate(following[::-1])[::-1]
        found: Positions = following[rows]
        return found

    def extended(self, kind: int) -> tuple[Positions, Positions, Positions]:
        """Where operands of an extended opcode begin and end, and the row that its effect reaches first."""
        which = np.flatnonzero(self.kind == int(kind))
        return self.found.payload[which] + 1, self.found.end[which], self.row(self.found.extended[which])

    def per_sequence(self, values: NDArray[Any]) -> NDArray[Any]:
        """One value a sequence -> one a row."""
        return spread(values, self.first, len(self.row_at))

    def fill(self, default: int, rows: Positions, values: NDArray[Any]) -> NDArray[Any]:
        """A register that every sequence begins with at ``default`` and that ``rows`` set, each to its value."""
        slot = np.searchsorted(rows, self.first)
        values = np.insert(values, slot, values.dtype.type(default))
        return spread(values, np.insert(rows, slot, self.first), len(self.row_at))


def run(section: DebugSection, headers: Sequence[LineHeader]) -> ProgramRows:
    """Run the programs of ``headers``, all of the same parameters that ``is_regular``, over the section of line tables.

    DW_LNE_define_file appends to the ``files`` of its header.
    """
    code = _Code(section, headers)
    _define_files(code)
    columns: dict[str, NDArray[Any]] = {
        "address": _addresses(code),
        "line": _lines(code),
        "file": _register(code, Lns.DW_LNS_set_file, 1),
        "column": _register(code, Lns.DW_LNS_set_column, 0),
        "flags": _flags(code),
    }
    context, name = _inlined(code, columns["flags"])
    if context is not None and name is not None:
        columns["context"], columns["name"] = context, name
    return _keep(code, columns)


def is_regular(parameters: ProgramParameters) -> bool:
    """Whether ``run`` can take programs of these parameters; the others go through ``line_interpreter``."""
    return parameters.max_ops == 1 and parameters.opcode_base <= 0x80


def _register(code: _Code, opcode: int, default: int) -> U32:
    at = code.opcode(opcode)
    # A malformed program may hold an opcode whose operand is the sentinel; its rows are dropped.
    values = uleb_at(code.u8, at + 1)[0]
    return code.fill(default, code.row(at), np.minimum(values, _LARGEST).astype(np.uint32))


def _restart(deltas: NDArray[Number], first: Positions) -> None:
    """Change the deltas so that their running total begins anew, with the row's own delta, at each of ``first``, which
    begins with 0."""
    deltas[first[1:]] -= np.add.reduceat(deltas, first)[:-1]


def _lines(code: _Code) -> U32:
    parameters = code.parameters
    delta = np.zeros(256, np.int64)
    specials = np.arange(parameters.opcode_base, 256)
    delta[specials] = parameters.line_base + (specials - parameters.opcode_base) % parameters.line_range
    line = delta.astype(np.uint32).take(code.row_opcode)
    at = code.opcode(Lns.DW_LNS_advance_line)
    np.add.at(line, code.row(at), sleb_at(code.u8, at + 1)[0].astype(np.uint32))
    line[code.first] += np.uint32(1)
    _restart(line, code.first)
    return np.cumsum(line, out=line)


def _advances(code: _Code) -> tuple[Positions, U64]:
    """Position and byte count of everything but special opcodes that moves the address on."""
    parameters = code.parameters
    moved = np.append(code.opcode(Lns.DW_LNS_advance_pc), code.implied)
    constant = code.opcode(Lns.DW_LNS_const_add_pc)
    fixed = code.opcode(Lns.DW_LNS_fixed_advance_pc)
    step = (255 - parameters.opcode_base) // parameters.line_range * parameters.min_inst_length
    at = np.concatenate([moved, constant, fixed])
    count = np.concatenate(
        [
            uleb_at(code.u8, moved + 1)[0] * np.uint64(parameters.min_inst_length),
            np.full(len(constant), step, np.uint64),
            # A malformed instruction may stand before the last byte; its rows are dropped.
            unsigned_at(code.u8, np.minimum(fixed + 1, len(code.u8) - 2), 2),
        ]
    )
    return at, count


def _addresses(code: _Code) -> U64:
    """Deltas of rows, with an absolute address where a sequence begins or one is set, and their running totals."""
    parameters = code.parameters
    delta = np.zeros(256, np.uint64)
    specials = np.arange(parameters.opcode_base, 256)
    delta[specials] = (specials - parameters.opcode_base) // parameters.line_range * parameters.min_inst_length
    address = delta.take(code.row_opcode)
    at, count = _advances(code)
    rows = code.row(at)
    if len(code.implied):  # each is a row itself
        rows -= np.isin(at, code.implied)
    set_at, set_rows, values = _set_addresses(code)
    if set_at.size:
        last = np.append(set_rows[1:] != set_rows[:-1], True)
        set_at, set_rows, values = set_at[last], set_rows[last], values[last]
        slot = np.searchsorted(set_rows, rows, side="right") - 1
        undone = (set_rows[slot] == rows) & (set_at[slot] > at)
        rows, count = rows[~undone], count[~undone]
        address[set_rows] += values
    np.add.at(address, rows, count)
    begins = np.zeros(len(address), np.bool_)
    begins[code.first] = begins[set_rows] = True
    _restart(address, np.flatnonzero(begins))
    return np.cumsum(address, out=address)


def _set_addresses(code: _Code) -> tuple[Positions, NDArray[np.int32], U64]:
    """Position, row and operand of every DW_LNE_set_address; the operand is as long as the instruction says."""
    at, end, rows = code.extended(Lne.DW_LNE_set_address)
    size = end - at
    value = np.zeros(len(at), np.uint64)
    for number in _ADDRESS_SIZES:
        which = np.flatnonzero(size == number)
        value[which] = unsigned_at(code.u8, at[which], number)
    code.refuse(at[~np.isin(size, _ADDRESS_SIZES)], "an address of an unusual size")
    return at, rows, value


def _flags(code: _Code) -> U8:
    """is_stmt is the parity of its negations in the sequence; the others belong to the one row that follows."""
    negated = code.negations()
    before = np.append(0, negated.take(code.ends[:-1] - 1)) & 1
    flags = negated.astype(np.uint8)
    if before.any():
        flags += code.per_sequence(before.astype(np.uint8))
    flags += np.uint8(code.parameters.default_is_stmt)
    flags &= np.uint8(RowFlag.IS_STMT)
    for opcode, flag in _ROW_FLAGS:
        flags[code.written(code.row(code.opcode(opcode)))] |= np.uint8(flag)
    flags[code.end_rows] |= np.uint8(RowFlag.END_SEQUENCE)
    if len(code.implied):
        flags[code.row(code.implied) - 1] |= np.uint8(RowFlag.IMPLIED)
    return flags


def _inlined(code: _Code, flags: U8) -> tuple[U64 | None, U64 | None]:
    """The context and name registers of NVIDIA's extension; both operands must end inside their instruction. Rows for which
    they are set are marked in ``flags``."""
    at, end, rows = code.extended(Lne.DW_LNE_NVIDIA_inlined_call)
    if not at.size:
        return None, None
    context, after = uleb_at(code.u8, at)
    whole = after < end
    name = np.zeros(len(at), np.uint64)
    name[whole], after[whole] = uleb_at(code.u8, after[whole])
    code.refuse(at[~whole | (after > end)], "an inlined call without its two operands")
    flags[rows] |= np.uint8(NAMED)
    return code.fill(0, rows, context), code.fill(0, rows, name)


def _define_files(code: _Code) -> None:
    at, end, _ = code.extended(Lne.DW_LNE_define_file)
    for start, stop in zip(at.tolist(), end.tolist(), strict=True):
        cursor = Cursor(code.bytes, code.section, start, stop)
        try:
            entry = cursor.text(), file_entry_directory(cursor)
        except Malformed:
            code.refuse(np.array([start]), "a file definition passes its end")
            continue
        code.headers[int(np.searchsorted(code.stops, start))].files.append(entry)


def _keep(code: _Code, columns: dict[str, NDArray[Any]]) -> ProgramRows:
    """Leave out the sentinels, sequences without an end and malformed programs."""
    program = np.searchsorted(code.stop_rows, code.first)
    length = code.ends - code.first
    closed = np.zeros(len(code.row_at) + 1, np.bool_)
    closed[code.end_rows + 1] = True
    closed = closed[code.ends]
    kept = closed & ~np.isin(program, list(code.malformed))
    unfinished = np.flatnonzero(np.bincount(program[~closed & (length > 1)]))
    ends = np.cumsum(length[kept])
    rows = _selection(code, kept)
    columns = {name: column[rows] for name, column in columns.items()}
    return ProgramRows(
        ends=ends,
        program=program[kept].astype(np.uint32),
        malformed=code.malformed,
        open=tuple(number for number in unfinished.tolist() if number not in code.malformed),
        context=columns.pop("context", None),
        name=columns.pop("name", None),
        **columns,
    )


def _selection(code: _Code, kept: NDArray[np.bool_]) -> slice | NDArray[np.intp]:
    """The rows of the sequences that are kept; a slice where these are the first ones, so that nothing is copied."""
    count = np.count_nonzero(kept)
    if kept[:count].all():
        return slice(int(code.ends[count - 1]) if count else 0)
    return np.flatnonzero(code.per_sequence(kept))
