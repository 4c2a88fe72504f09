"""The units of ``.debug_info`` (DWARF 5, 7.5.1): headers, what the first DIE of each says about the whole unit, and
their DIEs as the core reads them; those that hold some addresses, found without reading their DIEs, so that a question
about a large object does not wait for all of it; and the ranges of blocks and variables outside of their functions."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate

from symd.core import function_extents
from symd.core.byte_reader import Names, StringReader
from symd.core.dies import HAS_LOW, IS_EXTERNAL, DieRows
from symd.core.headers import UnitReader
from symd.core.line_program import places_of_set_address
from symd.core.range_lists import RangeRows, UnitParameters
from symd.debuginfo.dwarf import At, Tag, forms
from symd.debuginfo.dwarf.forms import AbbreviationTables, Table, Widths
from symd.debuginfo.dwarf.sections import Contributions, DebugSections, Warnings
from symd.errors import Malformed, SymdError, Unsupported
from symd.formats.budget import beyond
from symd.model.light_typing import Any, NamedTuple, Self


class Unit:
    """One compile, partial or skeleton unit: ``.debug_info[offset:end]``, its first DIE at ``dies``.

    ``stmt_list`` is the offset of its line table, or None; ``low_pc`` the base of its range lists; the ``*_base``
    numbers are offsets into ``.debug_str_offsets``, ``.debug_addr`` and ``.debug_rnglists``. ``states_addr_base`` tells
    whether the unit says so itself (DW_AT_addr_base).

    A skeleton unit and the split unit that belongs to it have the same ``dwo_id``; ``dwo_name`` is the file in which
    the skeleton's is. In a split unit (``contributions``) all that the skeleton says holds; offsets of range lists
    count from ``ranges_base``. ``table`` are its abbreviations; None where it has no DIE.
    """

    __slots__ = (
        "abbreviations", "addr_base", "comp_dir", "contributions", "dies", "dwo_id", "dwo_name", "end", "has_children", "low_pc", "name", "number", "offset",
        "ranges_base", "rnglists_base", "states_addr_base", "stmt_list", "str_offsets_base", "table", "tag", "version", "widths",
    )  # fmt: skip
    tag: int
    low_pc: int
    str_offsets_base: int
    addr_base: int
    rnglists_base: int
    ranges_base: int
    name: bytes
    comp_dir: bytes
    dwo_name: bytes
    states_addr_base: bool
    has_children: bool
    table: Table | None

    def __init__(
        self,
        number: int,
        offset: int,
        end: int,
        dies: int,
        version: int,
        widths: Widths,
        abbreviations: int,
        dwo_id: int | None = None,
        contributions: Contributions | None = None,
        stmt_list: int | None = None,
    ) -> None:
        """The header; the rest is what the first DIE says."""
        self.number, self.offset, self.end, self.dies, self.version = number, offset, end, dies, version
        self.widths, self.abbreviations, self.dwo_id, self.contributions = widths, abbreviations, dwo_id, contributions
        self.tag = self.low_pc = self.str_offsets_base = self.addr_base = self.rnglists_base = self.ranges_base = 0
        self.name = self.comp_dir = self.dwo_name = b""
        self.states_addr_base = self.has_children = False
        self.stmt_list = stmt_list
        self.table = None

    def changed(self, **changes: Any) -> Self:
        """A copy of the unit with other values of some fields. Raises AttributeError for what is no field."""
        found = object.__new__(type(self))
        for name in self.__slots__:
            setattr(found, name, getattr(self, name))
        for name, value in changes.items():
            setattr(found, name, value)
        return found


class Units(NamedTuple):
    """The units that can be read, in order; ``warnings`` name the others.

    Where only some of an object's units are wanted (``units_for_addresses``), ``skipped_tables`` are the offsets of the
    line tables that none of these refers to.

    In the place of a skeleton unit stands the split unit that belongs to it, where that is there.
    """

    units: tuple[Unit, ...]
    warnings: tuple[str, ...] = ()
    skipped_tables: frozenset[int] = frozenset()

    def missing_files(self) -> Iterator[str]:
        """What is to be said of units whose debug data is in files that are not here."""
        for unit in self.units:
            if unit.dwo_name and unit.contributions is None:
                name = unit.dwo_name.decode("utf-8", "replace")
                yield f"debug data of {unit.name.decode('utf-8', 'replace') or 'a unit'} is in {name}, which is not here"


DEBUG_UNITS = 100_000
"""Units of DWARF in one code object."""


def read_units(sections: DebugSections) -> Units:
    """Read the header and the first DIE of every unit of ``.debug_info``.

    Type units are passed over. A unit that cannot be read is left out with a warning, and one whose length leads out
    of the section ends the walk. Raises LimitExceeded for abbreviation tables that overlap without end, and for more
    than ``DEBUG_UNITS``.
    """
    reader = _UnitReader(sections)
    end = min((each.start for each in sections.info.split), default=len(sections.info.data))
    units = reader.units(0, end)
    if sections.info.split:
        units = _with_split(units, reader.split_units(), reader.warnings)
    return Units(tuple(units), reader.warnings.all())


def split_units(sections: DebugSections) -> tuple[Unit, ...]:
    """The units of ``.dwo`` files, whether the object has their skeletons or not."""
    return tuple(_UnitReader(sections).split_units())


class _UnitReader:
    """Reads units of ``.debug_info``; those that cannot be read are named in ``warnings``."""

    def __init__(self, sections: DebugSections) -> None:
        self._left = DEBUG_UNITS
        self.abbreviations = AbbreviationTables(sections.abbreviations, sections.budget)
        self.warnings = Warnings()
        self._sections, self._reader = sections, UnitReader(sections)

    def units(self, start: int, end: int, contributions: Contributions | None = None) -> list[Unit]:
        """The units of ``.debug_info[start:end]``; split ones where ``contributions`` are given."""
        found: list[Unit] = []
        info, at, end = self._sections.info, start, min(end, len(self._sections.info.data))
        while at < end:
            try:
                length = self._reader.length(at, end)
            except SymdError as error:
                self.warnings.add(f"the rest of the section is left out: {error}")
                break
            if length > end - self._reader.at:
                what = f"unit length {length:#x} passes the section's end"
                self.warnings.add(f"{info.name}+{at:#x}: the rest is left out: {what}")
                break
            stop = self._reader.at + length
            self._count()
            try:
                if self._reader.header(stop):
                    found.append(self._unit(len(found), at, stop, contributions))
            except (Malformed, Unsupported) as error:
                self.warnings.add(f"{info.name}+{at:#x}: unit left out: {error}")
            at = stop
        return found

    def _unit(self, number: int, start: int, stop: int, contributions: Contributions | None) -> Unit:
        """The one whose header was read."""
        read = self._reader
        widths = Widths(
            read.address_size, read.offset_size, read.address_size if read.version == 2 else read.offset_size
        )
        unit = Unit(
            number,
            start,
            stop,
            read.at,
            read.version,
            widths,
            read.table_offset,
            dwo_id=read.dwo_id,
            contributions=contributions,
        )
        if contributions is not None:
            unit.abbreviations += contributions.abbreviations
        if code := read.code():
            unit.table = self.abbreviations.table(unit.abbreviations, widths)
            read.first_die(unit, unit.table.steps, code, contributions)
        return unit

    def _count(self) -> None:
        if not self._left:
            what = f"has more than {DEBUG_UNITS} units"
            raise beyond("debug_units", DEBUG_UNITS, what, self._sections.info.name)
        self._left -= 1
        if self._sections.budget is not None:
            self._sections.budget.count_header(self._sections.info.name)

    def split_units(self) -> list[Unit]:
        """The units of ``.dwo`` files, which are behind all others."""
        return [unit for each in self._sections.info.split for unit in self.units(each.start, each.end, each)]


def _with_split(units: Sequence[Unit], split: Sequence[Unit], warnings: Warnings) -> list[Unit]:
    """``units`` with split units, which come last, in the place of their skeletons."""
    skeletons = {unit.dwo_id: unit for unit in units if unit.dwo_id is not None}
    first = {unit.dwo_id: unit for unit in reversed(split)}
    found = [
        unit.changed(
            comp_dir=skeletons[unit.dwo_id].comp_dir,
            stmt_list=skeletons[unit.dwo_id].stmt_list,
            low_pc=skeletons[unit.dwo_id].low_pc,
            addr_base=skeletons[unit.dwo_id].addr_base,
            ranges_base=_ranges_base(unit, skeletons[unit.dwo_id]),
        )
        for unit in split
        if unit.dwo_id in skeletons and first[unit.dwo_id] is unit
    ]
    if len(found) < len(split):
        warnings.add(
            f"{len(split) - len(found)} split units belong to no unit of this object: they are of another build"
        )
    known = {unit.dwo_id for unit in found}
    kept = [unit for unit in units if unit.dwo_id is None or unit.dwo_id not in known]
    return [unit.changed(number=number) for number, unit in enumerate([*kept, *found])]


def _ranges_base(unit: Unit, skeleton_unit: Unit) -> int:
    """What offsets of range lists in a split unit count from: those of DWARF 4 are lists of the object itself."""
    if unit.version < 5 or unit.contributions is None:
        return skeleton_unit.ranges_base
    return unit.contributions.range_lists


SCOPES = (Tag.DW_TAG_subprogram, Tag.DW_TAG_inlined_subroutine)
"""The tags of functions and inlined calls."""


class ReadObject(NamedTuple):
    """What was read of one object of several: ``rows`` and ``ranges`` are how many there are up to its end.
    ``left_out`` are the units that cannot be followed, each by its index among the object's, and what is wrong with it.
    ``missing`` counts the references that lead out of ``.debug_str_offsets``, ``.debug_addr`` and ``.debug_rnglists``,
    and the lists of ranges that are damaged."""

    rows: int
    ranges: int
    left_out: Sequence[tuple[int, Malformed]]
    missing: tuple[int, int, int, int]


def read_rows(
    sections: DebugSections,
    units: Sequence[Unit],
    tags: Collection[int],
    *,
    with_children: bool = False,
    only_first: bool = False,
) -> tuple[DieRows, Sequence[tuple[int, Malformed]]]:
    """``read_rows_of`` one object, and the units that are left out."""
    rows, [found] = read_rows_of([(sections, units)], tags, with_children=with_children, only_first=only_first)
    return rows, found.left_out


def read_rows_of(
    objects: Sequence[tuple[DebugSections, Sequence[Unit]]],
    tags: Collection[int],
    *,
    with_children: bool = False,
    only_first: bool = False,
) -> tuple[DieRows, list[ReadObject]]:
    """The DIEs of ``tags`` in some units of one object after the other, and all that have children where
    ``with_children``; the first of each unit where ``only_first``. Rows number the units of all objects. A unit whose
    tree cannot be followed is left out whole. Raises LimitExceeded for range lists that overlap without end, and for
    more DIEs than the budget of the first one's sections has left."""
    budget, where = objects[0][0].budget, objects[0][0].info.name
    counted = 0

    def check(number: int) -> None:
        if budget is not None:
            budget.check(number - counted, where)

    ranges_before = 0

    def check_ranges(number: int) -> None:
        if budget is not None:
            budget.check(number - ranges_before, where)

    ranges = RangeRows(check_rows=check_ranges)
    rows = DieRows()
    rows.begin(ranges, tags, with_children, check)
    found, first_number = [], 0
    for sections, units in objects:
        info, lists = sections.info.data, sections.range_lists.data
        ranges.open(sections.ranges.data, lists, sections.addresses.data)
        rows.open(info, sections.string_offsets.data, lists)
        left_out: list[tuple[int, Malformed]] = []
        for index, unit in enumerate(units):
            if unit.table is None:
                continue
            entries, ranges_before = ranges.entries, ranges.count
            try:
                rows.read(to_core(unit, first_number + index), unit.table.steps, only_first)
            except Malformed as error:
                left_out.append((index, error))
            if budget is not None:
                budget.count(rows.count - counted, where)
                budget.spend(ranges.entries - entries, where)
            counted = rows.count
        first_number += len(units)
        missing = rows.missing_offsets, ranges.missing, rows.missing_lists, ranges.damaged
        found.append(ReadObject(rows.count, ranges.count, left_out, missing))
    ranges.trim()
    return rows, found


