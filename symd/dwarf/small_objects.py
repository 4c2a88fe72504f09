"""Many small objects decoded as if they were one: what NumPy costs however little there is to do, about a millisecond an
object, is paid once for all of them.

Their sections are laid end to end, and the places that units name count from the part of their object. An object about which
anything is unusual, and every place that leads out of its object, is refused as Malformed without saying more: who decodes that
object by itself is told what is wrong."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.budget import DebugBudget
from symd.config import Limits
from symd.dwarf import die_split
from symd.dwarf.abbreviations import Abbreviation, AbbreviationTables, read_declarations
from symd.dwarf.attributes import AttributeReader, ScopeAttributes
from symd.dwarf.bulk_read import Positions
from symd.dwarf.columns import LineColumns, ScopeColumns
from symd.dwarf.cursor import Cursor
from symd.dwarf.die_split import DieColumns
from symd.dwarf.forms import Widths
from symd.dwarf.line_header import TEXT_COLUMN, LineHeader, read_headers
from symd.dwarf.lines import assemble, number_files, run_programs
from symd.dwarf.paths import FilePaths
from symd.dwarf.scopes import functions_of, scopes_of
from symd.dwarf.sections import DebugSection, DebugSections
from symd.dwarf.strings import IN_INFO, IN_LINE_STRINGS, IN_STRINGS, Names, StringReader, distinct_keys, key_places
from symd.dwarf.units import Unit, Units, read_units
from symd.dwarf.warnings import Warnings
from symd.errors import Malformed
from symd.model.columns import I64, U8, U32, U64
from symd.model.plain_answers import KERNEL_BODY

LARGEST = 1 << 16
"""Bytes of debug sections up to which an object is small: what overlaps in so few costs little."""
_MOST_UNITS = 2
_RANGE_BYTES = 1 << 16
"""What the range lists of an object may take together, if each were as long as their section."""
_ADDRESS = 8
_LIST_END = bytes(2 * _ADDRESS)
"""The end of a list in ``.debug_ranges``, of 64-bit addresses."""
_NO_ENTRY = b"\x7f" * 32
"""Laid behind each part of ``.debug_rnglists``: wherever an entry that leads out of its part ends here, this is no entry."""
_ROLES = (
    "info",
    "lines",
    "strings",
    "line_strings",
    "string_offsets",
    "addresses",
    "ranges",
    "range_lists",
)
"""The sections that are laid end to end."""


class SmallObject(NamedTuple):
    """The debug sections of one object, its units, and the headers of its line tables."""

    sections: DebugSections
    units: Sequence[Unit]
    headers: Sequence[LineHeader]


class DecodedObjects(NamedTuple):
    """The columns of some objects, one object after the other. ``object_of_table`` and ``object_of_unit`` number the objects of
    the tables and units that the columns number. What ``LineColumns.files`` and ``ScopeColumns.names`` are to one object,
    ``files`` and ``names`` have for each."""

    joined: JoinedObjects
    lines: LineColumns
    scopes: ScopeColumns
    object_of_table: I64
    object_of_unit: I64
    files: Sequence[Sequence[str]]
    names: Sequence[Sequence[str]]


class SmallObjects:
    """Objects that are gathered, and then decoded together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._of_units = limits._replace(debug_units=min(limits.debug_units, _MOST_UNITS))
        self._abbreviations = _SharedAbbreviations()
        self._objects: list[SmallObject] = []

    def take(self, sections: DebugSections) -> bool:
        """Whether an object can be decoded with others; it is one of these then. Raises what ``read_units`` and ``read_lines``
        raise."""
        is_plain = not sections.info.split and _usual(sections) and TEXT_COLUMN not in sections.lines.data
        found = self._small(sections) if is_plain else None
        if found is not None:
            self._objects.append(found)
        return found is not None

    def _small(self, sections: DebugSections) -> SmallObject | None:
        self._abbreviations.budget = sections.budget
        units = read_units(sections, self._of_units, self._abbreviations.of(sections.abbreviations))
        if units.warnings or not units.units:
            return None
        if any(unit.widths.address != _ADDRESS or unit.dwo_id is not None or unit.dwo_name for unit in units.units):
            return None
        if any(KERNEL_BODY.encode() in each.data for each in (sections.strings, sections.info)):
            return None  # names are known by object, and too late
        size = len(sections.lines.data)
        if any(unit.stmt_list is not None and unit.stmt_list >= size for unit in units.units):
            return None
        strings, warnings = StringReader(sections), Warnings()
        headers = list(read_headers(sections.lines, strings, units.skipped_tables, warnings, self._limits))
        ends = [header.end for header in headers]
        if warnings or [*(header.offset for header in headers), size] != [0, *ends]:
            return None
        return SmallObject(sections, units.units, headers)

    def read(self, budget: DebugBudget) -> DecodedObjects:
        """Decode the line tables, functions and inlined calls of all; to be called once. Raises Malformed where one of them has
        to be decoded by itself, and LimitExceeded."""
        return _read(JoinedObjects(self._objects, self._abbreviations), self._objects, self._limits, budget)


