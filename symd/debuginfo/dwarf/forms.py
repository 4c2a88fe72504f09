"""Values in DWARF: a bounded little-endian reader of one value at a time, attribute forms (DWARF 5, 7.5.6; GNU and LLVM
extensions), and abbreviation tables (7.5.3). A table is parsed by the core when it is first needed, a single
declaration to read one DIE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import lru_cache

from symd.core.abbreviations import AbbreviationTable, layouts
from symd.debuginfo.dwarf import At, Form
from symd.debuginfo.dwarf.sections import DebugSection
from symd.errors import LimitExceeded, Malformed
from symd.formats.budget import DebugBudget
from symd.model.light_typing import NamedTuple

_ADDRESS_SIZES = (2, 4, 8)


class Cursor:
    """Reads ``data[at:end]`` forward. Running past ``end`` raises Malformed with the section and the offset."""

    __slots__ = ("at", "data", "end", "section")

    def __init__(self, data: bytes, section: str, at: int, end: int) -> None:
        self.data = data
        self.section = section
        self.at = at
        self.end = min(end, len(data))

    def fail(self, what: str, at: int | None = None) -> Malformed:
        """The error that says ``what`` about this place."""
        return Malformed(what, where=f"{self.section}+{self.at if at is None else at:#x}")

    def skip(self, count: int) -> int:
        """Pass ``count`` bytes; returns where they begin."""
        start = self.at
        if count > self.end - start:
            raise self.fail(f"{count} bytes are needed and {max(self.end - start, 0)} are left")
        self.at = start + count
        return start

    def unsigned(self, size: int) -> int:
        start = self.at
        stop = start + size
        if stop > self.end:
            self.skip(size)  # which raises
        self.at = stop
        return int.from_bytes(self.data[start:stop], "little")

    def address(self, size: int) -> int:
        if size not in _ADDRESS_SIZES:
            raise self.fail(f"an address of {size} bytes")
        return self.unsigned(size)

    def uleb(self) -> int:
        """An unsigned LEB128, modulo 2**64."""
        data, at, end = self.data, self.at, self.end
        if at < end and data[at] < 0x80:
            self.at = at + 1
            return data[at]
        value = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            if shift < 64:
                value |= (byte & 0x7F) << shift
                shift += 7
            if byte < 0x80:
                self.at = at
                return value & 0xFFFFFFFFFFFFFFFF
        raise self.fail("a LEB128 number has no end")

    def sleb(self) -> int:
        """A signed LEB128, as a Python int in the range of 64 bits."""
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        if bits < 64 and self.data[self.at - 1] & 0x40:
            return value - (1 << bits)
        return value - (1 << 64) if value >> 63 else value

    def text(self) -> bytes:
        """A NUL-terminated string, without the NUL."""
        stop = self.data.find(b"\0", self.at, self.end)
        if stop < 0:
            raise self.fail("a string has no end")
        start, self.at = self.at, stop + 1
        return self.data[start:stop]

    def initial_length(self) -> tuple[int, int]:
        """A unit's length field: (length, offset size 4 or 8) (DWARF 5, 7.4)."""
        length = self.unsigned(4)
        if length == 0xFFFFFFFF:
            return self.unsigned(8), 8
        if length >= 0xFFFFFFF0:
            raise self.fail(f"reserved unit length {length:#x}", self.at - 4)
        return length, 4


STRX_FORMS = frozenset(
    {
        Form.DW_FORM_strx, Form.DW_FORM_strx1, Form.DW_FORM_strx2, Form.DW_FORM_strx3, Form.DW_FORM_strx4,
        Form.DW_FORM_GNU_str_index,
    }
)  # fmt: skip
LOW_PC_OFFSET = 1 << 32
"""The name, which no attribute has, of what is behind a DW_AT_low_pc of the form DW_FORM_LLVM_addrx_offset: the
bytes from that address."""
UNIT_REFERENCES = frozenset(
    {Form.DW_FORM_ref1, Form.DW_FORM_ref2, Form.DW_FORM_ref4, Form.DW_FORM_ref8, Form.DW_FORM_ref_udata}
)
CONSTANTS = frozenset(
    {
        Form.DW_FORM_data1, Form.DW_FORM_data2, Form.DW_FORM_data4, Form.DW_FORM_data8, Form.DW_FORM_sdata,
        Form.DW_FORM_udata, Form.DW_FORM_implicit_const,
    }
)  # fmt: skip
UNKNOWN_FORM = "an attribute of an unknown form"


