"""Columns of pieces become lines; numbers and letters are written as Python writes them one by one."""

from __future__ import annotations

import numpy as np
import pytest

from symd.model.rendered_answers import RenderedAnswers, Shared, decimals, encoded, numbered, pieces_of, side_by_side

EDGES = [0, 1, 9, 10, 99, 100, 9_999, 10_000, 99_999_999, 100_000_000, (1 << 63) - 1, 10**19 - 1, 10**19, (1 << 64) - 1]


def test_numbers_are_written_in_decimal() -> None:
    first = [*EDGES, *np.random.default_rng(1).integers(0, 1 << 40, 1000).tolist()]
    second = [*reversed(EDGES), *np.random.default_rng(2).integers(0, 1 << 20, 1000).tolist()]
    columns = np.array(first, np.uint64), np.array(second, np.uint64)
    found = decimals(columns, (b" of ", b".")).tolist()
    assert found == [b"%d of %d." % pair for pair in zip(first, second, strict=True)]
    assert decimals((np.zeros(0, np.uint64),), (b"",)).tolist() == []


def test_pieces_are_joined_and_some_lines_are_others() -> None:
    kinds = Shared(pieces_of([b"a", b"", b"c"]), np.array([2, 1, 0, 0, 2]))
    constant = Shared(pieces_of([b"-"]), np.zeros(5, np.int64))
    written = RenderedAnswers([[b"1", b"2", b"3", b"4", b"5"], constant, kinds], 5, {1: b"two", 4: b"five"})
    assert written.each() == [b"1-c", b"two", b"3-a", b"4-a", b"five"]
    assert [written.text(start, start + 2) for start in range(0, 6, 2)] == [b"1-ctwo", b"3-a4-a", b"five"]


def test_letters_that_are_none_are_escaped() -> None:
    assert encoded(["ä", "b"]) == ["ä".encode(), b"b"]
    assert encoded(["ä\udc80", "b"]) == ["ä\\udc80".encode(), b"b"]


@pytest.mark.parametrize("rows", [0, 1, 7, 5000])
@pytest.mark.parametrize("most", [(1,), (3, 2), (1 << 31, 1 << 31, 5), (40, 1 << 20, 30, 1)])
def test_rows_with_equal_entries_are_one_group(rows: int, most: tuple[int, ...]) -> None:
    random = np.random.default_rng(rows)
    columns = [random.integers(0, top, rows).astype(np.uint32) for top in most]
    for column in columns:
        column[rows // 2 :] = column[: rows - rows // 2]
    group, first = numbered(*columns)
    every = list(zip(*(column.tolist() for column in columns), strict=True))
    assert [every[number] for number in first[group].tolist()] == every
    assert len(first) == len(set(every))


def test_columns_stand_side_by_side_with_what_is_between_them() -> None:
    first, second = pieces_of([b"a", b"b"]), pieces_of([b"1", b"2"])
    assert side_by_side(first, b" at ", second, b";").tolist() == [b"a at 1;", b"b at 2;"]
    assert side_by_side(b"<", first).tolist() == [b"<a", b"<b"]
    assert side_by_side(b"<", first[:0]).tolist() == []


@pytest.mark.parametrize("parts", [(), (b"a", b"b"), (pieces_of([b"a"]), pieces_of([b"1", b"2"]))])
def test_columns_side_by_side_have_one_length(parts) -> None:
    with pytest.raises(ValueError, match="unpack"):
        side_by_side(*parts)
