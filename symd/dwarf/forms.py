"""Attribute forms (DWARF 5, 7.5.6; GNU and LLVM extensions): how many bytes a value takes, and one value read alone."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from symd.dwarf.cursor import Cursor

ADDR, STRING, STRP, LINE_STRP, REF_ADDR = 0x01, 0x08, 0x0E, 0x1F, 0x10
REF1, REF2, REF4, REF8, REF_UDATA = 0x11, 0x12, 0x13, 0x14, 0x15
DATA1, DATA2, DATA4, DATA8, SDATA, UDATA = 0x0B, 0x05, 0x06, 0x07, 0x0D, 0x0F
SEC_OFFSET, IMPLICIT_CONST, INDIRECT, RNGLISTX = 0x17, 0x21, 0x16, 0x23
STRX_FORMS = frozenset({0x1A, 0x25, 0x26, 0x27, 0x28, 0x1F02})  # strx, strx1-4, GNU_str_index
ADDRX_FORMS = frozenset({0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01})  # addrx, addrx1-4, GNU_addr_index
UNIT_REFERENCES = frozenset({REF1, REF2, REF4, REF8, REF_UDATA})
CONSTANTS = frozenset({DATA1, DATA2, DATA4, DATA8, SDATA, UDATA, IMPLICIT_CONST})
OFFSETS = frozenset({SEC_OFFSET, DATA4, DATA8})
"""Forms of an offset into another section; the data forms are those of DWARF 2 and 3."""


class Layout(IntEnum):
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


_FIXED = {
    **dict.fromkeys((DATA1, REF1, 0x0C, 0x25, 0x29), 1),  # flag, strx1, addrx1
    **dict.fromkeys((DATA2, REF2, 0x26, 0x2A), 2),
    **dict.fromkeys((0x27, 0x2B), 3),
    **dict.fromkeys((DATA4, REF4, 0x28, 0x2C, 0x1C), 4),  # ref_sup4
    **dict.fromkeys((DATA8, REF8, 0x20, 0x24), 8),  # ref_sig8, ref_sup8
    0x1E: 16,  # data16
    **dict.fromkeys((0x19, IMPLICIT_CONST), 0),  # flag_present
}
_OFFSET_WIDE = frozenset({STRP, LINE_STRP, SEC_OFFSET, 0x1D, 0x1F20, 0x1F21})  # strp_sup, GNU_ref_alt, GNU_strp_alt
_VARIABLE = {
    **dict.fromkeys((SDATA, UDATA, REF_UDATA, 0x1A, 0x1B, 0x22, RNGLISTX, 0x1F01, 0x1F02), Layout.LEB),
    STRING: Layout.STRING,
    0x0A: Layout.BLOCK1,
    0x03: Layout.BLOCK2,
    0x04: Layout.BLOCK4,
    0x09: Layout.BLOCK,
    0x18: Layout.BLOCK,  # exprloc
    INDIRECT: Layout.INDIRECT,
}
BLOCK_LENGTH = {Layout.BLOCK1: 1, Layout.BLOCK2: 2, Layout.BLOCK4: 4}


def layout(form: int, widths: Widths) -> int:
    """The size of a value of this form, or the Layout that says how to find it."""
    if form == ADDR:
        return widths.address
    if form == REF_ADDR:
        return widths.ref_addr
    if form in _OFFSET_WIDE:
        return widths.offset
    return _FIXED[form] if form in _FIXED else _VARIABLE.get(form, Layout.UNKNOWN)


def skip(cursor: Cursor, kind: int) -> None:
    """Pass one value of a layout other than INDIRECT."""
    if kind >= 0:
        cursor.skip(kind)
    elif kind == Layout.LEB:
        cursor.uleb()
    elif kind == Layout.STRING:
        cursor.text()
    elif kind == Layout.BLOCK:
        cursor.skip(cursor.uleb())
    elif kind in BLOCK_LENGTH:
        cursor.skip(cursor.unsigned(BLOCK_LENGTH[Layout(kind)]))
    else:
        raise cursor.fail("an attribute of an unknown form")


def read(cursor: Cursor, form: int, widths: Widths, constant: int) -> int | bytes | None:
    """One value as it stands: a number, an inline string; None for blocks (passed over).

    ``constant`` is what an implicit_const is. DW_FORM_indirect must have been resolved.
    """
    kind = layout(form, widths)
    if form == IMPLICIT_CONST:
        return constant
    if form == SDATA:
        return cursor.sleb()
    if 0 <= kind <= 8:
        return cursor.unsigned(kind)
    if kind == Layout.LEB:
        return cursor.uleb()
    if kind == Layout.STRING:
        return cursor.text()
    skip(cursor, kind)
    return None
