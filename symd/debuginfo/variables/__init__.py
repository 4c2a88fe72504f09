"""Variables at one address: which are visible, of what type, and where each lives. Asked rarely, so nothing of it is in
an index: the debug sections are read when the question comes.

Here DIEs are read one at a time, with any attribute. The bulk decoder's units, abbreviations and DIE extents say where
each DIE begins and ends, which is enough to step over a subtree and to find the DIEs around an address."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from symd.core.byte_reader import IN_LINE_STRINGS, IN_STRINGS, StringReader
from symd.debuginfo.dwarf import At, Form, Tag, forms
from symd.debuginfo.dwarf.columns import DieRanges, die_ranges
from symd.debuginfo.dwarf.forms import Abbreviation, Cursor, ValueLayout
from symd.debuginfo.dwarf.sections import DebugSection, DebugSections
from symd.debuginfo.dwarf.units import Unit, Units, read_rows
from symd.model.columns import I64, U32

_SCOPES = (
    Tag.DW_TAG_subprogram, Tag.DW_TAG_inlined_subroutine, Tag.DW_TAG_lexical_block, Tag.DW_TAG_try_block, Tag.DW_TAG_catch_block,
    Tag.DW_TAG_with_stmt,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DieExtents:
    """The DIEs that have children, and every function, inlined call and block: equally long columns in the order of
    ``.debug_info``.

    ``at`` is where each begins, ``end`` where its subtree ends (``at`` itself where it has no children); ``unit`` is
    its unit's number, ``parent`` the row of the DIE around it, or -1; ``ranges`` are the code of all. ``notes`` name
    units that were left out.
    """

    at: I64
    end: I64
    tag: U32
    unit: I64
    parent: I64
    ranges: DieRanges
    notes: tuple[str, ...] = ()

    def around(self, at: int, most: int) -> list[int]:
        """Where the ``most`` nearest DIEs around ``at`` begin, innermost first."""
        slot = int(np.searchsorted(self.at, at)) - 1
        found: list[int] = []
        while slot >= 0 and len(found) < most:
            if self.end[slot] > at:
                found.append(int(self.at[slot]))
            slot = int(self.parent[slot])
        return found


def read(sections: DebugSections, units: Units) -> DieExtents:
    """The extents of all units; one whose tree cannot be followed is left out with a note."""
    sections.spend(sum(unit.end - unit.dies for unit in units.units), sections.info.name)
    rows, left_out = read_rows(sections, units.units, _SCOPES, with_children=True)
    notes = [
        f"{sections.info.name}+{units.units[index].offset:#x}: unit left out: {error}" for index, error in left_out
    ]
    at, end = (np.frombuffer(rows.column(name), np.int64) for name in ("offset", "end"))
    tag, unit, parent = (np.frombuffer(rows.column(name), np.uint32) for name in ("tag", "unit", "parent"))
    number = np.array([each.number for each in units.units], np.int64)[unit]
    return DieExtents(at, end, tag, number, parent.astype(np.int64) - 1, die_ranges(rows), tuple(notes))


_LINK_STEPS = 16
"""References that are followed from a DIE to the attribute it lacks, and forms that name each other in place; more are
a cycle."""
_CHILD_STEPS = 4
"""What a DIE takes that is passed over."""
_ATTRIBUTE_STEPS = 2
"""What an attribute takes, which may have no bytes."""
_BLOCKS = frozenset({ValueLayout.BLOCK1, ValueLayout.BLOCK2, ValueLayout.BLOCK4, ValueLayout.BLOCK})
_MAX_COPIED = 256
"""Bytes of a value that are copied out of the section at once."""


class Value(NamedTuple):
    """An attribute's value as it stands: ``number``, or the ``data`` of a block, an inline string or 16 bytes."""

    form: int
    number: int = 0
    held: bytes | memoryview | None = None
    """The data; where it is long, no copy: debug data may refer to a DIE at any offset, and all of them have the same
    bytes."""

    @property
    def data(self) -> bytes | None:
        return None if self.held is None else bytes(self.held)

    @property
    def is_block(self) -> bool:
        return self.held is not None and self.form != Form.DW_FORM_string

    @property
    def is_constant(self) -> bool:
        return self.form in forms.CONSTANTS


