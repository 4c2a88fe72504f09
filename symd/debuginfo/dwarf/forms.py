"""Attribute forms (DWARF 5, 7.5.6; GNU and LLVM extensions): how many bytes a value takes, and one value read alone."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache

from symd.core.abbreviations import layouts
from symd.debuginfo.dwarf.constants import Form
from symd.debuginfo.dwarf.cursor import Cursor
from symd.model.named_tuples import NamedTuple

STRX_FORMS = frozenset(
    {
        Form.DW_FORM_strx, Form.DW_FORM_strx1, Form.DW_FORM_strx2, Form.DW_FORM_strx3, Form.DW_FORM_strx4,
        Form.DW_FORM_GNU_str_index,
    }
)  # fmt: skip
LOW_PC_OFFSET = 1 << 32
"""The name, which no attribute has, of what stands behind a DW_AT_low_pc of the form DW_FORM_LLVM_addrx_offset: the bytes from that address."""
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
