"""Finds where the DIEs of a unit begin (DWARF 5, 7.5.2), without decoding them.

A DIE's length follows from its abbreviation, so an abbreviation table compiles into a regular expression that splits
a unit at C speed. A match is one DIE that matters (a function, an inlined call, anything with children), or a run of the
null entries that end lists of children, and all the DIEs behind it that do not. Where the expression does not cover a unit to
its last byte, the unit is walked DIE by DIE, which is the reference: any form, any block, and an error with its place.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.dwarf import forms
from symd.debuginfo.dwarf.abbreviations import Attribute, DieShape, Shapes
from symd.debuginfo.dwarf.cursor import Cursor
from symd.debuginfo.dwarf.forms import Layout
from symd.debuginfo.dwarf.gather import Positions, uleb_at
from symd.debuginfo.dwarf.units import SECTION, Unit
from symd.model import U8

SUBPROGRAM, INLINED_SUBROUTINE = 0x2E, 0x1D
NULL = -1
"""The shape number of a null entry."""
_WALKED_BYTES = 8_000
"""A unit up to this size is walked: compiling an expression costs as much."""
_LONGEST_BLOCK = 64
_MOST_ABBREVIATIONS = 1000
"""The expression tries one after the other; from here on walking is as fast."""
_SPLIT_CODES = 0x4000
"""Abbreviation codes that the expression knows: those of one or two bytes."""

Layouts = tuple[int, ...]


class Dies(NamedTuple):
    """The DIEs of one unit that matter, in order: where each begins in ``.debug_info``, its shape number (or NULL),
    where its attributes begin, and the depth it stands at (the unit's own DIE at 0). Null entries have no meaning beyond
    that; some are left out."""

    at: Positions
    shape: NDArray[np.int32]
    attributes: Positions
    depth: NDArray[np.int32]


def split(data: bytes, u8: U8, unit: Unit, shapes: Shapes) -> Dies:
    """The DIEs of ``unit``; ``u8`` is ``data`` as an array. Raises Malformed where its tree cannot be followed."""
    table = shapes.table(unit.abbreviations, unit.widths)
    if unit.end - unit.dies > _WALKED_BYTES:
        dies = _split_by_expression(data, u8, unit, table)
        if dies is not None:
            return dies
    return _walk(data, unit, table, shapes)


def matters(shape: DieShape) -> bool:
    """Whether DIEs of this shape are returned."""
    return shape.has_children or shape.tag in (SUBPROGRAM, INLINED_SUBROUTINE)


def _split_by_expression(data: bytes, u8: U8, unit: Unit, table: Mapping[int, DieShape]) -> Dies | None:
    """None where the unit needs the walk."""
    declared = tuple(sorted((code, matters(shape), layouts(shape)) for code, shape in table.items()))
    if len(declared) > _MOST_ABBREVIATIONS:
        return None
    pieces = _expression(declared).findall(data, unit.dies, unit.end)
    length = np.fromiter(map(len, pieces), np.int64, len(pieces))
    behind = np.cumsum(length)
    if not len(pieces) or behind[-1] != unit.end - unit.dies:
        return None
    at = behind - length
    at += unit.dies
    first, attributes = uleb_at(u8, at)
    code = first.astype(np.int64)
    numbers = np.full(min(max(table, default=0) + 1, _SPLIT_CODES), NULL, np.int32)
    children = np.zeros(len(numbers), np.int32)
    for number, shape in table.items():
        if number < len(numbers):
            numbers[number] = shape.number
            children[number] = shape.has_children
    change = children[code]
    nulls = np.flatnonzero(code == 0)
    change[nulls] = -_zeros_from(u8, at[nulls], unit.end)
    depth = np.cumsum(change, dtype=np.int32)
    closed = int(np.argmax(depth <= 0)) + 1
    count = closed if depth[closed - 1] <= 0 else len(depth)
    depth -= change
    return Dies(at[:count], numbers[code[:count]], attributes[:count], depth[:count])


def _zeros_from(u8: U8, at: Positions, end: int) -> NDArray[np.int32]:
    """How many zero bytes stand at each position and behind it, before ``end``."""
    count = np.zeros(len(at), np.int32)
    going = np.arange(len(at))
    while going.size:
        going = going[u8[at[going] + count[going]] == 0]
        count[going] += 1
        going = going[at[going] + count[going] < end]
    return count


def layouts(shape: DieShape) -> Layouts:
    """The layouts of the attributes with neighbouring fixed sizes added up."""
    merged: list[int] = []
    for attribute in shape.attributes:
        if attribute.layout >= 0 and merged and merged[-1] >= 0:
            merged[-1] += attribute.layout
        else:
            merged.append(attribute.layout)
    return tuple(size for size in merged if size)


@lru_cache(maxsize=64)
def _expression(declared: tuple[tuple[int, bool, Layouts], ...]) -> re.Pattern[bytes]:
    """The expression of a table given as (code, whether it matters, layouts)."""
    kept: dict[Layouts, list[int]] = {}
    passed: dict[Layouts, list[int]] = {}
    for code, important, sizes in declared:
        usable = 0 < code < _SPLIT_CODES and not {Layout.INDIRECT, Layout.UNKNOWN} & set(sizes)
        if usable:
            (kept if important else passed).setdefault(sizes, []).append(code)
    tail = b"(?:" + b"|".join(_alternatives(passed)) + b")*+" if passed else b""
    # What does not match is passed whole, as a match without a group: nothing is tried again one byte further on.
    return re.compile(b"((?:" + b"|".join([b"\\x00++", *_alternatives(kept)]) + b")" + tail + b")|.++", re.DOTALL)


def _alternatives(codes: Mapping[Layouts, list[int]]) -> list[bytes]:
    return [
        choice + b"".join(map(_layout_pattern, sizes)) for sizes, group in codes.items() for choice in _codes(group)
    ]


def _codes(codes: Iterable[int]) -> list[bytes]:
    """Patterns that match the LEB128 of these codes: one for those of one byte, one for each first byte of two."""
    by_head: dict[int, list[int]] = {}
    for code in codes:
        head, last = (-1, code) if code < 0x80 else (code & 0x7F | 0x80, code >> 7)
        by_head.setdefault(head, []).append(last)
    return [(b"" if head < 0 else _byte(head)) + _one_of(lasts) for head, lasts in by_head.items()]


def _byte(value: int) -> bytes:
    return b"\\x%02x" % value


def _one_of(values: list[int]) -> bytes:
    return _byte(values[0]) if len(values) == 1 else b"[" + b"".join(map(_byte, values)) + b"]"


def _bytes(count: int) -> bytes:
    return b"." * count if count <= 8 else b".{%d}+" % count


def _layout_pattern(size: int) -> bytes:
    if size >= 0:
        return _bytes(size)
    if size == Layout.LEB:
        return b"[\\x80-\\xff]*+[\\x00-\\x7f]"
    if size == Layout.STRING:
        return b"[^\\x00]*+\\x00"
    # Every other length field is little-endian, so that its further bytes are 0 in the lengths that are covered.
    rest = b"\\x00" * (forms.BLOCK_LENGTH.get(Layout(size), 1) - 1)
    lengths = (_byte(length) + rest + _bytes(length) for length in range(_LONGEST_BLOCK))
    return b"(?:" + b"|".join(lengths) + b")"


def _walk(data: bytes, unit: Unit, table: Mapping[int, DieShape], shapes: Shapes) -> Dies:
    cursor = Cursor(data, SECTION, unit.dies, unit.end)
    plans = {code: (layouts(shape), shape.number, matters(shape), shape.has_children) for code, shape in table.items()}
    found = array("q")
    depth = 0
    while cursor.at < cursor.end:
        start = cursor.at
        code = cursor.uleb()
        if code == 0:
            found.extend((start, NULL, cursor.at, depth))
            depth -= 1
        else:
            plan = plans.get(code)
            if plan is None:
                raise cursor.fail(f"abbreviation {code} is not declared", start)
            sizes, number, important, has_children = plan
            attributes = cursor.at
            if Layout.INDIRECT in sizes:
                number = _skip_indirect(cursor, table[code], shapes)
            else:
                for size in sizes:
                    forms.skip(cursor, size)
            if important:
                found.extend((start, number, attributes, depth))
            depth += has_children
        if depth <= 0:
            break
    columns = np.array(found, np.int64).reshape(-1, 4).T
    return Dies(columns[0], columns[1].astype(np.int32), columns[2], columns[3].astype(np.int32))


def _skip_indirect(cursor: Cursor, shape: DieShape, shapes: Shapes) -> int:
    """Pass the attributes of a DIE that names forms in place; the number of a shape that has them spelt out.

    The form in place is passed as an attribute 0 of its own, a LEB128.
    """
    spelt: list[Attribute] = []
    for attribute in shape.attributes:
        resolved = attribute
        while resolved.form == forms.INDIRECT:
            form = cursor.uleb()
            spelt.append(Attribute(0, forms.UDATA, Layout.LEB))
            resolved = Attribute(attribute.name, form, forms.layout(form, shape.widths))
        forms.skip(cursor, resolved.layout)
        spelt.append(resolved)
    return shapes.shape(shape.tag, shape.has_children, tuple(spelt), shape.widths).number