class ValueLayout(IntEnum):
    """Kinds of values whose size is not fixed; a fixed size is a number from 0."""

    LEB = -1
    STRING = -2
    BLOCK1 = -3
    BLOCK2 = -4
    BLOCK4 = -5
    BLOCK = -6
    INDIRECT = -7
    UNKNOWN = -8


class Widths(NamedTuple):
    """What a unit's header says about the size of values."""

    address: int
    offset: int
    ref_addr: int
    """ref_addr is as wide as an address in DWARF 2, as an offset later."""


_IMPLICIT_CONST, _SDATA = int(Form.DW_FORM_implicit_const), int(Form.DW_FORM_sdata)
BLOCK_LENGTH = {ValueLayout.BLOCK1: 1, ValueLayout.BLOCK2: 2, ValueLayout.BLOCK4: 4}


def layout(form: int, widths: Widths) -> int:
    """The size of a value of this form, or the ValueLayout that says how to find it."""
    return _layouts(widths).get(form, ValueLayout.UNKNOWN)


@lru_cache(maxsize=16)
def _layouts(widths: Widths) -> Mapping[int, int]:
    """The layouts of all forms in units of these widths."""
    return layouts(*widths)


def skip(cursor: Cursor, kind: int) -> None:
    """Pass one value of a layout other than INDIRECT."""
    if kind >= 0:
        cursor.skip(kind)
    elif kind == ValueLayout.LEB:
        cursor.uleb()
    elif kind == ValueLayout.STRING:
        cursor.text()
    elif kind == ValueLayout.BLOCK:
        cursor.skip(cursor.uleb())
    elif kind in BLOCK_LENGTH:
        cursor.skip(cursor.unsigned(BLOCK_LENGTH[ValueLayout(kind)]))
    else:
        raise cursor.fail(UNKNOWN_FORM)


def read(cursor: Cursor, form: int, widths: Widths, constant: int) -> int | bytes | None:
    """One value as it stands: a number, an inline string; None for blocks (passed over).

    ``constant`` is what an implicit_const is. DW_FORM_indirect must have been resolved.
    """
    kind = layout(form, widths)
    if form == _IMPLICIT_CONST:
        return constant
    if form == _SDATA:
        return cursor.sleb()
    if 0 <= kind <= 8:
        return cursor.unsigned(kind)
    if kind == ValueLayout.LEB:
        return cursor.uleb()
    if kind == ValueLayout.STRING:
        return cursor.text()
    skip(cursor, kind)
    return None


_ADDRX_OFFSET, _DATA4 = int(Form.DW_FORM_LLVM_addrx_offset), int(Form.DW_FORM_data4)
_IMPLICIT = int(Form.DW_FORM_implicit_const)
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
    a ``ValueLayout``; ``constant`` is the value of an implicit_const."""

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
            offset = self.steps.tag_offset(code)
            self._known[code] = None if offset < 0 else self._at(offset)
        return self._known[code]

    def every(self) -> Iterator[Abbreviation]:
        """All abbreviations of the table, in order."""
        return map(self._at, self.steps.all_tag_offsets())

    def _at(self, offset: int) -> Abbreviation:
        data = self._section.data
        end = data.find(_END, offset) + len(_END)
        if offset < end <= offset + _REMEMBERED_BYTES:
            found = _remembered(data[offset:end], self._widths)
            if found is not None:
                return found
        return _read(Cursor(data, self._section.name, offset, len(data)), self._widths)


class AbbreviationTables:
    """The abbreviations of one object, each table once for each set of widths.

    Tables that overlap cost their bytes again; past twice the section LimitExceeded is raised, and past what ``budget``
    has left.
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
    """The declaration whose tag ``data`` begins with; None where it does not end with ``data``, because the two zeros
    at its end are of something else."""
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
        constant = cursor.sleb() if form == _IMPLICIT else 0
        if not (name or form):
            return
        yield Attribute(name, form, layout(form, widths), constant)
        if form == _ADDRX_OFFSET:  # two values, of which the second is one of its own here
            yield Attribute(LOW_PC_OFFSET if name == At.DW_AT_low_pc else 0, _DATA4, 4)
