"""Abbreviation tables (DWARF 5, 7.5.3). Equal declarations of different tables share one ``Abbreviation``, so that
the DIEs of a whole object are decoded by abbreviation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from symd.budget import DebugBudget
from symd.dwarf import forms
from symd.dwarf.constants import At, Form
from symd.dwarf.cursor import Cursor
from symd.dwarf.forms import Widths
from symd.dwarf.sections import DebugSection
from symd.errors import LimitExceeded, Malformed

_ADDRX_OFFSET, _DATA4 = int(Form.DW_FORM_LLVM_addrx_offset), int(Form.DW_FORM_data4)
_IMPLICIT_CONST = int(Form.DW_FORM_implicit_const)
_ATTRIBUTE_LIMIT = 256
"""Attributes may take no byte of a DIE, so that their number needs a bound of its own; compilers use some thirty."""
_REMEMBERED_BYTES = 4096
"""Tables of sections up to this size are kept for the next objects, which tend to have the same: 256 of them, a MiB of sections."""

_REMEMBERED_ATTRIBUTES = 128
"""Bytes of the attributes of one declaration up to which they are kept, too."""
_BYTE_STEPS = 2
"""What a byte of a table takes."""
_ABBREVIATION_STEPS = 64
"""What DIEs of a declaration take, however few they are."""
_END = b"\0\0"
"""No name and no form: after the last attribute."""


class Attribute(NamedTuple):
    """``layout`` is a size or a ``forms.ValueLayout``; ``constant`` is the value of an implicit_const."""

    name: int
    form: int
    layout: int
    constant: int = 0


_Declarations = Mapping[int, tuple[int, bool, tuple[Attribute, ...]]]
"""Abbreviation code -> tag, whether it has children, attributes."""


class Abbreviation(NamedTuple):
    """What DIEs of one declaration have in common; ``number`` indexes ``AbbreviationTables.all``."""

    number: int
    tag: int
    has_children: bool
    attributes: tuple[Attribute, ...]
    widths: Widths


class AbbreviationTables:
    """The abbreviations of one object, parsed on demand: each table once for each set of widths.

    Tables that overlap cost their bytes again; past twice the section LimitExceeded is raised, and past what ``budget`` has
    left, of which a different abbreviation takes many steps: its DIEs are decoded by themselves.
    """

    def __init__(self, section: DebugSection, budget: DebugBudget | None = None) -> None:
        self.budget = budget
        self._section = section.name
        self._data = section.data
        self.all: list[Abbreviation] = []
        self._known: dict[tuple[int, bool, tuple[Attribute, ...], Widths], Abbreviation] = {}
        self._tables: dict[tuple[int, Widths], Mapping[int, Abbreviation]] = {}
        self._parsed = 0

    def table(self, offset: int, widths: Widths) -> Mapping[int, Abbreviation]:
        """The table at ``offset``: abbreviation code -> abbreviation. Raises Malformed where it does not end."""
        key = offset, widths
        if key not in self._tables:
            self._tables[key] = self._parse(offset, widths)
        return self._tables[key]

    def spend(self, steps: int) -> None:
        """So many steps are taken for something that is declared here. Raises LimitExceeded."""
        if self.budget is not None:
            self.budget.spend(steps, self._section)

    def abbreviation(
        self, tag: int, has_children: bool, attributes: tuple[Attribute, ...], widths: Widths
    ) -> Abbreviation:
        """The one abbreviation of this declaration."""
        key = tag, has_children, attributes, widths
        abbreviation = self._known.get(key)
        if abbreviation is None:
            self.spend(_ABBREVIATION_STEPS)
            abbreviation = self._known[key] = Abbreviation(len(self.all), *key)
            self.all.append(abbreviation)
        return abbreviation

    def _parse(self, offset: int, widths: Widths) -> dict[int, Abbreviation]:
        end = len(self._data) if self.budget is None else offset + self.budget.steps_left // _BYTE_STEPS + 1
        cursor = Cursor(self._data, self._section, offset, end)
        try:
            declared = read_declarations(cursor, widths)
        finally:
            passed = max(0, cursor.at - offset)
            self._parsed += passed
            self.spend(passed * _BYTE_STEPS)
            if self._parsed > 2 * len(self._data) + 65536:
                raise LimitExceeded("abbreviation tables overlap without end", where=self._section)
        return {code: self.abbreviation(*declaration, widths) for code, declaration in declared.items()}


def read_declarations(cursor: Cursor, widths: Widths) -> _Declarations:
    """The table at the cursor, which is left after it."""
    if len(cursor.data) <= _REMEMBERED_BYTES:
        try:
            table, cursor.at = _remembered(cursor.data, cursor.section, cursor.at, widths)
        except Malformed:
            pass
        else:
            return table
    return _read(cursor, widths)


@lru_cache(maxsize=256)
def _remembered(data: bytes, section: str, offset: int, widths: Widths) -> tuple[_Declarations, int]:
    """A table that the kernels of a module, each an object of its own, tend to have in common; and the offset after it."""
    cursor = Cursor(data, section, offset, len(data))
    return _read(cursor, widths), cursor.at


def _read(cursor: Cursor, widths: Widths) -> _Declarations:
    table: dict[int, tuple[int, bool, tuple[Attribute, ...]]] = {}
    while cursor.at < cursor.end and (code := cursor.uleb()):
        tag = cursor.uleb()
        has_children = cursor.unsigned(1) != 0
        attributes = _known_attributes(cursor, widths)
        if attributes is None:
            attributes = _attributes(cursor, widths)
        table.setdefault(code, (tag, has_children, attributes))
    return table


def _known_attributes(cursor: Cursor, widths: Widths) -> tuple[Attribute, ...] | None:
    """The attributes at the cursor, where they end at the first pair of zeros: different tables have most declarations in common.
    None, and the cursor stays, where they do not."""
    stop = cursor.data.find(_END, cursor.at, cursor.end) + len(_END)
    if not cursor.at < stop <= cursor.at + _REMEMBERED_ATTRIBUTES:
        return None
    found = _attributes_of(cursor.data[cursor.at : stop], widths)
    if found is not None:
        cursor.at = stop
    return found


@lru_cache(maxsize=1024)
def _attributes_of(data: bytes, widths: Widths) -> tuple[Attribute, ...] | None:
    cursor = Cursor(data, "", 0, len(data))
    try:
        found = _attributes(cursor, widths)
    except Malformed:
        return None
    return found if cursor.at == len(data) else None


def _attributes(cursor: Cursor, widths: Widths) -> tuple[Attribute, ...]:
    found: list[Attribute] = []
    while len(found) <= _ATTRIBUTE_LIMIT:
        name, form = cursor.uleb(), cursor.uleb()
        constant = cursor.sleb() if form == _IMPLICIT_CONST else 0
        if not (name or form):
            return tuple(found)
        found.append(Attribute(name, form, forms.layout(form, widths), constant))
        if form == _ADDRX_OFFSET:  # two values, of which the second is one of its own here
            found.append(Attribute(forms.LOW_PC_OFFSET if name == At.DW_AT_low_pc else 0, _DATA4, 4))
    raise cursor.fail(f"an abbreviation with more than {_ATTRIBUTE_LIMIT} attributes")