def to_core(unit: Unit, number: int) -> UnitParameters:
    """A unit as the core takes it, which numbers it so in its rows."""
    return UnitParameters(
        number,
        unit.offset,
        unit.dies,
        unit.end,
        unit.version,
        unit.widths.address,
        unit.widths.offset,
        unit.low_pc,
        unit.str_offsets_base,
        unit.addr_base,
        unit.rnglists_base,
        unit.ranges_base if unit.contributions else 0,  # DW_AT_GNU_ranges_base of a skeleton is for its split unit
    )


def external_functions(sections: DebugSections, units: Units) -> list[tuple[str, ...]]:
    """For each unit the names of the functions directly below its first DIE that say they are external and have code,
    in order. Raises Malformed where a unit's tree cannot be followed."""
    dies, left_out = read_rows(sections, units.units, (Tag.DW_TAG_subprogram,))
    for _, error in left_out:
        raise error
    columns = (dies.column(each) for each in ("depth", "flags", "name", "unit"))
    wanted = [
        (name, unit)
        for depth, flags, name, unit in zip(*columns, strict=True)
        if depth == 1 and name and flags & IS_EXTERNAL and flags & HAS_LOW
    ]
    names = Names()
    number, _ = names.intern(StringReader(sections), array("Q", [name for name, _ in wanted]))
    known = names.all()
    found: list[list[str]] = [[] for _ in units.units]
    for (_, unit), name in zip(wanted, number, strict=True):
        found[unit].append(known[name])
    return [tuple(each) for each in found]


