"""Line rows, DIEs and scopes of an object as NumPy columns of equal length, with addresses in the linear space that the
sections were relocated into: all line tables with one list of files, and all DIE trees as functions and inlined calls
with names, ranges and call sites.

Columns are no dataclasses: nobody compares or prints them, and making those methods takes most of the time to make one.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from symd.core import scopes as core
from symd.core.byte_reader import Names, StringReader
from symd.core.dies import DieRows
from symd.core.inlined_calls import InlinedCalls
from symd.debuginfo.dwarf.forms import UNKNOWN_FORM
from symd.debuginfo.dwarf.lines import LineTables, line_ends, maps_of_units, read_tables
from symd.debuginfo.dwarf.sections import DebugSections, Warnings
from symd.debuginfo.dwarf.units import SCOPES, ReadObject, Unit, Units, read_rows, read_rows_of, read_units
from symd.errors import Malformed
from symd.model.columns import I64, U8, U32, U64
from symd.model.debug_info import RowCalls
from symd.model.texts import counted

Positions = NDArray[np.signedinteger[Any]]
Scalar = TypeVar("Scalar", bound=np.generic)
_ROWS_PER_REPEAT = 8
"""Stretches of so many rows on average are repeated by NumPy; for shorter ones looking every row up is faster."""


def spread(values: NDArray[Scalar], first: Positions, count: int) -> NDArray[Scalar]:
    """Values of stretches of ``count`` rows -> one value a row; stretches begin at ``first``, ascending from 0, and may
    be empty."""
    if _ROWS_PER_REPEAT * len(first) < count or not count:
        return np.repeat(values, np.diff(first, append=count))
    number = np.bincount(first, minlength=count)
    np.cumsum(number, out=number)
    number -= 1
    return values.take(number[:count])


@dataclass(slots=True, eq=False, repr=False)
class LineColumns:
    """The line rows of one object in table order (DWARF 5, 6.2.2): every table of ``.debug_line`` by offset, its
    sequences as they stand. Every sequence ends in its END_SEQUENCE row; none is empty.

    ``address`` u64; ``file`` u32 indexes ``files``, whose entry 0 is "" (no such file); ``line``, ``column`` u32;
    ``flags`` u8, bits of ``symd.model.debug_info.RowFlag``. ``discriminator`` and ``isa`` are decoded and dropped.

    A sequence row: ``ends``, the number after its last line row, and ``table`` u32, the number of its table (whose
    offset is ``tables[table]``).

    ``calls`` (None where no table has NVIDIA's extension) are the inlined calls that rows carry themselves; their names
    index ``names``, whose entry 0 is "".

    ``file_maps`` maps a table's offset to an array (u32) that turns its file register into an index of ``files``.
    ``warnings`` name the tables that were left out, or that say less than they should, by section and offset.
    """

    address: U64
    file: U32
    line: U32
    column: U32
    flags: U8
    ends: Positions
    table: U32
    calls: RowCalls | None = None
    files: tuple[str, ...] = ("",)
    names: tuple[str, ...] = ("",)
    tables: tuple[int, ...] = ()
    file_maps: Mapping[int, array[int]] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.address)

    @property
    def starts(self) -> U64:
        """The address at which each sequence starts."""
        return self.address[self.first]

    def per_row(self, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """One value a sequence -> one a line row."""
        return spread(values, self.first, len(self))

    @property
    def first(self) -> Positions:
        """The number of the first line row of each sequence."""
        return first_rows(self.ends)

    @property
    def table_of_row(self) -> U32:
        """The number of each line row's table."""
        return self.per_row(self.table)

    @property
    def sequence(self) -> U32:
        """The number of each line row's sequence."""
        return self.per_row(np.arange(len(self.ends), dtype=np.uint32))

    @classmethod
    def empty(cls) -> LineColumns:
        u32 = np.zeros(0, np.uint32)
        return cls(np.zeros(0, np.uint64), u32, u32, u32, np.zeros(0, np.uint8), np.zeros(0, np.int64), u32)


def first_rows(ends: Positions) -> Positions:
    """Stretches that lie one after the other: where each begins, from where each ends."""
    first = np.zeros_like(ends)
    first[1:] = ends[:-1]
    return first


class FunctionColumns(NamedTuple):
    """The functions that are defined in one object, whether they have code of their own or not, by the place where each
    is declared: ``name`` and ``linkage_name`` index ``ScopeColumns.names``, ``file`` indexes ``LineColumns.files``;
    ``unit`` is the number of the compile unit in ``.debug_info``. One without a line (DW_AT_decl_line) is left out."""

    name: U32
    linkage_name: U32
    file: U32
    line: U32
    unit: U32

    @classmethod
    def empty(cls) -> FunctionColumns:
        return cls(*[np.zeros(0, np.uint32)] * 5)


@dataclass(slots=True, eq=False, repr=False)
class ScopeColumns:
    """Functions and inlined calls of one object: two tables of equally long columns, as
    ``symd.model.debug_info.Scopes`` with linear addresses.

    A scope row, in the order of the DIE tree (parents before children): ``parent`` u32 (scope number, or
    ``symd.model.debug_info.NO_PARENT`` for a function), ``name`` and ``linkage_name`` u32 (indexes of ``names``, entry
    0 is ""), ``inlined`` u8, and the call site ``call_file`` (index of ``LineColumns.files``), ``call_line``,
    ``call_column`` u32; ``unit`` u32 is the number of the compile unit in ``.debug_info``. A range row, ordered by
    scope, then as the list has it: ``[range_start, range_end)`` u64 belongs to ``range_scope`` u32; none is empty.

    A scope is a DW_TAG_subprogram or DW_TAG_inlined_subroutine that states code ranges, and every such DIE around one
    of them up to its function, ranges or not (a function that a compiler left empty still names its inlined calls), and
    every inlined call inside these (Intel's compiler leaves out the ranges of some).
    ``names`` begins with ``LineColumns.names``, so that the ``name`` column of the rows indexes it too. ``function`` is
    the number of a scope's function in ``functions``, or ``symd.model.debug_info.NO_FUNCTION``, and ``line_ends`` u32
    is the line behind the last one that each of these can have (``lines.line_ends``). ``shared_units`` are the numbers
    of the units in which several functions are scopes.
    """

    parent: U32
    name: U32
    linkage_name: U32
    inlined: U8
    call_file: U32
    call_line: U32
    call_column: U32
    unit: U32
    range_scope: U32
    range_start: U64
    range_end: U64
    function: U32
    functions: FunctionColumns
    line_ends: U32
    names: tuple[str, ...] = ("",)
    warnings: tuple[str, ...] = ()
    shared_units: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.parent)

    @classmethod
    def empty(cls) -> ScopeColumns:
        u32, u64 = np.zeros(0, np.uint32), np.zeros(0, np.uint64)
        u8 = np.zeros(0, np.uint8)
        return cls(u32, u32, u32, u8, u32, u32, u32, u32, u32, u64, u64, u32, FunctionColumns.empty(), u32)


