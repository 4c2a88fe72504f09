"""Many small objects decoded as if they were one: what NumPy costs however little there is to do, about a millisecond an
object, is paid once for all of them.

Their sections are laid end to end, and the places that units name count from the part of their object. An object about which
anything is unusual, and every place that leads out of its object, is refused as Malformed without saying more: who decodes that
object by itself is told what is wrong."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from symd.budget import DebugBudget
from symd.config import Limits
from symd.core.dies import HAS_LIST
from symd.dwarf.abbreviations import AbbreviationTables
from symd.dwarf.columns import LineColumns, ScopeColumns
from symd.dwarf.dies import NEW_LISTS, PARTS, DieColumns, read_dies
from symd.dwarf.line_header import TEXT_COLUMN, LineHeader, read_headers
from symd.dwarf.lines import assemble, number_files, run_programs
from symd.dwarf.paths import FilePaths
from symd.dwarf.scopes import SCOPES, scopes_of
from symd.dwarf.sections import DebugSections
from symd.dwarf.strings import IN_INFO, IN_LINE_STRINGS, IN_STRINGS, Names, StringReader, distinct_keys, key_places
from symd.dwarf.units import Unit, read_units
from symd.dwarf.warnings import Warnings
from symd.errors import Malformed
from symd.model.columns import I64, U32, U64
from symd.model.plain_answers import KERNEL_BODY

LARGEST = 1 << 16
"""Bytes of debug sections up to which an object is small: what overlaps in so few costs little."""
_MOST_UNITS = 2
_RANGE_BYTES = 1 << 16
"""What the range lists of an object may take together, if each were as long as their section."""
_ADDRESS = 8
_LIST_END = bytes(2 * _ADDRESS)
"""The end of a list in ``.debug_ranges``, of 64-bit addresses."""
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
        self._abbreviations: dict[bytes, AbbreviationTables] = {}
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
        abbreviations = self._abbreviations.get(sections.abbreviations.data)
        if abbreviations is None:  # most objects have those of another one
            abbreviations = AbbreviationTables(sections.abbreviations, sections.budget)
            self._abbreviations[sections.abbreviations.data] = abbreviations
        units = read_units(sections, self._of_units, abbreviations)
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
        return _read(JoinedObjects(self._objects), self._objects, self._limits, budget)


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
    dies = joined.dies(range(len(joined.units)), SCOPES)
    names = _NamesByObject(joined)
    scopes = scopes_of(joined.sections, line_columns, joined.units, dies, strings, names, warnings)
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


class JoinedObjects:
    """The sections of some objects end to end; units and headers of line tables are moved there."""

    def __init__(self, objects: Sequence[SmallObject]) -> None:
        contents, self.parts = {}, {}
        for role in _ROLES:
            name = getattr(objects[0].sections, role).name
            pieces = [getattr(each.sections, role).data for each in objects]
            size = np.array([len(piece) for piece in pieces], np.uint64)
            contents[name] = b"".join(pieces)
            self.parts[role] = _ObjectParts(np.cumsum(size, dtype=np.uint64) - size, size)
        self.sections = DebugSections.of(contents)
        edges = [
            column
            for role in PARTS
            for column in (self.parts[role].first, self.parts[role].first + self.parts[role].size)
        ]
        self._edges = [array("Q", row.tobytes()) for row in np.column_stack(edges)]
        for number, each in enumerate(objects):
            self._move(each, number)
        self.units = [unit for each in objects for unit in each.units]
        for place, unit in enumerate(self.units):
            unit.number = place
        self.headers = [header for each in objects for header in each.headers]
        self.object_of_unit = _numbers([each.units for each in objects])

    def dies(self, places: Sequence[int], tags: Collection[int], *, with_children: bool = False) -> DieColumns:
        """The DIEs of ``tags`` in the units of these places, as ``read_dies`` has them; ``unit`` is the place of each one's unit. Raises Malformed for
        whatever is unusual in a unit."""
        found = read_dies(
            self.sections,
            [self.units[place] for place in places],
            tags,
            with_children=with_children,
            parts=[self._edges[self.object_of_unit[place]] for place in places],
        )
        found = found._replace(unit=np.array(places, np.uint32)[found.unit])
        self._check_lists(found)
        return found

    def _check_lists(self, dies: DieColumns) -> None:
        """Raises Malformed where the range lists of an object may overlap, or are unusual: an object by itself has a limit of its own."""
        listed = np.flatnonzero(dies.has(HAS_LIST))
        units = dies.unit[listed]
        new = np.array([unit.version >= NEW_LISTS for unit in self.units], np.bool_)[units]
        for role, those in (("ranges", units[~new]), ("range_lists", units[new])):
            size = self.parts[role].size.astype(np.int64)
            if (np.bincount(self.object_of_unit[those], minlength=len(size)) * size > _RANGE_BYTES).any():
                raise Malformed("range lists may overlap", where=role)

    def _move(self, each: SmallObject, number: int) -> None:
        info, lines, offsets, addresses, lists = (
            int(self.parts[role].first[number])
            for role in ("info", "lines", "string_offsets", "addresses", "range_lists")
        )
        for unit in each.units:
            unit.offset, unit.end, unit.dies = unit.offset + info, unit.end + info, unit.dies + info
            unit.stmt_list = None if unit.stmt_list is None else unit.stmt_list + lines
            unit.str_offsets_base += offsets
            unit.addr_base += addresses
            unit.rnglists_base += lists
        for header in each.headers:
            header.offset, header.end = header.offset + lines, header.end + lines
            header.program, header.tables = header.program + lines, header.tables + lines


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