_BYTES_A_STEP = 256
"""Bytes of a line table that are searched in about a microsecond at most."""
_Span = tuple[int, int]
"""Linear addresses [start, end), not empty."""


class UnitSelection(NamedTuple):
    """The units that are needed, and the linear addresses [start, end) for which they are all that is needed."""

    units: Units
    spans: Sequence[_Span]


def units_for_addresses(sections: DebugSections, units: Units, addresses: Sequence[int]) -> UnitSelection | None:
    """The units whose own ranges (DW_AT_ranges, or DW_AT_low_pc with DW_AT_high_pc) hold one of ``addresses``, and all
    units that state none. None where that leaves out nothing, or where what is left out could matter: an address that
    no unit claims, code that two claim, names that are in another unit, a line table with code outside its unit or of
    several units."""
    spans = _spans_of_units(sections, units.units)
    holders = [{n for n, each in spans.items() if any(start <= at < end for start, end in each)} for at in addresses]
    if not all(holders):
        return None
    held = set().union(*holders)
    chosen = [unit for unit in units.units if unit.number not in spans or unit.number in held]
    passed = [unit for unit in units.units if unit.number in spans and unit.number not in held]
    tables = {unit.stmt_list for unit in chosen} - {None}
    others = [unit.stmt_list for unit in passed if unit.stmt_list is not None]
    if not passed or len(set(others)) < len(others) or not tables.isdisjoint(others) or _refer_elsewhere(chosen):
        return None
    is_zero_dropped = all(start > 0 for each in spans.values() for start, _ in each)
    if not all(_begins_inside(sections, unit, spans[unit.number], is_zero_dropped) for unit in passed):
        return None
    mine = [span for unit in chosen for span in spans.get(unit.number, ())]
    if _overlap(mine, [span for unit in passed for span in spans[unit.number]]):
        return None
    kept = tuple(unit.changed(number=number) for number, unit in enumerate(chosen))
    skipped = frozenset(unit.stmt_list for unit in passed if unit.stmt_list is not None)
    return UnitSelection(units._replace(units=kept, skipped_tables=skipped), mine)