def read_lines(sections: DebugSections, units: Units | None = None) -> LineColumns:
    """What ``lines.read_tables`` reads, seen by NumPy. Raises what that raises."""
    return line_columns([read_tables(sections, units)])[0]


def line_columns(objects: Sequence[LineTables]) -> list[LineColumns]:
    """The line tables of objects that share their rows, seen by NumPy."""
    rows = objects[0].rows
    address = np.frombuffer(rows.address, np.uint64)
    file, line, column = (np.frombuffer(each, np.uint32) for each in (rows.file, rows.line, rows.column))
    flags = np.frombuffer(rows.flags, np.uint8)
    ends, program = np.frombuffer(rows.ends, np.int64), np.frombuffer(rows.program, np.uint32)
    found = []
    for tables in objects:
        own, sequences = tables.rows_at, tables.sequences_at
        lines = LineColumns(
            address[own],
            file[own],
            line[own],
            column[own],
            flags[own],
            ends[sequences],
            program[sequences],
            files=tables.files,
            tables=tuple([header.offset for header in tables.headers]),
            file_maps=tables.file_maps,
            warnings=tables.warnings,
        )
        found.append(lines if tables.calls is None else _with_calls(lines, tables.calls))
    return found


def _with_calls(lines: LineColumns, found: InlinedCalls) -> LineColumns:
    site, name, written_site, written_name = (
        np.frombuffer(each, np.uint32) for each in (found.site, found.name, found.written_site, found.written_name)
    )
    calls = RowCalls(site, name, written_site, written_name, np.frombuffer(found.doubt, np.uint8))
    return replace(lines, calls=calls, names=found.names)


