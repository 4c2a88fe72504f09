"""The numbers of DWARF that the plain reader knows, under their own names (``symd.dwarf.constants`` has them all, and where they come from; to
import it takes a tenth of an answer), and how many bytes the values of each form take."""

from __future__ import annotations

from symd.model.plain_answers import NotPlain

DW_TAG_inlined_subroutine = 0x1D
DW_TAG_subprogram = 0x2E

DW_AT_stmt_list = 0x10
DW_AT_low_pc = 0x11
DW_AT_comp_dir = 0x1B
DW_AT_abstract_origin = 0x31
DW_AT_specification = 0x47
DW_AT_str_offsets_base = 0x72
DW_AT_addr_base = 0x73
DW_AT_rnglists_base = 0x74
DW_AT_dwo_name = 0x76
DW_AT_GNU_dwo_name = 0x2130
DW_AT_GNU_dwo_id = 0x2131
DW_AT_GNU_ranges_base = 0x2132
DW_AT_GNU_addr_base = 0x2133

DW_FORM_addr = 0x01
DW_FORM_data2 = 0x05
DW_FORM_data4 = 0x06
DW_FORM_data8 = 0x07
DW_FORM_string = 0x08
DW_FORM_block = 0x09
DW_FORM_block1 = 0x0A
DW_FORM_data1 = 0x0B
DW_FORM_flag = 0x0C
DW_FORM_sdata = 0x0D
DW_FORM_strp = 0x0E
DW_FORM_udata = 0x0F
DW_FORM_ref_addr = 0x10
DW_FORM_ref1 = 0x11
DW_FORM_ref2 = 0x12
DW_FORM_ref4 = 0x13
DW_FORM_ref8 = 0x14
DW_FORM_ref_udata = 0x15
DW_FORM_sec_offset = 0x17
DW_FORM_exprloc = 0x18
DW_FORM_flag_present = 0x19
DW_FORM_strx = 0x1A
DW_FORM_addrx = 0x1B
DW_FORM_data16 = 0x1E
DW_FORM_line_strp = 0x1F
DW_FORM_ref_sig8 = 0x20
DW_FORM_implicit_const = 0x21
DW_FORM_loclistx = 0x22
DW_FORM_rnglistx = 0x23
DW_FORM_strx1 = 0x25
DW_FORM_strx2 = 0x26
DW_FORM_strx3 = 0x27
DW_FORM_strx4 = 0x28
DW_FORM_addrx1 = 0x29
DW_FORM_addrx2 = 0x2A
DW_FORM_addrx3 = 0x2B
DW_FORM_addrx4 = 0x2C

DW_UT_compile = 0x01

DW_LNCT_path = 0x01
DW_LNCT_directory_index = 0x02


LEB, STRING, BLOCK1, BLOCK = -1, -2, -3, -6
"""Layouts of values whose size is not fixed, as ``forms.ValueLayout``; a fixed size is a number from 0."""
ADDRESS_SIZE, OFFSET_SIZE = 8, 4
"""No other widths are read here."""
LAYOUTS = {
    DW_FORM_flag_present: 0, DW_FORM_implicit_const: 0,
    DW_FORM_data1: 1, DW_FORM_ref1: 1, DW_FORM_flag: 1, DW_FORM_strx1: 1, DW_FORM_addrx1: 1,
    DW_FORM_data2: 2, DW_FORM_ref2: 2, DW_FORM_strx2: 2, DW_FORM_addrx2: 2,
    DW_FORM_strx3: 3, DW_FORM_addrx3: 3,
    DW_FORM_data4: 4, DW_FORM_ref4: 4, DW_FORM_strx4: 4, DW_FORM_addrx4: 4, DW_FORM_strp: 4, DW_FORM_line_strp: 4,
    DW_FORM_sec_offset: 4, DW_FORM_ref_addr: 4,
    DW_FORM_data8: 8, DW_FORM_ref8: 8, DW_FORM_ref_sig8: 8, DW_FORM_addr: 8,
    DW_FORM_data16: 16,
    DW_FORM_sdata: LEB, DW_FORM_udata: LEB, DW_FORM_ref_udata: LEB, DW_FORM_strx: LEB, DW_FORM_addrx: LEB,
    DW_FORM_loclistx: LEB, DW_FORM_rnglistx: LEB,
    DW_FORM_string: STRING, DW_FORM_block1: BLOCK1, DW_FORM_block: BLOCK, DW_FORM_exprloc: BLOCK,
}  # fmt: skip
"""By form, as ``forms.layout``; a form that is not here is not plain."""
STRX = frozenset({DW_FORM_strx, DW_FORM_strx1, DW_FORM_strx2, DW_FORM_strx3, DW_FORM_strx4})
ADDRX = frozenset({DW_FORM_addrx, DW_FORM_addrx1, DW_FORM_addrx2, DW_FORM_addrx3, DW_FORM_addrx4})
UNIT_REFERENCES = frozenset({DW_FORM_ref1, DW_FORM_ref2, DW_FORM_ref4, DW_FORM_ref8, DW_FORM_ref_udata})
OFFSETS = frozenset({DW_FORM_sec_offset, DW_FORM_data4, DW_FORM_data8})
_LONGEST_LEB = 9
"""Bytes; those of ten may have more than 64 bits."""


def uleb(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= 7 * _LONGEST_LEB:
            raise NotPlain


def sleb(data: bytes, at: int) -> tuple[int, int]:
    """A signed LEB128 and the place after it."""
    value, after = uleb(data, at)
    bits = 7 * (after - at)
    return (value - (1 << bits) if value >> bits - 1 else value), after


def unsigned(data: bytes, at: int, size: int) -> int:
    """A little-endian number of ``size`` bytes."""
    found = data[at : at + size]
    if len(found) != size or at < 0:
        raise NotPlain
    return int.from_bytes(found, "little")


def text(data: bytes, at: int) -> bytes:
    """The string that begins at ``at``, without the NUL that ends it."""
    end = data.find(b"\0", at) if 0 <= at < len(data) else -1
    if end < 0:
        raise NotPlain
    return data[at:end]


def value(data: bytes, at: int, form: int, constant: int) -> tuple[int | bytes, int]:
    """A value of a form and the place after it; ``constant`` is that of an implicit_const."""
    layout = LAYOUTS.get(form)
    if layout is None:
        raise NotPlain
    if form == DW_FORM_implicit_const:
        return constant, at
    if form == DW_FORM_sdata:
        return sleb(data, at)
    if 0 <= layout <= 8:
        return (unsigned(data, at, layout) if layout else 1), at + layout
    if layout == LEB:
        return uleb(data, at)
    if layout == STRING:
        found = text(data, at)
        return found, at + len(found) + 1
    size, start = uleb(data, at) if layout == BLOCK else (data[at], at + 1) if layout == BLOCK1 else (layout, at)
    return data[start : start + size], start + size