def _spans_of_units(sections: DebugSections, units: Sequence[Unit]) -> dict[int, list[_Span]]:
    """The code ranges that the first DIE of each unit states that states some, by the number of the unit."""
    rows, _ = read_rows(sections, units, (), only_first=True)
    unit, ranges = rows.column("unit"), rows.ranges
    found: dict[int, list[_Span]] = {}
    for which, start, end in zip(ranges.which, ranges.start, ranges.stop, strict=True):
        found.setdefault(units[unit[which]].number, []).append((start, end))
    return found


def _overlap(some: Sequence[_Span], others: Sequence[_Span]) -> bool:
    """Whether one of the first stretches shares an address with one of the others."""
    ordered = sorted(some)
    furthest = [0, *accumulate((end for _, end in ordered), max)]
    return any(furthest[bisect_left(ordered, (end,))] > start for start, end in others)


def _refer_elsewhere(chosen: Sequence[Unit]) -> bool:
    """Whether a name may be in another unit than the function."""
    return any(
        attribute.name in (At.DW_AT_abstract_origin, At.DW_AT_specification)
        and attribute.form not in forms.UNIT_REFERENCES
        for table in {id(unit.table): unit.table for unit in chosen}.values()
        if table is not None
        for abbreviation in table.every()
        for attribute in abbreviation.attributes
    )


