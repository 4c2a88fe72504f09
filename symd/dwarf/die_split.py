"""Finds where the DIEs of units begin (DWARF 5, 7.5.2), without decoding them.

A DIE's length follows from its abbreviation, so DIEs are records that are passed many at once, those of several units
together. A unit that cannot be split so, or has an error, is walked DIE by DIE, which is the reference: any form, any
block, and an error with its place.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.dwarf import forms
from symd.dwarf.abbreviations import Abbreviation, AbbreviationTables, Attribute
from symd.dwarf.bulk_read import Positions
from symd.dwarf.bulk_records import CODE_LIMIT, Layouts, Records, merged
from symd.dwarf.constants import Form, Tag
from symd.dwarf.cursor import Cursor
from symd.dwarf.forms import ValueLayout, Widths
from symd.dwarf.sections import DebugSection
from symd.dwarf.units import Unit
from symd.errors import Malformed
from symd.model.columns import U8

NULL = -1
"""The abbreviation number of a null entry."""
_WALK_ONLY = -2
"""The abbreviation number of a DIE that only the walk understands."""
_WALKED_BYTES = 16_000
"""Units that together are this short are walked; splitting them costs as much."""
_GROUP_BYTES = 4 << 20
"""Bytes of units that are split together: what is made of them fits the caches."""
_WALK_STEPS = 2
"""What a byte of DIEs that are walked takes beside the step that each byte is anyway."""
_INDIRECT_STEPS = 8
"""What a DIE takes that names forms in place."""
_MOST_SPELT = 512
"""Attributes and forms in place of a DIE that names forms so: twice as many as an abbreviation may have attributes."""
_GROUP_TABLES = 256
"""Abbreviation tables of units that are split together."""


class DieColumns(NamedTuple):
    """The DIEs of one unit that matter, in order: where each begins in ``.debug_info``, its abbreviation number (or
    NULL), where its attributes begin, and the depth it stands at (the unit's own DIE at 0). Null entries have no
    meaning beyond that; of several that stand together, those after the first may be left out."""

    at: Positions
    abbreviation: NDArray[np.int32]
    attributes: Positions
    depth: NDArray[np.int32]


def split(info: DebugSection, u8: U8, unit: Unit, abbreviations: AbbreviationTables) -> DieColumns:
    """The DIEs of ``unit``; ``u8`` are the bytes of ``info``. Raises Malformed where its tree cannot be followed."""
    (dies,) = _split_together(u8, [unit], abbreviations)
    return _walk(info, unit, abbreviations) if dies is None else dies


def split_all(
    info: DebugSection, u8: U8, units: Sequence[Unit], abbreviations: AbbreviationTables
) -> Iterator[tuple[Unit, DieColumns | Malformed]]:
    """The DIEs of each unit, or what is wrong with its tree."""
    for group in _groups(units):
        for unit, dies in zip(group, _split_together(u8, group, abbreviations), strict=True):
            try:
                yield unit, _walk(info, unit, abbreviations) if dies is None else dies
            except Malformed as error:
                yield unit, error


def split_small(
    u8: U8, units: Sequence[Unit], abbreviations: AbbreviationTables, wanted: Callable[[Abbreviation], bool]
) -> tuple[DieColumns, Positions] | None:
    """The ``wanted`` DIEs of many small units, one after the other, and the place of each one's unit. None where one of them needs
    the walk."""
    declared = _Declared(u8, units, abbreviations, wanted)
    begin, end = np.array([(unit.dies, unit.end) for unit in units], np.int64).reshape(-1, 2).T
    at = declared.records.places(begin, end, np.array(declared.base))
    return None if at is None else declared.dies_of_all(at, begin, end)


def matters(abbreviation: Abbreviation) -> bool:
    """Whether DIEs of this abbreviation are returned."""
    return abbreviation.has_children or abbreviation.tag in (Tag.DW_TAG_subprogram, Tag.DW_TAG_inlined_subroutine)


def layouts(abbreviation: Abbreviation) -> Layouts:
    """The layouts of the attributes with neighbouring fixed sizes added up."""
    return merged(attribute.layout for attribute in abbreviation.attributes)


def _groups(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    group: list[Unit] = []
    tables = set[int]()
    for unit in units:
        tables.add(unit.abbreviations)
        if group and (unit.end - group[0].dies > _GROUP_BYTES or len(tables) > _GROUP_TABLES):
            yield group
            group, tables = [], {unit.abbreviations}
        group.append(unit)
    if group:
        yield group


def _split_together(u8: U8, units: Sequence[Unit], abbreviations: AbbreviationTables) -> Sequence[DieColumns | None]:
    """None for units that need the walk."""
    if sum(unit.end - unit.dies for unit in units) <= _WALKED_BYTES:
        return [None] * len(units)
    declared = _Declared(u8, units, abbreviations)
    begin, end = np.array([(unit.dies, unit.end) for unit in units], np.int64).T
    found = declared.records.split(begin, end, np.array(declared.base))
    if found is None:
        return [None] * len(units)
    return [declared.dies(*unit) for unit in zip(found, declared.base, end.tolist(), strict=True)]


class _Declared:
    """The abbreviations of some units as tables of records; ``base`` is each unit's table."""

    def __init__(
        self,
        u8: U8,
        units: Sequence[Unit],
        abbreviations: AbbreviationTables,
        wanted: Callable[[Abbreviation], bool] = matters,
    ) -> None:
        self._u8 = u8
        known: dict[tuple[tuple[int, int], ...], int] = {}
        stated: dict[tuple[int, Widths], int] = {}
        tables: list[dict[int, Abbreviation]] = []
        for place in dict.fromkeys((unit.abbreviations, unit.widths) for unit in units):
            table = abbreviations.table(*place)
            key = tuple((code, abbreviation.number) for code, abbreviation in table.items())
            if key not in known:
                known[key] = len(tables)
                tables.append(
                    {
                        code: abbreviation
                        for code, abbreviation in table.items()
                        if _is_plain(code, abbreviation, len(table))
                    }
                )
            stated[place] = known[key]
        which = [stated[unit.abbreviations, unit.widths] for unit in units]
        sizes = {
            each.number: layouts(each) for each in {each.number: each for t in tables for each in t.values()}.values()
        }
        self.records = Records(u8, [{0: (), **{code: sizes[each.number] for code, each in t.items()}} for t in tables])
        self.base = [int(self.records.base[number]) for number in which]
        column = self.records.column
        self._abbreviation = column(
            [{0: NULL, **{code: s.number for code, s in t.items()}} for t in tables], _WALK_ONLY, np.int32
        )
        self._change = column([{0: -1, **{code: s.has_children for code, s in t.items()}} for t in tables], 0, np.int8)
        self._matters = column([{0: True, **{code: wanted(s) for code, s in t.items()}} for t in tables], 0, np.bool_)

    def dies(self, at: Positions, base: int, end: int) -> DieColumns | None:
        """The DIEs that begin at ``at``, of one unit; None where it needs the walk."""
        rows = self.records.rows_at(at, base)
        change = self._change.take(rows)
        depth = np.cumsum(change, dtype=np.int32)
        closing = depth <= 0
        count = int(np.argmax(closing)) + 1 if closing.any() else len(depth)
        at, rows = at[:count], rows[:count]
        abbreviation = self._abbreviation.take(rows)
        if not count or (abbreviation == _WALK_ONLY).any() or self.records.after(at[-1:], rows[-1:])[0] > end:
            return None
        depth -= change
        return self._columns(at, rows, abbreviation, depth)[0]

    def dies_of_all(self, at: Positions, begin: Positions, end: Positions) -> tuple[DieColumns, Positions] | None:
        """The DIEs that begin at ``at``, and the place of each one's unit: units stand at [begin, end). None where one of
        them needs the walk."""
        first, last = np.searchsorted(at, begin), np.searchsorted(at, end)
        if not len(at) or (first == last).any():
            return None
        unit = np.repeat(np.arange(len(begin)), last - first)
        rows = self.records.rows_at(at, np.array(self.base)[unit])
        change = self._change.take(rows)
        total = np.cumsum(change, dtype=np.int32)
        depth = total - (total - change)[first][unit]
        closing = np.append(np.flatnonzero(depth <= 0), len(at))
        stop = np.minimum(closing[np.searchsorted(closing, first)] + 1, last)
        inside = np.flatnonzero(np.arange(len(at)) < stop[unit])
        abbreviation = self._abbreviation.take(rows)
        if (abbreviation[inside] == _WALK_ONLY).any() or (self.records.after(at[stop - 1], rows[stop - 1]) > end).any():
            return None
        depth -= change
        columns = (column.take(inside) for column in (at, rows, abbreviation, depth))
        dies, which = self._columns(*columns)
        return dies, unit.take(inside).take(which)

    def _columns(
        self, at: Positions, rows: Positions, abbreviation: NDArray[np.int32], depth: NDArray[np.int32]
    ) -> tuple[DieColumns, Positions]:
        """The DIEs that matter, and which they are."""
        kept = self._matters.take(rows)
        null = abbreviation == NULL
        kept[1:] &= ~(null[1:] & null[:-1])
        which = np.flatnonzero(kept)
        at = at.take(which)
        first_attributes = at + 1 + (self._u8.take(at) >= 0x80)
        return DieColumns(at, abbreviation.take(which), first_attributes, depth.take(which)), which


def _is_plain(code: int, abbreviation: Abbreviation, count: int) -> bool:
    """Whether records can be passed by this declaration of a table of so many; far-off codes would make it large."""
    unusual = {ValueLayout.INDIRECT, ValueLayout.UNKNOWN}
    return 0 < code < min(CODE_LIMIT, 256 + 4 * count) and all(a.layout not in unusual for a in abbreviation.attributes)


def _walk(info: DebugSection, unit: Unit, abbreviations: AbbreviationTables) -> DieColumns:
    abbreviations.spend((unit.end - unit.dies) * _WALK_STEPS)
    table = abbreviations.table(unit.abbreviations, unit.widths)
    cursor = Cursor(info.data, info.name, unit.dies, unit.end)
    plans: dict[int, tuple[Layouts, int, bool, bool]] = {}
    found = array("q")
    depth = 0
    while cursor.at < cursor.end:
        start = cursor.at
        code = cursor.uleb()
        if code == 0:
            found.extend((start, NULL, cursor.at, depth))
            depth -= 1
        else:
            plan = plans.get(code)
            if plan is None:
                abbreviation = table.get(code)
                if abbreviation is None:
                    raise cursor.fail(f"abbreviation {code} is not declared", start)
                plan = layouts(abbreviation), abbreviation.number, matters(abbreviation), abbreviation.has_children
                plans[code] = plan
            sizes, number, important, has_children = plan
            attributes = cursor.at
            if ValueLayout.INDIRECT in sizes:
                abbreviations.spend(_INDIRECT_STEPS)
                number = _skip_indirect(cursor, table[code], abbreviations)
            else:
                for size in sizes:
                    forms.skip(cursor, size)
            if important:
                found.extend((start, number, attributes, depth))
            depth += has_children
        if depth <= 0:
            break
    columns = np.array(found, np.int64).reshape(-1, 4).T
    return DieColumns(columns[0], columns[1].astype(np.int32), columns[2], columns[3].astype(np.int32))


def _skip_indirect(cursor: Cursor, abbreviation: Abbreviation, abbreviations: AbbreviationTables) -> int:
    """Pass the attributes of a DIE that names forms in place; the number of an abbreviation that has them
    spelt out.

    The form in place is passed as an attribute 0 of its own, a LEB128.
    """
    spelt: list[Attribute] = []
    for attribute in abbreviation.attributes:
        resolved = attribute
        while resolved.form == Form.DW_FORM_indirect:
            form = cursor.uleb()
            if len(spelt) >= _MOST_SPELT:
                raise cursor.fail("forms in place name each other without end")
            spelt.append(Attribute(0, Form.DW_FORM_udata, ValueLayout.LEB))
            resolved = Attribute(attribute.name, form, forms.layout(form, abbreviation.widths))
        forms.skip(cursor, resolved.layout)
        spelt.append(resolved)
    return abbreviations.abbreviation(
        abbreviation.tag, abbreviation.has_children, tuple(spelt), abbreviation.widths
    ).number
