# cython: language_level=3, boundscheck=True, wraparound=False
"""Records that say what they are and how long, counted and chosen without being parsed: those of a cubin's .nv.info
sections, one after the other, and the messages of a protocol buffer, inside each other.

A record of .nv.info is u8 format, u8 id, then one u16, which of format 4 is the count of bytes that follow. Source of
the others: protobuf.dev, "Encoding"."""

from __future__ import annotations

from array import array

import cython

from symd.model.light_typing import Any

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


FIELDS = 256
"""Entries that each kind of message has in the table: those of field numbers below this."""
LEAF = 255
"""The entry of a field that is counted and not looked into."""
DEPTH = 100
"""How deep messages are looked into, which is as deep as they are parsed."""


def message_count(data: Any, kinds: Any, most: int) -> int:
    """The number of messages and texts in ``data``, or, of more than ``most``, some number above it. The message is of
    kind 0; ``kinds`` has ``FIELDS`` bytes for each kind: at a field's number the kind that it holds, ``LEAF``, or 0
    where it is not counted. Where the data is damaged, only what comes before that is counted."""
    content = cython.declare(cython.const[cython.uchar][::1])
    table = cython.declare(cython.const[cython.uchar][::1])
    ends = cython.declare(cython.longlong[::1])
    within = cython.declare(cython.longlong[::1])
    content, table = data, kinds
    end_of = array("q", bytes(8 * DEPTH))
    kind_of = array("q", bytes(8 * DEPTH))
    ends, within = end_of, kind_of
    depth: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = len(content)
    at: cython.Py_ssize_t = 0
    found: cython.Py_ssize_t = 0
    enough: cython.Py_ssize_t = most
    value: cython.ulonglong
    key: cython.ulonglong
    wire: cython.int
    shift: cython.int
    step: cython.int
    child: cython.int
    ends[0] = size
    while found <= enough:
        while depth and at >= ends[depth]:
            depth -= 1
        if at >= ends[depth]:
            break
        key = 0
        wire = 0
        for step in range(2):  # the key, and the number behind it
            value = 0
            shift = 0
            while True:
                if at >= size or shift > 63:
                    return int(found)
                value |= cython.cast(cython.ulonglong, content[at] & 127) << shift
                at += 1
                if content[at - 1] < 128:
                    break
                shift += 7
            if step == 0:
                key = value >> 3
                wire = cython.cast(cython.int, value & 7)
                if wire not in (0, 2):
                    break
        if wire == 1:
            at += 8
        elif wire == 5:
            at += 4
        elif wire == 2:
            if value > cython.cast(cython.ulonglong, size - at):
                return int(found)
            child = table[within[depth] * FIELDS + cython.cast(cython.Py_ssize_t, key)] if key < FIELDS else 0
            found += child != 0
            if child in (0, LEAF) or depth == DEPTH - 1:
                at += cython.cast(cython.Py_ssize_t, value)
            elif value:
                depth += 1
                ends[depth] = at + cython.cast(cython.Py_ssize_t, value)
                within[depth] = child
    return int(found)
