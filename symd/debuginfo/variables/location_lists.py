"""Location lists: where a variable is, by address. ``ListReader`` finds the list that an attribute refers to through
its unit. They also tell the code of a function's variables that lies outside of the function, as Intel's compiler
writes it (``stray_ranges``): the range does not say whose code that is.

Sources: DWARF 4, 2.6.2 (``.debug_loc``); DWARF 5, 7.7.3 (``.debug_loclists``), with every kind of entry and GNU's view
pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import NamedTuple

import numpy as np

from symd.debuginfo.dwarf import At, Form
from symd.debuginfo.dwarf.columns import ScopeColumns
from symd.debuginfo.dwarf.forms import Cursor
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import BlocksOf, Listed, Unit, Units, outside_of_functions
from symd.debuginfo.dwarf.variable_constants import GnuLle, Lle
from symd.debuginfo.relocation import LinearLayout
from symd.debuginfo.text_ranges import text_spans
from symd.debuginfo.variables import DieReader, Value
from symd.errors import LimitExceeded, Malformed
from symd.model.debug_info import TextSpans

_PAIRS = {size: Struct(f"<2{letter}") for size, letter in ((2, "H"), (4, "I"), (8, "Q"))}
"""Two addresses of so many bytes."""
_ADDRESS = (1 << 64) - 1
"""Sums of a base and an offset are addresses modulo 2**64, as llvm-dwarfdump has them."""


class ListEntry(NamedTuple):
    """An entry of a location list (DWARF 5, 2.6.2): ``[start, end)`` in the linear address space, and the expression
    that holds there. ``default`` marks the entry for every address that no other covers; it has no range."""

    start: int
    end: int
    expression: bytes
    default: bool = False


class ListUnit(NamedTuple):
    """What a list needs to know of its unit: sizes in bytes, the base address, and entries of ``.debug_addr``. A split
    unit's lists begin at ``lists_base`` of their section; None for other units."""

    version: int
    address_size: int
    offset_size: int
    low_pc: int
    address: Callable[[int], int | None]
    lists_base: int | None = None


@dataclass(slots=True)
class ListEntryBudget:
    """Entries that all lists of one question may have together."""

    entries: int = 150_000


def read(sections: DebugSections, unit: ListUnit, offset: int, budget: ListEntryBudget) -> list[ListEntry]:
    """The entries of the list at ``offset`` of the unit's section, in order, empty ranges left out. Raises Malformed
    for a list that does not end or holds an unknown entry, LimitExceeded when the budget is spent."""
    section = sections.location_lists if unit.version >= 5 else sections.locations
    data = section.data
    cursor = Cursor(data, section.name, offset, len(data))
    if offset > len(data):
        raise cursor.fail("a location list begins behind the section's end")
    found: list[ListEntry] = []
    for entry in _entries(unit)(cursor, unit):
        budget.entries -= 1
        if budget.entries < 0:
            raise LimitExceeded("location lists overlap without end", where=f"{section.name}+{offset:#x}")
        if entry is not None and (entry.default or entry.start < entry.end):
            found.append(entry)
    return found


def offset_of(sections: DebugSections, unit: ListUnit, base: int, index: int) -> int:
    """The place of list number ``index`` (DW_FORM_loclistx) in ``.debug_loclists``, where the unit's offsets of lists
    begin at ``base``. Raises Malformed for a number that the table does not have."""
    section = sections.location_lists
    data = section.data
    count = Cursor(data, section.name, base - 4, len(data)).unsigned(4) if base >= 4 else 0  # (DWARF 5, 7.29)
    if index >= count:
        raise Cursor(data, section.name, base, len(data)).fail(f"location list {index} of {count} is not there")
    at = base + index * unit.offset_size
    return base + Cursor(data, section.name, at, len(data)).unsigned(unit.offset_size)


def _entries(unit: ListUnit) -> Callable[[Cursor, ListUnit], Iterator[ListEntry | None]]:
    if unit.version >= 5:
        return _new
    return _old if unit.lists_base is None else _old_split