@dataclass(frozen=True, slots=True)
class Die:
    """One DIE: it begins at ``at`` of ``.debug_info``, and its attributes end at ``end``."""

    unit: Unit
    at: int
    tag: int
    has_children: bool
    attributes: dict[int, Value]
    end: int


class DieReader:
    """The DIEs of an object's relocated debug sections. A DIE that cannot be read raises Malformed."""

    def __init__(self, sections: DebugSections, units: Units) -> None:
        self.sections = sections
        self.budget = sections.budget
        self.units = units
        self._data = sections.info.data
        self._strings = StringReader(sections)
        self._known: dict[int, Die | None] = {}
        self._starts = [unit.offset for unit in units.units]

    @cached_property
    def extents(self) -> DieExtents:
        """Where the DIEs of all units begin and end, read at the first use."""
        return read(self.sections, self.units)

    @cached_property
    def _ends(self) -> dict[int, int]:
        return dict(zip(self.extents.at.tolist(), self.extents.end.tolist(), strict=True))

    def at(self, offset: int) -> Die | None:
        """The DIE that begins at ``offset``; None for the null entry, and where no unit that can be read is."""
        if offset not in self._known:
            self._known[offset] = self._read(offset)
        return self._known[offset]

    def spend(self, steps: int) -> None:
        """Count steps that reading DIEs of this object takes. Raises LimitExceeded."""
        if self.budget is not None:
            self.budget.spend(steps, self.sections.info.name)

    def top(self, unit: Unit) -> Die | None:
        return self.at(unit.dies)

    def children(self, die: Die, tags: frozenset[int] | None = None) -> Iterator[Die]:
        """The DIEs directly below ``die``, in order; only those with one of ``tags`` where these are given, which
        passes over the others without reading them."""
        if not die.has_children:
            return
        cursor = Cursor(self._data, self.sections.info.name, die.end, die.unit.end)
        while cursor.at < cursor.end:
            start = cursor.at
            self.spend(_CHILD_STEPS)
            abbreviation = self._abbreviation(cursor, die.unit)
            if abbreviation is None:
                return
            if tags is None or abbreviation.tag in tags:
                child = self.at(start)
                if child is not None:
                    yield child
                    cursor.at = child.end
            elif not abbreviation.has_children:
                self._pass(cursor, abbreviation, start)
            if abbreviation.has_children:
                cursor.at = self._ends.get(start, start)
            if cursor.at <= start:
                raise cursor.fail("a DIE has no end", start)

    def _pass(self, cursor: Cursor, abbreviation: Abbreviation, start: int) -> None:
        """Go to the end of the attributes of the DIE at ``start``."""
        if any(attribute.layout == ValueLayout.INDIRECT for attribute in abbreviation.attributes):
            child = self.at(start)
            cursor.at = start if child is None else child.end
            return
        for attribute in abbreviation.attributes:
            forms.skip(cursor, attribute.layout)

    def _abbreviation(self, cursor: Cursor, unit: Unit) -> Abbreviation | None:
        """The abbreviation of the DIE that begins at the cursor, which is left after its code; None for the null
        entry."""
        start = cursor.at
        code = cursor.uleb()
        if not code:
            return None
        abbreviation = None if unit.table is None else unit.table.get(code)
        if abbreviation is None:
            raise cursor.fail(f"abbreviation {code} is not declared", start)
        return abbreviation

    def ancestors(self, die: Die, most: int) -> list[Die]:
        """The ``most`` nearest DIEs around ``die``, innermost first."""
        found = (self.at(at) for at in self.extents.around(die.at, most))
        return [outer for outer in found if outer is not None]

    def find(self, die: Die, attribute: int) -> tuple[Die, Value] | None:
        """An attribute of the DIE or of those that it completes (DW_AT_specification, DW_AT_abstract_origin), with the
        DIE that has it."""
        at: Die | None = die
        for _ in range(_LINK_STEPS):
            if at is None:
                return None
            value = at.attributes.get(attribute)
            if value is not None:
                return at, value
            at = self.reference(at, At.DW_AT_specification) or self.reference(at, At.DW_AT_abstract_origin)
        return None

    def reference(self, die: Die, attribute: int) -> Die | None:
        """The DIE that an attribute of ``die`` refers to."""
        value = die.attributes.get(attribute)
        return None if value is None else self.target(die, value)

    def target(self, die: Die, value: Value) -> Die | None:
        """The DIE that a reference in ``die`` means."""
        if value.form in forms.UNIT_REFERENCES:
            return self.at(die.unit.offset + value.number)
        return self.at(value.number) if value.form == Form.DW_FORM_ref_addr else None

    def type_of(self, die: Die) -> Die | None:
        """The DIE of its type, its own or that of the DIE it completes."""
        found = self.find(die, At.DW_AT_type)
        return None if found is None else self.target(*found)

    def name(self, die: Die) -> str:
        """The name of a DIE, its own or that of the DIE it completes; "" when it has none."""
        found = self.find(die, At.DW_AT_name)
        return "" if found is None else self.text(*found)

    def own_name(self, die: Die) -> str:
        value = die.attributes.get(At.DW_AT_name)
        return "" if value is None else self.text(die, value)

    def text(self, die: Die, value: Value) -> str:
        """The string of an attribute of ``die``; "" where there is none."""
        return (self._bytes(die.unit, value) or b"").decode("utf-8", "replace")

    def _bytes(self, unit: Unit, value: Value) -> bytes | None:
        if value.form == Form.DW_FORM_string:
            return value.data
        if value.form == Form.DW_FORM_line_strp:
            return self._strings.at(IN_LINE_STRINGS, value.number)
        offset: int | None = value.number
        if value.form in forms.STRX_FORMS:
            offset = self._entry(self.sections.string_offsets, unit.str_offsets_base, value.number, unit.widths.offset)
        elif value.form != Form.DW_FORM_strp:
            return None
        return None if offset is None else self._strings.at(IN_STRINGS, offset)

    def address_entry(self, unit: Unit, index: int) -> int | None:
        """Entry ``index`` of the unit's part of ``.debug_addr``."""
        return self._entry(self.sections.addresses, unit.addr_base, index, unit.widths.address)

    def _entry(self, section: DebugSection, base: int, index: int, width: int) -> int | None:
        at = base + index * width
        entry = section.data[at : at + width]
        return int.from_bytes(entry, "little") if len(entry) == width else None

    def _unit_at(self, offset: int) -> Unit | None:
        slot = bisect_right(self._starts, offset) - 1
        if slot < 0:
            return None
        unit = self.units.units[slot]
        return unit if unit.dies <= offset < unit.end else None

    def _read(self, offset: int) -> Die | None:
        unit = self._unit_at(offset)
        if unit is None:
            return None
        cursor = Cursor(self._data, self.sections.info.name, offset, unit.end)
        abbreviation = self._abbreviation(cursor, unit)
        if abbreviation is None:
            return None
        self.spend(1 + _ATTRIBUTE_STEPS * len(abbreviation.attributes))
        values: dict[int, Value] = {}
        for name, form, _, constant in abbreviation.attributes:
            values.setdefault(name, _value(cursor, form, constant, unit))
        return Die(unit, offset, abbreviation.tag, abbreviation.has_children, values, cursor.at)


def _value(cursor: Cursor, form: int, constant: int, unit: Unit) -> Value:
    for _ in range(_LINK_STEPS):
        if form != Form.DW_FORM_indirect:
            break
        form = cursor.uleb()
    if form == Form.DW_FORM_flag_present:
        return Value(form, 1)
    kind = forms.layout(form, unit.widths)
    if kind in _BLOCKS:
        size = cursor.uleb() if kind == ValueLayout.BLOCK else cursor.unsigned(forms.BLOCK_LENGTH[ValueLayout(kind)])
        return Value(form, 0, _held(cursor, cursor.skip(size), cursor.at))
    if kind == 16:
        return Value(form, 0, _held(cursor, cursor.skip(16), cursor.at))
    start = cursor.at
    value = forms.read(cursor, form, unit.widths, constant)
    if isinstance(value, bytes):
        return Value(form, 0, _held(cursor, start, start + len(value)))
    return Value(form, value or 0)


def _held(cursor: Cursor, start: int, stop: int) -> bytes | memoryview:
    if stop - start > _MAX_COPIED:
        return memoryview(cursor.data)[start:stop]
    return cursor.data[start:stop]
