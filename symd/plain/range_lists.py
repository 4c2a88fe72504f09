"""One range list: of ``.debug_ranges`` (DWARF 4, 2.17.3) or ``.debug_rnglists`` (DWARF 5, 7.25)."""

from __future__ import annotations

import re

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
_SHORTEST_LEB = rb"(?:[\x00-\x7f]|[\x80-\xff]{1,7}+[\x01-\x7f])"
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


def lists_apart(first: int, last: int, base: int) -> re.Pattern[bytes]:
    """What matches a list of ``.debug_rnglists`` whose entries all count from ``base``, which is not above ``first``, and of which none has
    a part in the addresses [first, last). Of other lists it says nothing."""
    inside = rb"\x04%b%b" % (_compared(last - base, larger=False), _compared(first - base, larger=True))
    return re.compile(rb"(?:(?!%b)\x04%b%b)*+\x00" % (inside, _SHORTEST_LEB, _SHORTEST_LEB), re.DOTALL)


def _compared(number: int, *, larger: bool) -> bytes:
    """What matches the LEB128 of a number that is larger than ``number``, or smaller; none but the shortest way to write it is looked at."""
    digits = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    top = len(digits) - 1
    found = [rb"[\x80-\xff]{%d,}[\x00-\x7f]" % len(digits)] if larger else []
    if top and not larger:
        found.append(rb"[\x80-\xff]{0,%d}[\x00-\x7f]" % (top - 1))
    goes_on = [0x80 if place < top else 0 for place in range(len(digits))]
    for place, digit in enumerate(digits):
        lowest, highest = (digit + 1, 0x7F) if larger else (0, digit - 1)
        if lowest <= highest:
            here = rb"[\x%02x-\x%02x]" % (lowest | goes_on[place], highest | goes_on[place])
            above = bytes(digits[each] | goes_on[each] for each in range(place + 1, len(digits)))
            found.append(rb"[\x80-\xff]{%d}%b%b" % (place, here, re.escape(above)))
    return b"(?:%b)" % b"|".join(found) if found else b"(?!)"


def _moved(start: int, end: int, by: int) -> tuple[int, int]:
    if end + by > _HIGHEST:
        raise NotPlain
    return start + by, end + by