def _old_split(cursor: Cursor, unit: ListUnit) -> Iterator[ListEntry | None]:
    """``.debug_loc.dwo`` of DWARF 4: kinds as ``GnuLle``, addresses by index, expressions as in ``.debug_loc``."""
    base: int | None = unit.low_pc
    while (kind := cursor.unsigned(1)) != GnuLle.DW_LLE_GNU_end_of_list_entry:
        if kind == GnuLle.DW_LLE_GNU_base_address_selection_entry:
            base = unit.address(cursor.uleb())
            yield None
            continue
        start, end = _old_split_range(cursor, unit, kind, base)
        expression = _bytes(cursor, cursor.unsigned(2))
        yield None if start is None or end is None else ListEntry(start & _ADDRESS, end & _ADDRESS, expression)


def _old_split_range(cursor: Cursor, unit: ListUnit, kind: int, base: int | None) -> tuple[int | None, int | None]:
    if kind == GnuLle.DW_LLE_GNU_start_end_entry:
        return unit.address(cursor.uleb()), unit.address(cursor.uleb())
    if kind == GnuLle.DW_LLE_GNU_start_length_entry:
        start, length = unit.address(cursor.uleb()), cursor.unsigned(4)
        return start, None if start is None else start + length
    if kind == GnuLle.DW_LLE_GNU_offset_pair_entry:
        first, last = cursor.unsigned(4), cursor.unsigned(4)
        return (None, None) if base is None else (base + first, base + last)
    raise cursor.fail(f"location list entry kind {kind:#x} is not known")


def _old(cursor: Cursor, unit: ListUnit) -> Iterator[ListEntry | None]:
    """Pairs of addresses with an expression up to a pair of zeros; a first address of all ones sets the base."""
    pair = _PAIRS[unit.address_size]
    base, mask = unit.low_pc, (1 << 8 * unit.address_size) - 1
    while True:
        start, end = pair.unpack_from(cursor.data, cursor.skip(pair.size))
        if not start and not end:
            return
        if start == mask:
            base = end
            yield None
            continue
        expression = _bytes(cursor, cursor.unsigned(2))
        yield ListEntry((base + start) & mask, (base + end) & mask, expression)


def _new(cursor: Cursor, unit: ListUnit) -> Iterator[ListEntry | None]:
    base: int | None = unit.low_pc
    while (kind := cursor.unsigned(1)) != Lle.DW_LLE_end_of_list:
        if kind == Lle.DW_LLE_base_addressx:
            base = unit.address(cursor.uleb())
            yield None
        elif kind == Lle.DW_LLE_base_address:
            base = cursor.address(unit.address_size)
            yield None
        elif kind == Lle.DW_LLE_GNU_view_pair:
            cursor.uleb()
            cursor.uleb()
            yield None
        else:
            start, end = _range(cursor, unit, kind, base)
            expression = _bytes(cursor, cursor.uleb())
            if kind == Lle.DW_LLE_default_location:
                yield ListEntry(0, 0, expression, default=True)
            elif start is None or end is None:
                yield None
            else:
                yield ListEntry(start & _ADDRESS, end & _ADDRESS, expression)


def _range(cursor: Cursor, unit: ListUnit, kind: int, base: int | None) -> tuple[int | None, int | None]:
    """The operands of one entry; None where ``.debug_addr`` lacks the address."""
    if kind == Lle.DW_LLE_default_location:
        return None, None
    if kind == Lle.DW_LLE_startx_endx:
        return unit.address(cursor.uleb()), unit.address(cursor.uleb())
    if kind == Lle.DW_LLE_startx_length:
        return _sized(unit.address(cursor.uleb()), cursor.uleb())
    if kind == Lle.DW_LLE_offset_pair:
        start, end = cursor.uleb(), cursor.uleb()
        return (None, None) if base is None else (base + start, base + end)
    if kind == Lle.DW_LLE_start_end:
        return cursor.address(unit.address_size), cursor.address(unit.address_size)
    if kind == Lle.DW_LLE_start_length:
        return _sized(cursor.address(unit.address_size), cursor.uleb())
    raise cursor.fail(f"location list entry of unknown kind {kind:#x}", cursor.at - 1)


def _sized(start: int | None, length: int) -> tuple[int | None, int | None]:
    return (None, None) if start is None else (start, start + length)


def _bytes(cursor: Cursor, size: int) -> bytes:
    start = cursor.skip(size)
    return cursor.data[start : cursor.at]


