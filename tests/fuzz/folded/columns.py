"""Line sequences, functions and units made of an input's bytes, each a small number, so that most sequences share their places: thousands of
objects a second, and no debug data that most changes make unreadable."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from symd.debuginfo import folded_sequences
from symd.debuginfo.dwarf.columns import DieRanges, FunctionColumns, LineColumns, ScopeColumns
from symd.debuginfo.dwarf.forms import Widths
from symd.debuginfo.dwarf.sections import DebugSections
from symd.debuginfo.dwarf.units import Unit, Units
from symd.debuginfo.folded_sequences import FoldedSequences, find_folded, function_lines
from symd.debuginfo.relocation import LinearLayout
from symd.model.debug_info import NO_PARENT
from tests.debuginfo.folded_one_by_one import OneByOne, judged
from tests.debuginfo.scope_rows import with_line_ends
from tests.fuzz.target import Target

BASE = 0x20000
"""Where the first of two sections of text begins."""
LAYOUT = LinearLayout(array("I", (3, 5)), array("Q", (BASE, BASE + 64)), array("Q", (32, 32)))
_OUTSIDE = 1 << 60
_NAMES = ("", "f", "operator()", "_ZZ1fvE1g")
_TABLES = (0, 10, 20)
_STMT_LISTS = (0, 10, 0, 10, 0, 10, 20, None, 99)
"""Of units: the tables' places, none, and one where there is no table."""
_NOTHING = DebugSections.of({})


class MadeObject(NamedTuple):
    """The arguments of ``find_folded``; ``ranges`` are the code of units."""

    lines: LineColumns
    scopes: ScopeColumns
    units: Units
    ranges: DieRanges


def made(data: bytes) -> MadeObject:
    """What the bytes say; behind their end are zeros."""
    rest = iter(data)

    def below(count: int) -> int:
        return next(rest, 0) % count

    units = tuple(_unit(number, _STMT_LISTS[below(9)]) for number in range(1 + below(3)))
    functions = [(below(4), below(2), below(12), below(len(units))) for _ in range(1 + below(5))]
    return MadeObject(_lines(below), _scopes(below, functions, len(units)), Units(units), _code(below, len(units)))


@cache
def _unit(number: int, stmt_list: int | None) -> Unit:
    return Unit(number, 0, 0, 0, 5, Widths(8, 4, 5), 0, stmt_list=stmt_list)


Below = Callable[[int], int]
"""The next number, below another."""


def _address(below: Below) -> int:
    """Mostly one of three."""
    at = 4 * below(32)
    return BASE + (at if at < 56 else at % 12) if at < 120 else _OUTSIDE


def _lines(below: Below) -> LineColumns:
    rows, ends, table = [], [], []
    for _ in range(2 + below(5)):
        table.append((0, 0, 0, 1, 1, 2)[below(6)])
        address = _address(below)
        for _ in range(2 + below(4)):
            rows.append((address, below(2), below(12), below(2)))
            address += 4 * below(4)
        ends.append(len(rows))
    address_, *others = zip(*rows, strict=True)
    file, line, column = (np.array(each, np.uint32) for each in others)
    return LineColumns(
        address=np.array(address_, np.uint64),
        file=file,
        line=line,
        column=column,
        flags=np.zeros(len(rows), np.uint8),
        ends=np.array(ends, np.int64),
        table=np.array(table, np.uint32),
        tables=_TABLES,
    )


def _scopes(below: Below, functions: list[tuple[int, int, int, int]], units: int) -> ScopeColumns:
    scopes, ranges = [], []
    for number in range(1 + below(6)):
        parent = max(-1, below(2 * number + 2) - 2 - number)
        own = below(len(functions) + 1) - 1
        unit = below(units) if parent < 0 else scopes[parent][4]
        scopes.append((parent % (1 << 32), own % (1 << 32), below(2), below(12), unit))
        for _ in range((1, 1, 2, 0)[below(4)]):
            start = _address(below)
            ranges.append((number, start, start + 4 + 4 * below(8)))
    parents, function, call_file, call_line, unit_ = _columns(scopes, 5)
    which, start_, end = _columns(ranges, 3)
    name, file, line, of_unit = _columns(functions, 4)
    zero = np.zeros(len(scopes), np.uint32)
    made = ScopeColumns(
        parent=parents.astype(np.uint32),
        name=zero,
        linkage_name=zero,
        inlined=(parents != NO_PARENT).astype(np.uint8),
        call_file=call_file.astype(np.uint32),
        call_line=call_line.astype(np.uint32),
        call_column=zero,
        unit=unit_.astype(np.uint32),
        range_scope=which.astype(np.uint32),
        range_start=start_,
        range_end=end,
        function=function.astype(np.uint32),
        functions=FunctionColumns(*(each.astype(np.uint32) for each in (name, name, file, line, of_unit))),
        line_ends=np.zeros(0, np.uint32),
        names=_NAMES,
    )
    return with_line_ends(made)


def _columns(rows: list[tuple[int, ...]], count: int) -> Iterator[np.ndarray]:
    return iter(np.array(rows, np.uint64).reshape(-1, count).T)


def _code(below: Below, units: int) -> DieRanges:
    found = [(below(units), _address(below)) for _ in range(below(5))]
    below(16)  # which seeds that are kept have
    which, start = _columns(found, 2)
    return DieRanges(which.astype(np.int64), start, start + np.uint64(4))


def judge(data: bytes) -> None:
    """Raises AssertionError where the one at once and the one by one differ."""
    one = made(data)
    functions = function_lines(one.scopes)
    with patch.object(folded_sequences, "unit_ranges", lambda *_: one.ranges):
        at_once = find_folded(_NOTHING, one.lines, one.scopes, one.units, functions, LAYOUT)
    agree(at_once, judged(one.ranges, one.lines, one.scopes, one.units, functions, LAYOUT))


def agree(at_once: FoldedSequences, one_by_one: OneByOne) -> None:
    of_others = set() if at_once.of_others is None else set(np.flatnonzero(at_once.of_others).tolist())
    doubted = list(zip(*(column.tolist() for column in at_once.doubted), strict=True))
    assert (of_others, doubted) == (one_by_one.of_others, one_by_one.doubted)


@cache
def objects() -> list[bytes]:
    return [random.Random(number).randbytes(64 + 8 * number) for number in range(24)]


TARGETS = {"folded_sequences": Target(judge, objects, largest=512)}