class DieRanges(NamedTuple):
    """The addresses [start, end) of DIEs, in order; ``which`` is the number of each one's DIE. None is empty."""

    which: I64
    start: U64
    end: U64


def die_ranges(rows: DieRows) -> DieRanges:
    """The ranges of DIEs, seen by NumPy."""
    ranges = rows.ranges
    return DieRanges(
        np.frombuffer(ranges.which, np.uint32).astype(np.int64),
        np.frombuffer(ranges.start, np.uint64),
        np.frombuffer(ranges.stop, np.uint64),
    )


def unit_ranges(sections: DebugSections, units: Sequence[Unit]) -> DieRanges:
    """The code ranges that the first DIE of each unit states, by the index of the unit."""
    rows, _ = read_rows(sections, units, (), only_first=True)
    found = die_ranges(rows)
    unit = np.frombuffer(rows.column("unit"), np.uint32)
    return found._replace(which=unit[found.which].astype(np.int64))


_WITH_ALL_PATHS = 5
"""The version of DWARF whose line tables name their own folder."""


def read_scopes(sections: DebugSections, lines: LineColumns, units: Units | None = None) -> ScopeColumns:
    """Decode the functions and inlined calls of every unit of ``.debug_info``.

    ``lines`` is ``read_lines(sections)``: call files are looked up in its tables, and its names come first in the
    result's. ``units`` is ``read_units(sections)``, read here when it is not given. DWARF 2 to 5, all forms, vendor
    attributes and tags passed over by form.

    Names are the DIE's own or those of DW_AT_specification and DW_AT_abstract_origin, through any units, up to 32
    steps. Lexical blocks and other DIEs between a scope and its parent are looked through; a subprogram has no parent.
    Ranges are DW_AT_low_pc with DW_AT_high_pc, or DW_AT_ranges; empty ones are left out.

    A unit whose tree cannot be followed is left out whole, with a warning; a name, an address or a range list that
    leads out of its section is left out alone, and one warning a section counts them. Raises Malformed when there are
    units and not one of them can be read; LimitExceeded for range lists or abbreviations that overlap without end, and
    for more entries than ``sections.budget`` has left.
    """
    units = read_units(sections) if units is None else units
    objects = [ScopeSource(sections, lines, units)]
    return scope_columns(objects, read_scope_dies(objects))[0]


class ScopeSource(NamedTuple):
    """What the scopes of an object are read from."""

    sections: DebugSections
    lines: LineColumns
    units: Units


class ScopeDies(NamedTuple):
    """The functions and inlined calls of some objects: what was read of each, and its ``warnings`` so far."""

    rows: DieRows
    objects: Sequence[ReadObject]
    warnings: Sequence[Warnings]