_OFFSETS_BEFORE_DWARF_4 = frozenset({Form.DW_FORM_data4, Form.DW_FORM_data8})


class ListReader:
    """Reads lists of one object until ``budget`` is spent."""

    def __init__(self, dies: DieReader, budget: ListEntryBudget) -> None:
        self.dies = dies
        self._budget = budget

    @classmethod
    def of(cls, sections: DebugSections, units: Units) -> ListReader:
        """A reader of the lists of an object of which nothing else is read."""
        return cls(DieReader(sections, units), ListEntryBudget())

    def entries(self, unit: Unit, value: Value) -> list[ListEntry] | None:
        """The entries of the list that ``value``, which is in ``unit``, refers to; None where it refers to none.
        Raises Malformed and LimitExceeded."""
        if value.form == Form.DW_FORM_loclistx:
            sections, listed = self.dies.sections, _list_unit(self.dies, unit)
            offset = offset_of(sections, listed, self._base(unit, listed), value.number)
            return read(sections, listed, offset, self._budget)
        if value.form == Form.DW_FORM_sec_offset or (value.form in _OFFSETS_BEFORE_DWARF_4 and unit.version < 4):
            return self.at(unit, value.number)
        return None

    def at(self, unit: Unit, offset: int) -> list[ListEntry]:
        """The entries of the list at an offset that ``unit`` states. Raises Malformed and LimitExceeded."""
        listed = _list_unit(self.dies, unit)
        return read(self.dies.sections, listed, offset + (listed.lists_base or 0), self._budget)

    def _base(self, unit: Unit, listed: ListUnit) -> int:
        """Where the unit's lists that are called by number begin."""
        top = self.dies.top(unit)
        stated = top.attributes.get(At.DW_AT_loclists_base) if top is not None else None
        header = 12 if unit.widths.offset == 4 else 20
        return header + (listed.lists_base or 0) if stated is None else stated.number


def _list_unit(dies: DieReader, unit: Unit) -> ListUnit:
    own = unit.contributions
    return ListUnit(
        unit.version,
        unit.widths.address,
        unit.widths.offset,
        unit.low_pc,
        partial(dies.address_entry, unit),
        None if own is None else own.location_lists if unit.version >= 5 else own.locations,
    )


class StraySource(NamedTuple):
    """An object whose text may have strays: ``scopes`` are its scopes, and ``layout`` places its text."""

    sections: DebugSections
    units: Units
    scopes: ScopeColumns
    layout: LinearLayout


def stray_ranges(objects: Sequence[StraySource]) -> list[TextSpans]:
    """For each object the text of blocks and variables that lies outside their functions, in the units in which several
    functions have code or should have. What cannot be read of one object alone is left out. Raises Malformed,
    LimitExceeded where that is so of one of several."""
    blocks = [
        BlocksOf(sections, [each for each in units.units if each.number in scopes.shared_units], listed)
        for sections, units, scopes, _ in objects
        for listed in [listed_ranges(sections, units)]
    ]
    try:
        found = outside_of_functions(blocks)
    except (Malformed, LimitExceeded):
        if len(objects) > 1:
            raise
        found = [[]]  # who asks for these variables is told
    return [_text(of.layout, outside) for of, outside in zip(objects, found, strict=True)]


def _text(layout: LinearLayout, outside: Sequence[tuple[int, int]]) -> TextSpans:
    if not outside:
        return TextSpans.empty()
    start, end = np.array(outside, np.uint64).reshape(-1, 2).T
    return text_spans(layout, start, end)


def listed_ranges(sections: DebugSections, units: Units) -> Listed:
    """What reads location lists for ``outside_of_functions``; nothing is read before the first one is asked for."""
    readers: list[ListReader] = []

    def listed(unit: Unit, place: int, offset: int | None) -> list[tuple[int, int]]:
        if not readers:
            readers.append(ListReader.of(sections, units))
        lists = readers[0]
        if offset is not None:
            entries = lists.at(unit, offset)
        else:
            die = lists.dies.at(place)
            value = None if die is None else die.attributes.get(At.DW_AT_location)
            entries = [] if value is None or value.is_block else lists.entries(unit, value) or []
        return [(entry.start, entry.end) for entry in entries if not entry.default]

    return listed