def _usual(sections: DebugSections) -> bool:
    """Whether strings and range lists end inside their sections."""
    strings, ranges = (sections.strings.data, sections.line_strings.data), sections.ranges.data
    return (
        sum(len(getattr(sections, role).data) for role in _ROLES) <= LARGEST
        and all(not data or data.endswith(b"\0") for data in strings)
        and (not ranges or (len(ranges) % len(_LIST_END) == 0 and ranges.endswith(_LIST_END)))
    )


def _read(joined: JoinedObjects, objects: Sequence[SmallObject], limits: Limits, budget: DebugBudget) -> DecodedObjects:
    info, lines = joined.sections.info, joined.sections.lines
    joined.sections = joined.sections._replace(budget=budget)
    budget.count_headers(len(joined.headers), info.name)
    budget.spend(len(info.data), info.name)
    strings = StringReader(joined.sections, expansion=0)
    warnings = Warnings()
    rows, _ = run_programs(lines, joined.headers, warnings, limits, budget)
    if warnings or len(rows.context):
        raise Malformed("a line table is unusual", where=lines.name)
    numbered = [number_files(FilePaths(lines.name, limits), each.headers, each.units) for each in objects]
    maps: dict[int, U32] = {}
    for own, _ in numbered:
        maps.update(own)
    line_columns = assemble(strings, joined.headers, rows, maps, (), warnings)
    dies = joined.dies(range(len(joined.units)), die_split.matters)
    budget.count(len(dies[0].at), info.name)
    reader, names = joined.reader(), _NamesByObject(joined)
    units = Units(tuple(joined.units), joined.abbreviations)
    functions = functions_of(*dies, joined.abbreviations.all)
    scopes = scopes_of(joined.sections, line_columns, units, reader, strings, names, functions, warnings)
    if warnings:
        raise Malformed("something is left out", where=info.name)
    return DecodedObjects(
        joined,
        line_columns,
        scopes,
        _numbers([each.headers for each in objects]),
        joined.object_of_unit,
        [files for _, files in numbered],
        names.by_object(),
    )


def _numbers(each: Sequence[Sequence[object]]) -> I64:
    """The number of the object of each of their things."""
    return np.repeat(np.arange(len(each)), [len(things) for things in each])


class _ObjectParts(NamedTuple):
    """Where the part of each object begins in a section, and its size."""

    first: U64
    size: U64

    def of_place(self, place: I64) -> I64:
        """The object in whose part each place is; parts of no bytes hold none."""
        found: I64 = np.searchsorted(self.first.astype(np.int64), place, side="right") - 1
        return found

    def hold(self, place: U64, number: Positions, size: U64 | int = 1) -> bool:
        """Whether so many bytes at each place are in the part of the object of that number."""
        inside = place - self.first[number]  # far too large for a place before the part
        own = self.size[number]
        return bool(((inside < own) & (inside + size <= own)).all())


