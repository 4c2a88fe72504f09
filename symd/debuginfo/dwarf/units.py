"""The units of ``.debug_info`` (DWARF 5, 7.5.1): headers, and what the first DIE of each says about the whole unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symd.core.unit_headers import UnitReader
from symd.debuginfo.dwarf.abbreviations import AbbreviationTables, Table
from symd.debuginfo.dwarf.forms import Widths
from symd.debuginfo.dwarf.sections import DebugSections, Warnings
from symd.debuginfo.dwarf.split_units import Contributions
from symd.errors import Malformed, SymdError, Unsupported
from symd.formats.budget import beyond
from symd.model.named_tuples import NamedTuple

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from typing import Any, Self


class Unit:
    """One compile, partial or skeleton unit: ``.debug_info[offset:end]``, its first DIE at ``dies``.

    ``stmt_list`` is the offset of its line table, or None; ``low_pc`` the base of its range lists; the ``*_base``
    numbers are offsets into ``.debug_str_offsets``, ``.debug_addr`` and ``.debug_rnglists``. ``states_addr_base`` tells
    whether the unit says so itself (DW_AT_addr_base).

    A skeleton unit and the split unit that belongs to it have the same ``dwo_id``; ``dwo_name`` is the file in which the
    skeleton's is. In a split unit (``contributions``) all that the skeleton says holds; offsets of range lists count from
    ``ranges_base``. ``table`` are its abbreviations; None where it has no DIE.
    """

    __slots__ = (
        "abbreviations", "addr_base", "comp_dir", "contributions", "dies", "dwo_id", "dwo_name", "end", "has_children", "low_pc", "name", "number", "offset",
        "ranges_base", "rnglists_base", "states_addr_base", "stmt_list", "str_offsets_base", "table", "tag", "version", "widths",
    )  # fmt: skip

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
        self.table: Table | None = None

    def changed(self, **changes: Any) -> Self:
        """A copy of the unit with other values of some fields."""
        from copy import copy  # noqa: PLC0415 - slow to import, and one unit alone stays as it is

        found = copy(self)
        for name, value in changes.items():
            setattr(found, name, value)
        return found


class Units(NamedTuple):
    """The units that can be read, in order; ``warnings`` name the others.

    Where only some of an object's units are wanted (``selection``), ``skipped_tables`` are the offsets of the line
    tables that none of these refers to.

    In the place of a skeleton unit stands the split unit that belongs to it, where that is there.
    """

    units: tuple[Unit, ...]
    warnings: tuple[str, ...] = ()
    skipped_tables: frozenset[int] = frozenset()

    def missing_files(self) -> Iterator[str]:
        """What is to be said of units whose debug data stands in files that are not here."""
        for unit in self.units:
            if unit.dwo_name and unit.contributions is None:
                name = unit.dwo_name.decode("utf-8", "replace")
                yield f"debug data of {unit.name.decode('utf-8', 'replace') or 'a unit'} is in {name}, which is not here"


DEBUG_UNITS = 100_000
"""Units of DWARF in one code object."""


def read_units(sections: DebugSections, abbreviations: AbbreviationTables | None = None) -> Units:
    """Read the header and the first DIE of every unit of ``.debug_info``.

    Type units are passed over. A unit that cannot be read is left out with a warning, and one whose length leads out
    of the section ends the walk. Raises LimitExceeded for abbreviation tables that overlap without end, and for more
    than ``DEBUG_UNITS``. ``abbreviations`` are those of ``sections`` where somebody has begun to read them.
    """
    reader = _UnitReader(sections, abbreviations)
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

    def __init__(self, sections: DebugSections, abbreviations: AbbreviationTables | None = None) -> None:
        self._left = DEBUG_UNITS
        self.abbreviations = abbreviations or AbbreviationTables(sections.abbreviations, sections.budget)
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

    def _unit(self, number: int, start: int, stop: int, own: Contributions | None) -> Unit:
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
            contributions=own,
        )
        if own is not None:
            unit.abbreviations += own.abbreviations
        if code := read.code():
            unit.table = self.abbreviations.table(unit.abbreviations, widths)
            read.first_die(unit, unit.table.steps, code, own)
        return unit

    def _count(self) -> None:
        if not self._left:
            what = f"has more than {DEBUG_UNITS} units"
            raise beyond("debug_units", DEBUG_UNITS, what, self._sections.info.name)
        self._left -= 1
        if self._sections.budget is not None:
            self._sections.budget.count_headers(1, self._sections.info.name)

    def split_units(self) -> list[Unit]:
        """The units of ``.dwo`` files, which stand behind all others."""
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
