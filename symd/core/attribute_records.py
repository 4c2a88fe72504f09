# cython: language_level=3, boundscheck=True, wraparound=False
"""The records of a cubin's .nv.info sections, one after the other: u8 format, u8 id, then one u16, which of format 4 is
the count of bytes that follow."""

from __future__ import annotations

from array import array

import cython

_LAST_FORMAT = cython.declare(cython.int, 4)
_WITH_BYTES = cython.declare(cython.int, 4)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _length(view: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:  # type: ignore[valid-type] # a view, to Cython
    """Bytes of the record at byte ``at``; 0 where it cannot be read."""
    left: cython.Py_ssize_t = len(view) - at
    if left < 4 or not 1 <= view[at] <= _LAST_FORMAT:
        return 0
    if view[at] != _WITH_BYTES:
        return 4
    length: cython.Py_ssize_t = 4 + view[at + 2] + 256 * view[at + 3]
    return length if length <= left else 0


def starts(data: bytes) -> tuple[array[int], int]:
    """Where each record begins, and where they end: the size of ``data``, or the byte at which one begins that cannot
    be read."""
    view: cython.const[cython.uchar][::1] = data  # type: ignore[valid-type] # a view, to Cython
    found = array("I")
    at: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t = 0
    while at < len(view):
        length = _length(view, at)
        if not length:
            break
        found.append(at)
        at += length
    return found, at


def chosen(data: bytes, wanted: bytes) -> tuple[bytes, int, int]:
    """The records whose id is not 0 in ``wanted``, a table of 256 bytes, as they stand in ``data``; how many records
    there are in all, and where they end, as ``starts`` has it."""
    view: cython.const[cython.uchar][::1] = data  # type: ignore[valid-type] # a view, to Cython
    table: cython.const[cython.uchar][::1] = wanted  # type: ignore[valid-type] # a view, to Cython
    parts = []
    count: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t = -1
    length: cython.Py_ssize_t = 0
    while at < len(view):
        length = _length(view, at)
        if not length:
            break
        if table[view[at + 1]]:
            if begin < 0:
                begin = at
        elif begin >= 0:
            parts.append(data[begin:at])
            begin = -1
        count += 1
        at += length
    if begin >= 0:
        parts.append(data[begin:at])
    return b"".join(parts), count, at


def numbers_by_symbol(data: bytes, wanted: bytes) -> dict[int, dict[int, int]]:
    """What records with the ids in ``wanted`` say of each symbol, {symbol number: {id: number}}; of several for one
    symbol the last. The first two little-endian u32 of such a record are symbol and number; records that are too
    short for that do not count."""
    view: cython.const[cython.uchar][::1] = data  # type: ignore[valid-type] # a view, to Cython
    table: cython.const[cython.uchar][::1] = wanted  # type: ignore[valid-type] # a view, to Cython
    found: dict[int, dict[int, int]] = {}
    at: cython.Py_ssize_t = 0
    length: cython.Py_ssize_t = 0
    while at < len(view):
        length = _length(view, at)
        if not length:
            break
        if table[view[at + 1]] and view[at] == _WITH_BYTES and length >= 12 and length % 4 == 0:
            symbol: cython.uint = _word(view, at + 4)
            numbers = found.get(symbol)
            if numbers is None:
                numbers = found[symbol] = {}
            numbers[view[at + 1]] = _word(view, at + 8)
        at += length
    return found


@cython.cfunc
@cython.exceptval(-1, check=True)
def _word(view: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.ulonglong:  # type: ignore[valid-type] # likewise
    high: cython.ulonglong = view[at + 3]
    return view[at] + 256 * view[at + 1] + 65536 * view[at + 2] + 16777216 * high