class JoinedObjects:
    """The sections of some objects end to end; units and headers of line tables are moved there."""

    def __init__(self, objects: Sequence[SmallObject], abbreviations: _SharedAbbreviations) -> None:
        contents, self.parts = {}, {}
        for role in _ROLES:
            name = getattr(objects[0].sections, role).name
            pieces = [getattr(each.sections, role).data for each in objects]
            size = np.array([len(piece) for piece in pieces], np.uint64)
            between = _NO_ENTRY if role == "range_lists" else b""
            contents[name] = b"".join(chain.from_iterable((piece, between) for piece in pieces))
            room = size + np.uint64(len(between))
            self.parts[role] = _ObjectParts(np.cumsum(room, dtype=np.uint64) - room, size)
        self.sections = DebugSections.of(contents)
        self._info = np.frombuffer(self.sections.info.data, np.uint8)
        self.abbreviations = abbreviations
        for number, each in enumerate(objects):
            self._move(each, number)
        self.units = [unit for each in objects for unit in each.units]
        for place, unit in enumerate(self.units):
            unit.number = place
        self.headers = [header for each in objects for header in each.headers]
        self.object_of_unit = _numbers([each.units for each in objects])

    def dies(self, units: Sequence[int], matters: Callable[[Abbreviation], bool]) -> tuple[DieColumns, Positions]:
        """The DIEs that matter in the units of these places, and the place of each one's unit. Raises Malformed where a unit is
        unusual."""
        chosen = [self.units[place] for place in units]
        found = die_split.split_small(self._info, chosen, self.abbreviations, matters)
        if found is None:
            raise Malformed("a unit is unusual", where=self.sections.info.name)
        return found[0], np.array(units, np.int64)[found[1]]

    def reader(self) -> AttributeReader:
        """Reads the attributes of these DIEs. Raises Malformed for a place that leads out of its object."""
        return _PartReader(self, self._info)

    def _move(self, each: SmallObject, number: int) -> None:
        info, lines, offsets, addresses, lists = (
            int(self.parts[role].first[number])
            for role in ("info", "lines", "string_offsets", "addresses", "range_lists")
        )
        table = self.abbreviations.first_of(each.sections.abbreviations)
        for unit in each.units:
            unit.offset, unit.end, unit.dies = unit.offset + info, unit.end + info, unit.dies + info
            unit.abbreviations += table
            unit.stmt_list = None if unit.stmt_list is None else unit.stmt_list + lines
            unit.str_offsets_base += offsets
            unit.addr_base += addresses
            unit.rnglists_base += lists
        for header in each.headers:
            header.offset, header.end = header.offset + lines, header.end + lines
            header.program, header.tables = header.program + lines, header.tables + lines


class _SharedAbbreviations(AbbreviationTables):
    """Those of several objects, each of which begins at an offset of its own; equal sections are one."""

    def __init__(self) -> None:
        super().__init__(DebugSection(".debug_abbrev", {}))
        self._sections: list[DebugSection] = []
        self._firsts: list[int] = []
        self._first_of: dict[bytes, int] = {}
        self._end = 0

    def of(self, section: DebugSection) -> _OwnAbbreviations:
        """The tables of one object."""
        return _OwnAbbreviations(section, self, self.first_of(section))

    def first_of(self, section: DebugSection) -> int:
        """Where a section begins."""
        data = section.data
        first = self._first_of.get(data)
        if first is None:
            first = self._first_of[data] = self._end
            self._sections.append(section)
            self._firsts.append(first)
            self._end += len(data) + 1
        return first

    def _parse(self, offset: int, widths: Widths) -> dict[int, Abbreviation]:
        which = bisect_right(self._firsts, offset) - 1
        section = self._sections[which]
        cursor = Cursor(section.data, section.name, offset - self._firsts[which], len(section.data))
        declared = read_declarations(cursor, widths)
        self.spend(cursor.at - offset + self._firsts[which])
        return {code: self.abbreviation(*declaration, widths) for code, declaration in declared.items()}


class _OwnAbbreviations(AbbreviationTables):
    """Those of one object among ``shared``."""

    def __init__(self, section: DebugSection, shared: _SharedAbbreviations, first: int) -> None:
        super().__init__(section, shared.budget)
        self._shared, self._first, self._size = shared, first, len(section.data)

    def table(self, offset: int, widths: Widths) -> Mapping[int, Abbreviation]:
        if offset > self._size:
            raise Malformed("a table begins behind the section's end", where="abbreviations")
        return self._shared.table(self._first + offset, widths)


