"""The sweep, compiled and not, beside what a search through everything finds."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import groupby, pairwise
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.core import sweep
from symd.debuginfo.text_ranges import disjoint_pieces
from symd.index import cover
from symd.index.cover import innermost, pieces, points_of, smallest_cover, view
from symd.model.debug_info import NO_PARENT
from symd.model.reasons import Reason
from tests.core.uncompiled import uncompiled

SIZE = 40
offsets = st.integers(0, SIZE)
spans = st.lists(st.tuples(offsets, offsets), max_size=12)
CORES = (sweep, uncompiled("sweep"))


@pytest.fixture(params=CORES, ids=("compiled", "uncompiled"), autouse=True, scope="module")
def core(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    with patch.object(cover, "sweep", request.param):
        yield request.param


FAR = 1 << 40
"""Where text begins, beyond what 32 bits say."""


def columns(found: list[tuple[int, int]]) -> tuple[Any, Any]:
    return tuple(np.array([each[at] for each in found], np.uint64) for at in range(2))


def test_its_numbers_are_those_of_the_model(core: ModuleType) -> None:
    for name in ("EXACT", "APPROXIMATE", "GAP", "DEBUG_DATA_ELSEWHERE"):
        assert getattr(core, name) == Reason[name]
    assert core.NO_PARENT == NO_PARENT


@given(st.lists(st.one_of(st.integers(0, 100), st.integers(0, 2**62)), min_size=1, max_size=30))
def test_points_know_their_numbers(core: ModuleType, positions: list[int]) -> None:
    points = points_of(np.array(positions, np.uint64))
    assert points.tolist() == sorted(set(positions))
    asked = np.array(positions, np.uint64)
    found = core.point_numbers(view(points, np.uint64), view(asked, np.uint64))
    assert points[list(found)].tolist() == positions


@given(spans)
def test_of_equal_and_nested_ranges_the_smallest_covers(found: list[tuple[int, int]]) -> None:
    found = [(a, max(a, b)) for a, b in found]
    starts, ends = columns(found)
    points = points_of(starts, ends, np.array([0], np.uint64))

    def smallest(point: int) -> int:
        around = [(b - a, number) for number, (a, b) in enumerate(found) if a <= point < b]
        return min(around)[1] if around else -1

    assert smallest_cover(starts, ends, points).tolist() == [smallest(each) for each in points.tolist()]


@given(spans, st.booleans(), st.sets(offsets), st.sampled_from([0, FAR]))
def test_the_last_row_has_a_piece(found: list[tuple[int, int]], in_order: bool, others: set[int], far: int) -> None:
    """In order they are disjoint: each ends where the next one begins, or before."""
    found, others = [(a + far, max(a, b) + far) for a, b in found], {each + far for each in others}
    if in_order:
        begins = [*sorted(start for start, _ in found), SIZE + far]
        found = [(a, min(max(a, b), after)) for (a, after), (_, b) in zip(pairwise(begins), found, strict=True)]
    starts, ends = columns(found)
    own = points_of(np.array([0, *others], np.uint64), ends)
    position, row, at = pieces(starts, ends, own)
    assert position.tolist() == sorted({0, *others, *starts.tolist(), *ends.tolist()})
    assert position[at].tolist() == own.tolist()
    expected = [max((n for n, (a, b) in enumerate(found) if a <= p < b), default=-1) for p in position.tolist()]
    assert row.tolist() == expected


def test_thousands_of_rows_that_overlap_take_their_turns() -> None:
    """More than a heap has room for in the beginning; later ones are shorter, and end first."""
    count = 3000
    starts, ends = np.arange(count, dtype=np.uint64), 3 * count - np.arange(count, dtype=np.uint64)
    _, row, _ = pieces(starts[::-1].copy(), ends[::-1].copy(), points_of(ends, np.zeros(1, np.uint64)))
    assert row.tolist() == [count - 1] * (len(row) - 1) + [-1]
    _, row, _ = pieces(starts, ends, points_of(ends, np.zeros(1, np.uint64)))
    assert row.tolist() == [*range(count), *range(count - 2, -1, -1), -1]


@given(st.lists(st.tuples(st.integers(-1, 5), offsets, offsets), min_size=1, max_size=12))
def test_scopes_that_contradict_each_other_are_decided_apart_as_all_together(found: list[tuple[int, int, int]]) -> None:
    """``found``: (parent, start, end) of a scope each; what does not overlap does not matter to each other."""
    parents = [min(parent, number - 1) for number, (parent, _, _) in enumerate(found)]
    parent = np.array([number if number >= 0 else NO_PARENT for number in parents], np.uint32)
    starts, ends = columns([each[1:] for each in found])
    scope = np.arange(len(found), dtype=np.int32)
    points = points_of(starts, ends)
    expected = np.full(len(points), -1)
    whole = ((start, end, number) for number, (_, start, end) in enumerate(found) if start < end)
    for start, end, owner in disjoint_pieces(whole):
        expected[(points >= start) & (points < end)] = owner
    assert innermost(scope, starts, ends, parent, points).tolist() == expected.tolist()


@given(st.data())
def test_nested_scopes_have_what_is_not_in_those_inside_them(data: st.DataObject) -> None:
    found: list[tuple[int, int, int]] = []

    def nest(parent: int, start: int, end: int, depth: int) -> None:
        cuts = sorted(data.draw(st.sets(st.integers(start, end), max_size=6)))
        for first, stop in [*pairwise(cuts)][::2]:
            found.append((parent, first, stop))
            if depth < 4:
                nest(len(found) - 1, first, stop, depth + 1)

    nest(-1, 0, SIZE, 0)
    parent = np.array([each[0] if each[0] >= 0 else NO_PARENT for each in found], np.uint32)
    starts, ends = columns([each[1:] for each in found])
    points = points_of(starts, ends, np.zeros(1, np.uint64))
    answer = innermost(np.arange(len(found)), starts, ends, parent, points)
    expected = [max((n for n, (_, a, b) in enumerate(found) if a <= p < b), default=-1) for p in points.tolist()]
    assert answer.tolist() == expected


def test_scopes_nested_deeper_than_any_level_limit_are_still_found() -> None:
    depth = 200
    parent = np.array([NO_PARENT, *range(depth - 1)], np.uint32)
    starts = np.arange(depth, dtype=np.uint64)
    ends = np.full(depth, 1000, np.uint64)
    points = points_of(starts, ends)
    found = innermost(np.arange(depth, dtype=np.uint32), starts, ends, parent, points)
    assert found.tolist() == [*range(depth), -1]


def test_scopes_around_each_other_end(core: ModuleType) -> None:
    assert list(core.levels(view(np.array([1, 0, NO_PARENT, 2], np.uint32), np.uint32))) == [core.MAX_DEPTH] * 2 + [
        0,
        1,
    ]


rows = st.lists(st.integers(-1, 4), min_size=1, max_size=24)
PER_AREA, PER_ROW = 6, 5


def drawn(data: st.DataObject, *most: int) -> list[list[int]]:
    """Lists of numbers up to each of ``most``, of PER_AREA entries."""
    return [data.draw(st.lists(st.integers(0, each), min_size=PER_AREA, max_size=PER_AREA)) for each in most]


@settings(max_examples=300)
@given(rows, st.data())
def test_an_earlier_row_of_the_group_stands_for_one_without_a_line(
    core: ModuleType, row: list[int], data: st.DataObject
) -> None:
    count = len(row)
    begin = sorted({0, *data.draw(st.sets(st.integers(0, count - 1), max_size=PER_AREA - 1))})
    group, bare, missing, elsewhere = (each[: len(begin)] for each in drawn(data, 2, 6, 6, 1))
    (line,) = (each[:PER_ROW] for each in drawn(data, 2))
    area = [sum(first <= at for first in begin) - 1 for at in range(count)]
    expected = []
    for at, number in enumerate(row):
        its = area[at]
        earlier = [row[n] for n in range(at) if group[area[n]] == group[its] and row[n] >= 0 and line[row[n]]]
        if number >= 0 and line[number]:
            answer = number, Reason.EXACT
        elif number >= 0 and earlier:
            answer = earlier[-1], Reason.APPROXIMATE
        else:
            why = bare[its] if number >= 0 else missing[its]
            answer = (-1 if why == Reason.GAP else number), why
        answering_row, why = answer
        its_line = line[answering_row] if answering_row >= 0 else 0
        expected.append((answering_row, its_line, Reason.DEBUG_DATA_ELSEWHERE if elsewhere[its] else why))
    answering = np.array(row, np.int32)
    found = array("I", bytes(4 * count)), bytearray(count)
    core.fill(
        memoryview(answering),
        view(np.array(begin), np.int64),
        (
            view(np.array(group), np.uint32),
            *(view(np.array(each), np.uint8) for each in (bare, missing, elsewhere)),
        ),
        3,
        view(np.array(line), np.uint32),
        tuple(memoryview(each) for each in found),
    )
    assert [*zip(answering.tolist(), *found, strict=True)] == expected


@settings(max_examples=300)
@given(rows, st.data())
def test_rows_that_may_not_fit_are_suspect(core: ModuleType, row: list[int], data: st.DataObject) -> None:
    area = data.draw(st.lists(st.integers(0, PER_AREA - 1), min_size=len(row), max_size=len(row)))
    scope, in_kernel, is_code, torn, first, end, own_file = drawn(data, 2, 1, 1, 1, 3, 5, 1)
    scope = [each - 1 for each in scope]
    line, file = drawn(data, 5, 1)
    expected: list[int] = []
    for number, run in groupby(range(len(row)), row.__getitem__):
        its = [*run]
        home, areas = area[its[0]], [area[at] for at in its]
        if number < 0 or not line[number] or not is_code[home]:
            continue
        in_lines = first[home] <= line[number] < end[home] and file[number] == own_file[home]
        strays = [each for each in areas if scope[each] != scope[home] and (scope[each] >= 0 or in_kernel[each])]
        if (end[home] and not in_lines) or strays or any(torn[each] for each in areas):
            expected += [its[0], its[-1] + 1]
    of_areas = (
        view(np.array(scope), np.int32),
        *(view(np.array(each), np.uint8) for each in (in_kernel, is_code, torn)),
        *(view(np.array(each), np.uint32) for each in (first, end, own_file)),
    )
    found = core.suspect_rows(
        view(np.array(row), np.int32),
        view(np.array(area), np.int32),
        view(np.array(line), np.uint32),
        view(np.array(file), np.uint32),
        of_areas,
    )
    assert list(found) == expected


def test_numbers_of_what_is_not_there_are_errors(core: ModuleType) -> None:
    one, none = view(np.array([7], np.uint64), np.uint64), view(np.zeros(0, np.uint64), np.uint64)
    with pytest.raises(IndexError):
        core.covers(one, view(np.array([1]), np.int64), none, none, view(np.zeros(0), np.uint32))
