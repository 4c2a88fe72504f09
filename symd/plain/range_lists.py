"""One range list: of ``.debug_ranges`` (DWARF 4, 2.17.3) or ``.debug_rnglists`` (DWARF 5, 7.25)."""

from __future__ import annotations

from symd.model.plain_answers import NotPlain
from symd.plain.numbers import (
    ADDRESS_SIZE,
    DW_FORM_addrx,
    DW_RLE_base_address,
    DW_RLE_base_addressx,
    DW_RLE_end_of_list,
    DW_RLE_offset_pair,
    DW_RLE_start_end,
    DW_RLE_start_length,
    DW_RLE_startx_endx,
    DW_RLE_startx_length,
    uleb,
    unsigned,
)

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.plain.units import CompileUnit

Spans = tuple[tuple[int, int], ...]
"""Addresses [start, end), none empty."""
_HIGHEST = (1 << 64) - 1
_MOST_ENTRIES = 1 << 14
_INDEXED = frozenset({DW_RLE_base_addressx, DW_RLE_startx_endx, DW_RLE_startx_length})


def read_old(section: bytes, at: int, base: int) -> Spans:
    """The list at an offset of ``.debug_ranges``, which counts from ``base``."""
    found: list[tuple[int, int]] = []
    for _ in range(_MOST_ENTRIES):
        start, end = unsigned(section, at, ADDRESS_SIZE), unsigned(section, at + ADDRESS_SIZE, ADDRESS_SIZE)
        at += 2 * ADDRESS_SIZE
        if not (start or end):
            return tuple(found)
        if start == _HIGHEST:
            base = end
        elif start < end:
            found.append(_moved(start, end, base))
    raise NotPlain


def read_new(section: bytes, at: int, unit: CompileUnit) -> Spans:
    """The list at an offset of ``.debug_rnglists``, of a unit."""
    found: list[tuple[int, int]] = []
    base = unit.low_pc
    for _ in range(_MOST_ENTRIES):
        kind = section[at]
        if kind == DW_RLE_offset_pair:
            start, at = uleb(section, at + 1)
            end, at = uleb(section, at)
            if start < end:
                found.append(_moved(start, end, base))
        elif kind == DW_RLE_end_of_list:
            return tuple(found)
        else:
            start, at = _address(section, at + 1, unit, kind in _INDEXED)
            if kind in (DW_RLE_base_address, DW_RLE_base_addressx):
                base = start
                continue
            if kind in (DW_RLE_start_length, DW_RLE_startx_length):
                length, at = uleb(section, at)
                end = start + length
            elif kind in (DW_RLE_start_end, DW_RLE_startx_endx):
                end, at = _address(section, at, unit, kind == DW_RLE_startx_endx)
            else:
                raise NotPlain
            if start < end:
                found.append(_moved(start, end, 0))
    raise NotPlain


def _address(section: bytes, at: int, unit: CompileUnit, is_indexed: bool) -> tuple[int, int]:
    """An address that stands here, or whose index does, and the place after it."""
    if not is_indexed:
        return unsigned(section, at, ADDRESS_SIZE), at + ADDRESS_SIZE
    index, at = uleb(section, at)
    return unit.address(DW_FORM_addrx, index), at


def _moved(start: int, end: int, by: int) -> tuple[int, int]:
    if end + by > _HIGHEST:
        raise NotPlain
    return start + by, end + by