class _PartReader(AttributeReader):
    """Reads attributes whose places count from the part of their object. Raises Malformed for one that leads out of it."""

    def __init__(self, joined: JoinedObjects, u8: U8) -> None:
        super().__init__(joined.sections, u8, joined.units)
        self._parts, self._object = joined.parts, joined.object_of_unit
        self._roles = {getattr(joined.sections, role).name: role for role in _ROLES}
        new = self.units.version >= 5
        lists = [self._parts[role].first[self._object] for role in ("ranges", "range_lists")]
        self.units = self.units._replace(ranges_base=np.where(new, lists[1], lists[0]))

    def read(
        self,
        abbreviations: list[Abbreviation],
        abbreviation: NDArray[np.int32],
        at: Positions,
        unit: Positions,
    ) -> ScopeAttributes:
        found = super().read(abbreviations, abbreviation, at, unit)
        for reference in (found.origin, found.specification):
            stated = np.flatnonzero(reference >= 0)
            self._check("info", reference[stated].astype(np.uint64), unit[stated])
        listed = np.flatnonzero(found.has_ranges)
        new = self.units.version[unit[listed]] >= 5
        for role, those in (("ranges", listed[~new]), ("range_lists", listed[new])):
            self._check(role, found.ranges[those], unit[those])
            count = np.bincount(self._object[unit[those]], minlength=len(self._parts[role].size))
            if (count * self._parts[role].size.astype(np.int64) > _RANGE_BYTES).any():
                raise Malformed("range lists may overlap", where=role)
        if (found.ranges[listed[~new]] % len(_LIST_END)).any():
            raise Malformed("a range list is unusual", where="ranges")
        return found

    def _check(self, role: str, place: U64, unit: Positions, size: U64 | int = 1) -> None:
        if not self._parts[role].hold(place, self._object[unit], size):
            raise Malformed("a place is in another object", where=role)

    def _moved(self, role: str, offset: U64, unit: Positions) -> U64:
        place = offset + self._parts[role].first[self._object[unit]]
        self._check(role, place, unit)
        return place

    def string_offsets(self, section: int, offset: U64, unit: Positions) -> U64:
        return offset if section == IN_INFO else self._moved(_STRING_ROLES[section], offset, unit)

    def info_offsets(self, offset: U64, unit: Positions) -> U64:
        return self._moved("info", offset, unit)

    def entries(
        self, section: DebugSection, bases: U64, widths: U64, index: U64, unit: Positions
    ) -> tuple[U64, NDArray[np.bool_]]:
        self._check(self._roles[section.name], bases[unit] + index * widths[unit], unit, widths[unit])
        return super().entries(section, bases, widths, index, unit)


_STRING_ROLES: Mapping[int, str] = {IN_STRINGS: "strings", IN_LINE_STRINGS: "line_strings"}


class _NamesByObject(Names):
    """A list of distinct strings for each object, by whose numbers its strings are called. Each is the list that ``Names`` makes
    of the object alone."""

    def __init__(self, joined: JoinedObjects) -> None:
        super().__init__()
        self._parts = {IN_INFO: joined.parts["info"], **{n: joined.parts[role] for n, role in _STRING_ROLES.items()}}
        self._known: list[dict[str, int]] = [{"": 0} for _ in joined.parts["info"].size]

    def by_object(self) -> list[tuple[str, ...]]:
        return [tuple(known) for known in self._known]

    def intern(self, strings: StringReader, keys: U64) -> tuple[U32, int]:
        """Raises Malformed for a place without a string."""
        distinct, where = distinct_keys(keys)
        texts: list[str] = []
        owners = []
        for _, section, offsets in key_places(distinct):
            texts += strings.texts(section, offsets)
            owners.append(self._parts[section].of_place(offsets))
        if len(texts) < len(distinct):
            raise Malformed("a string is missing", where="strings")
        owner = np.concatenate(owners) if owners else np.zeros(0, np.int64)
        order = np.argsort(owner, kind="stable")  # keys are ordered by section, then offset
        numbers = np.zeros(len(distinct), np.uint32)
        numbers[order] = [
            known.setdefault(texts[one], len(known))
            for one, known in zip(order.tolist(), map(self._known.__getitem__, owner[order].tolist()), strict=True)
        ]
        return numbers[where], 0
