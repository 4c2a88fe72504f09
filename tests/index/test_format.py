"""An index file comes back as it was written, and a damaged one is refused by name or answers something, never more."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.config import Limits
from symd.engine import Engine, build_index
from symd.errors import DataLoss
from symd.index import Index
from symd.index.cover import Points
from symd.index.distinct import combined, numbered, runs
from symd.index.format import compress, decode, decompress, encode, narrow
from symd.index.packing import ROW_COLUMNS, Ranges, pack_ranges, pack_table, unpack_table
from symd.index.starts import Starts, encode_starts
from symd.store import Store

RAYCAST = Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "raycast" / "dg2-opt.dbg"
numbers = st.integers(0, 2**64 - 1)


@given(st.lists(numbers, max_size=20), st.integers(0, 3), numbers)
def test_columns_come_back_as_they_were_written(values: list[int], repeats: int, same: int) -> None:
    column = narrow(np.array(values, np.uint64))
    equal = np.full(repeats, same, np.uint64)
    back = decode(encode({"values": column, "equal": equal, "more": np.arange(3, dtype=np.uint8)}))
    assert back["values"].tolist() == values
    assert back["values"].dtype == column.dtype
    assert back["equal"].tolist() == [same] * repeats
    assert back["more"].tolist() == [0, 1, 2]
    assert not any(each.flags.writeable for each in back.values())


def test_a_column_of_equal_entries_takes_the_place_of_one() -> None:
    assert len(encode({"a": np.full(10**6, 7, np.uint32)})) < 100


def spread(shift: int) -> st.SearchStrategy[list[int]]:
    """Distinct starts: close together they become bits, far apart a sorted column."""
    return st.sets(st.one_of(st.integers(0, 300), st.integers(0, 2**40)), min_size=1, max_size=60).map(
        lambda found: sorted(number << shift for number in found)
    )


@given(st.integers(0, 5).flatmap(spread), st.lists(st.integers(0, 2**45), max_size=30))
def test_a_position_is_found_as_a_search_would(starts: list[int], asked: list[int]) -> None:
    column = np.array(starts, np.uint64)
    found = Starts(encode_starts(column))
    assert found.all().tolist() == starts
    assert found.count == len(starts)
    positions = np.array([*starts, *(start + 1 for start in starts), *asked], np.uint64)
    expected = np.maximum(np.searchsorted(column, positions, side="right") - 1, 0).tolist()
    assert found.find(positions).tolist() == expected
    assert [found.find_one(int(position)) for position in positions] == expected
    many = np.tile(positions, 40 + 2**13 // max(len(positions), 1))
    assert found.find(many)[: len(positions)].tolist() == expected


ranges = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 70_000), st.integers(0, 300), st.integers(1, 11)), max_size=700
)


@given(ranges)
@settings(max_examples=60)
def test_packed_ranges_say_what_they_were_given(given_ranges: list[tuple[int, int, int, int]]) -> None:
    frame, line, column, reason = (np.array([r[at] for r in given_ranges], np.int64) for at in range(4))
    packed = pack_ranges(np.arange(len(frame), dtype=np.uint64), frame, line, column, reason, 401)
    found = Ranges(decode(encode(packed)))
    every = np.arange(len(frame))
    at = found.frame(every)
    assert at.tolist() == frame.tolist()
    assert found.line(every, at).tolist() == line.tolist()
    assert found.column(every).tolist() == column.tolist()
    assert found.reason(every).tolist() == reason.tolist()
    assert [found.one(number) for number in range(len(found))] == given_ranges


@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * len(ROW_COLUMNS)), max_size=40))
def test_rows_come_back_as_they_were_packed(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array([row[at] for row in rows], np.uint64) for at in range(len(ROW_COLUMNS))]
    back = unpack_table(np.frombuffer(pack_table(columns), np.uint8), len(rows), ROW_COLUMNS)
    assert {name: column.tolist() for name, column in back.items()} == dict(
        zip(ROW_COLUMNS, (column.tolist() for column in columns), strict=True)
    )


@given(st.lists(st.tuples(st.integers(-5, 2**40), st.integers(0, 3)), min_size=1, max_size=40))
def test_entries_are_numbered_by_what_they_say(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array([pair[at] for pair in pairs], np.int64) for at in range(2))
    distinct, number = numbered(combined(first, second))
    order = sorted(set(pairs))
    assert len(distinct) == len(order)
    assert [order[n] for n in number.tolist()] == pairs
    begins = [at for at, pair in enumerate(pairs) if at == 0 or pair != pairs[at - 1]]
    assert runs(first, second).tolist() == begins


@given(st.lists(st.one_of(st.integers(0, 100), st.integers(0, 2**62)), min_size=1, max_size=30))
def test_points_know_their_numbers(positions: list[int]) -> None:
    points = Points(np.array(positions, np.uint64))
    assert points.values.tolist() == sorted(set(positions))
    assert points.number(points.values).tolist() == list(range(len(points)))


def test_compressed_bytes_come_back_and_damaged_ones_are_refused() -> None:
    column = compress(b"summary" * 99)
    assert decompress(column) == b"summary" * 99
    with pytest.raises(DataLoss):
        decompress(column[:-3])
    with pytest.raises(DataLoss):
        decompress(np.zeros(8, np.uint8))


@pytest.fixture(scope="module")
def stored() -> bytes:
    return build_index(RAYCAST.read_bytes(), Limits())


def test_a_truncated_index_is_refused(stored: bytes) -> None:
    for size in range(0, len(stored), max(len(stored) // 97, 1)):
        with pytest.raises(DataLoss):
            Index(stored[:size])


def test_an_index_with_any_damage_is_refused(stored: bytes) -> None:
    dice = random.Random(5)
    for _ in range(400):
        damaged = bytearray(stored)
        damaged[at := dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        if 20 <= at < 24:  # the four bytes that mean nothing
            continue
        with pytest.raises(DataLoss):
            Index(bytes(damaged))


def test_a_damaged_index_in_the_store_is_made_again(tmp_path: Path) -> None:
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(RAYCAST.read_bytes()).sha256
    (path,) = tmp_path.glob(f"index/*/*/{digest}.idx")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with Engine(Store(tmp_path)) as engine:
        assert engine.module(digest).sha256 == digest
    assert path.read_bytes() == whole
