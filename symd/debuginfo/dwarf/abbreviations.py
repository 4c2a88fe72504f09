"""Abbreviation tables (DWARF 5, 7.5.3), parsed when they are first asked for: as a whole by the core, and a declaration alone for whoever reads one DIE."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from symd.core.abbreviations import AbbreviationTable
from symd.debuginfo.dwarf import forms
from symd.debuginfo.dwarf.constants import At, Form
from symd.debuginfo.dwarf.cursor import Cursor
from symd.debuginfo.dwarf.forms import Widths
from symd.debuginfo.dwarf.sections import DebugSection
from symd.errors import LimitExceeded, Malformed
from symd.formats.budget import DebugBudget

_ADDRX_OFFSET, _DATA4 = int(Form.DW_FORM_LLVM_addrx_offset), int(Form.DW_FORM_data4)
_IMPLICIT_CONST = int(Form.DW_FORM_implicit_const)
_REMEMBERED_BYTES = 128
"""Bytes of a declaration up to which it is kept: different tables have most of them in common."""
_REMEMBERED_TABLE = 1 << 12
"""Bytes of a section up to which its tables are kept for other objects."""
_BYTE_STEPS = 2
"""What a byte of a table takes."""
_TABLE_STEPS = 64
"""What a table takes besides, however short it is."""
_END = b"\0\0"
"""No name and no form: after the last attribute."""


class Attribute(NamedTuple):
    """An attribute of an abbreviation (DWARF 5, 7.5.3): its name and the form of its value. ``layout`` is a size or
    a ``forms.ValueLayout``; ``constant`` is the value of an implicit_const."""

    name: int
    form: int
    layout: int
    constant: int = 0


class Abbreviation(NamedTuple):
    """What DIEs of one declaration have in common."""

    tag: int
    has_children: bool
    attributes: tuple[Attribute, ...]
    widths: Widths


class Table:
    """The abbreviations of one table; ``steps`` is the core's."""

    def __init__(self, section: DebugSection, steps: AbbreviationTable, widths: Widths) -> None:
        self.steps = steps
        self._section, self._widths = section, widths
        self._known: dict[int, Abbreviation | None] = {}

    def get(self, code: int) -> Abbreviation | None:
        """The abbreviation of a code; None where nobody declares it."""
        if code not in self._known:
            place = self.steps.place(code)
            self._known[code] = None if place < 0 else self._at(place)
        return self._known[code]

    def every(self) -> Iterator[Abbreviation]:
        """All abbreviations of the table, in order."""
        return map(self._at, self.steps.all_places())

    def _at(self, place: int) -> Abbreviation:
        data = self._section.data
        end = data.find(_END, place) + len(_END)
        if place < end <= place + _REMEMBERED_BYTES:
            found = _remembered(data[place:end], self._widths)
            if found is not None:
                return found
        return _read(Cursor(data, self._section.name, place, len(data)), self._widths)


class AbbreviationTables:
    """The abbreviations of one object, each table once for each set of widths.

    Tables that overlap cost their bytes again; past twice the section LimitExceeded is raised, and past what ``budget`` has left.
    """

    def __init__(self, section: DebugSection, budget: DebugBudget | None = None) -> None:
        self.budget = budget
        self._section = section
        self._tables: dict[tuple[int, Widths], Table] = {}
        self._parsed = 0

    def table(self, offset: int, widths: Widths) -> Table:
        """The table at ``offset``. Raises Malformed where it does not end."""
        offset = min(offset, len(self._section.data))
        key = offset, widths
        if key not in self._tables:
            self._tables[key] = Table(self._section, self._parse(offset, widths), widths)
        return self._tables[key]

    def _parse(self, offset: int, widths: Widths) -> AbbreviationTable:
        section, data = self._section.name, self._section.data
        end = len(data)
        if self.budget is not None:
            self.budget.spend(_TABLE_STEPS, section)
            end = min(end, offset + self.budget.steps_left // _BYTE_STEPS + 1)
        known = _known_table if end == len(data) <= _REMEMBERED_TABLE else _table
        found, error = known(data, section, offset, end, widths)
        if error is not None and self.budget is not None and end < len(data):  # it may end behind what may be read
            self.budget.spend(self.budget.steps_left + 1, section)
        passed = found.at - offset
        self._parsed += passed
        if self.budget is not None:
            self.budget.spend(passed * _BYTE_STEPS, section)
        if self._parsed > 2 * len(data) + 65536:
            raise LimitExceeded("abbreviation tables overlap without end", where=section)
        if error is not None:
            raise error.with_traceback(None)
        return found


def _table(
    data: bytes, section: str, offset: int, end: int, widths: Widths
) -> tuple[AbbreviationTable, Malformed | None]:
    """The table at ``offset`` as far as it can be read, and what is wrong with it."""
    found = AbbreviationTable(data, section, offset, end, *widths)
    try:
        found.read()
    except Malformed as error:
        return found, error
    return found, None


_known_table = lru_cache(maxsize=64)(_table)
"""Most small objects of a module have the abbreviations of another one."""


@lru_cache(maxsize=1024)
def _remembered(data: bytes, widths: Widths) -> Abbreviation | None:
    """The declaration whose tag ``data`` begins with; None where it does not end with ``data``, because the two zeros at its end are of something else."""
    cursor = Cursor(data, "", 0, len(data))
    try:
        found = _read(cursor, widths)
    except Malformed:
        return None
    return found if cursor.at == len(data) else None


def _read(cursor: Cursor, widths: Widths) -> Abbreviation:
    tag, has_children = cursor.uleb(), cursor.unsigned(1) != 0
    return Abbreviation(tag, has_children, tuple(_attributes(cursor, widths)), widths)


def _attributes(cursor: Cursor, widths: Widths) -> Iterator[Attribute]:
    while True:
        name, form = cursor.uleb(), cursor.uleb()
        constant = cursor.sleb() if form == _IMPLICIT_CONST else 0
        if not (name or form):
            return
        yield Attribute(name, form, forms.layout(form, widths), constant)
        if form == _ADDRX_OFFSET:  # two values, of which the second is one of its own here
            yield Attribute(forms.LOW_PC_OFFSET if name == At.DW_AT_low_pc else 0, _DATA4, 4)
