# cython: language_level=3, boundscheck=True, wraparound=False
"""How many messages and texts a protocol buffer holds, found without parsing it.

Source: protobuf.dev, "Encoding"."""

from __future__ import annotations

from array import array

import cython

from symd.model.light_typing import Any

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