def _begins_inside(sections: DebugSections, unit: Unit, spans: Sequence[_Span], is_zero_dropped: bool) -> bool:
    """Whether every sequence of the unit's line table begins in the unit's ranges, or where linkers put what they
    dropped. Bytes that look like DW_LNE_set_address count as one."""
    data, at = sections.lines.data, unit.stmt_list
    if at is None or len(data) < at + 4:
        return True
    # 64-bit tables begin with the largest number.
    end = min(at + 4 + int.from_bytes(data[at : at + 4], "little"), len(data))
    sections.spend((end - at) // _BYTES_A_STEP, sections.lines.name)
    ordered = sorted(spans)
    furthest = [*accumulate((last for _, last in ordered), max)]
    size = unit.widths.address
    top = 1 << 8 * size
    dropped = {top - 1, top - 2, 0} if is_zero_dropped else {top - 1, top - 2}
    for operand in places_of_set_address(data, at, end, size):
        address = int.from_bytes(data[operand : operand + size], "little")
        before = bisect_left(ordered, (address + 1,))
        if address not in dropped and not (before and address <= furthest[before - 1]):
            return False
    return True


Listed = Callable[[Unit, int, "int | None"], "list[tuple[int, int]]"]
"""The ranges [start, end) of a location list of a unit: of that at an offset of its section, or (None) of that which
the DIE at an offset refers to."""

_WITH_LISTS_OF_THEIR_OWN = 5
"""The version of DWARF from which on location lists have kinds of entries."""


class BlocksOf(NamedTuple):
    """Units of one object whose blocks and variables are looked at. ``listed`` is asked for the location lists of
    DWARF 5 and of split units."""

    sections: DebugSections
    units: Sequence[Unit]
    listed: Listed


def outside_of_functions(objects: Sequence[BlocksOf]) -> list[list[tuple[int, int]]]:
    """For each object the ranges of blocks and variables that lie outside their functions, as linear addresses [start,
    end). Raises Malformed, LimitExceeded, and what ``listed`` raises."""
    for sections, units, _ in objects:
        sections.spend(sum([unit.end - unit.dies for unit in units]), sections.info.name)
    rows, read = read_rows_of(
        [(each.sections, each.units) for each in objects], function_extents.TAGS, with_children=True
    )
    every = [(unit, each.listed) for each in objects for unit in each.units]
    core_units = [
        to_core(unit, number) if unit.version < _WITH_LISTS_OF_THEIR_OWN and unit.contributions is None else None
        for number, (unit, _) in enumerate(every)
    ]

    def other(number: int, die: int, offset: int | None) -> list[tuple[int, int]]:
        unit, listed = every[number]
        return listed(unit, die, offset)

    lists = [each.sections.locations.data for each in objects]
    found: list[list[tuple[int, int]]]
    found = function_extents.outside_of_functions(
        rows, [each.rows for each in read], core_units, RangeRows(), lists, other
    )
    return found