def read_scope_dies(objects: Sequence[ScopeSource]) -> ScopeDies:
    """What ``scope_columns`` makes scopes of. Raises what ``read_scopes`` raises."""
    for sections, _, units in objects:
        sections.spend(sum([unit.end - unit.dies for unit in units.units]), sections.info.name)
    dies, read = read_rows_of([(each.sections, each.units.units) for each in objects], SCOPES)
    every = []
    for (sections, lines, units), (_, _, left_out, _) in zip(objects, read, strict=True):
        warnings = Warnings(units.warnings)
        for index, error in left_out:
            warnings.add(f"{sections.info.name}+{units.units[index].offset:#x}: unit left out: {error}")
        none_is_left = warnings and len(left_out) == len(units.units)
        if none_is_left and not (len(lines) and _rows_alone_are_sound(sections, warnings)):
            raise Malformed(f"no unit can be read: {warnings.all()[0]}", where=sections.info.name)
        every.append(warnings)
    return ScopeDies(dies, read, every)


def _rows_alone_are_sound(sections: DebugSections, warnings: Warnings) -> bool:
    """Whether units are lost for a form alone that is not known, and line tables need none: those of DWARF 5 have all
    paths."""
    wide = sections.lines.data[:4] == b"\xff" * 4
    version = int.from_bytes(sections.lines.data[12:14] if wide else sections.lines.data[4:6], "little")
    return version >= _WITH_ALL_PATHS and all(UNKNOWN_FORM in each for each in warnings.all())


def scope_columns(objects: Sequence[ScopeSource], of: ScopeDies) -> list[ScopeColumns]:
    """The scopes among the functions and inlined calls of all units of each object, seen by NumPy. Their names come
    behind those of the object's lines. Raises LimitExceeded where strings overlap without end."""
    dies, read, warnings = of
    names = [Names(lines.names) for _, lines, _ in objects]
    found = core.read_scopes(
        dies,
        [rows for rows, *_ in read],
        [unit.number for each in objects for unit in each.units.units],
        [table for _, lines, units in objects for table in maps_of_units(lines.file_maps, units.units)],
        [StringReader(each.sections) for each in objects],
        names,
    )
    start, stop = np.frombuffer(dies.ranges.start, np.uint64), np.frombuffer(dies.ranges.stop, np.uint64)

    scopes = np.frombuffer(found.scopes, np.uint32).reshape(len(core.SCOPE_COLUMNS), -1)
    functions = np.frombuffer(found.functions, np.uint32).reshape(len(core.FUNCTION_COLUMNS), -1)
    every_name = [each.all() for each in names]
    ends = np.frombuffer(line_ends(found, every_name), np.uint32)
    inlined = np.frombuffer(found.inlined, np.uint8)
    range_scope = np.frombuffer(found.range_scope, np.uint32)
    made = []
    scope = function = range_ = 0
    for number, (source, known) in enumerate(zip(objects, read, strict=True)):
        _warn_of_missing(warnings[number], source.sections, (*known.missing, found.missing_names[number]))
        own = slice(scope, scope := found.scope_ends[number])
        own_functions = slice(function, function := found.function_ends[number])
        own_ranges = slice(range_, range_ := known.ranges)
        parent, name, linkage_name, call_file, call_line, call_column, unit, of_function = scopes[:, own]
        made.append(
            ScopeColumns(
                parent,
                name,
                linkage_name,
                inlined[own],
                call_file,
                call_line,
                call_column,
                unit,
                range_scope[own_ranges],
                start[own_ranges],
                stop[own_ranges],
                of_function,
                FunctionColumns(*functions[:, own_functions]),
                ends[own_functions],
                every_name[number],
                warnings[number].all(),
                found.shared_units[number],
            )
        )
    return made


def _warn_of_missing(warnings: Warnings, sections: DebugSections, missing: tuple[int, ...]) -> None:
    """Say how many references of an object lead nowhere."""
    if any(missing):
        of_sections = sections.string_offsets, sections.addresses, sections.range_lists
        places = *(each.name for each in of_sections), "range sections", "string sections"
        for place, count in zip(places, missing, strict=True):
            if count:
                warnings.add(f"left out: {counted(count, 'reference')} out of {place}")
