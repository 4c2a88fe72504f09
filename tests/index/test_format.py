"""An index file comes back as it was written, and a damaged one is refused by name or answers something, never more."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import DataLoss
from symd.index import Index
from symd.index.format import Strings, decode, decompress, narrow
from symd.index.locations import LocationFrames, ModuleRanges, Owners
from symd.index.module import build_index
from symd.index.packing import PAGE_SHIFT, RangePages, RankBitmap, encode_starts, unpack_table
from symd.index.schema import SCHEMA, Columns, RowTable
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.columns import combined, grouped, numbered, runs
from symd.store import Store
from tests.builders.index_file import compress, encode, encode_strings, pack_ranges, pack_table, with_fitting_checksums

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
    assert not any(each.flags.writeable for each in dict(back).values())


def test_a_column_of_equal_entries_takes_the_place_of_one() -> None:
    assert len(encode({"a": np.full(10**6, 7, np.uint32)})) < 100


NOTHING = np.zeros(0, np.uint8)
OWNERS = Owners(*[NOTHING] * 9)


def frames(line: np.ndarray) -> LocationFrames:
    return LocationFrames(NOTHING, NOTHING, NOTHING, line)


def columns_of(some: dict[str, np.ndarray]) -> Columns:
    """Some columns of an index file; the others are empty."""
    return Columns(decode(encode(dict.fromkeys(SCHEMA, NOTHING) | some)))


def spread(shift: int) -> st.SearchStrategy[list[int]]:
    """Distinct starts: close together they become bits, far apart a sorted column."""
    far = st.sets(st.one_of(st.integers(0, 300), st.integers(0, 2**40)), min_size=1, max_size=60)
    near = st.tuples(st.integers(1, 9), st.integers(0, 2000)).map(lambda by: {*range(0, by[0] * by[1] + 1, by[0])})
    return st.one_of(far, near).map(lambda found: sorted(number << shift for number in found))


@given(st.integers(0, 5).flatmap(spread), st.lists(st.integers(0, 2**45), max_size=30))
def test_a_position_is_found_as_a_search_would(starts: list[int], asked: list[int]) -> None:
    column = np.array(starts, np.uint64)
    found = RankBitmap(columns_of(encode_starts([column])))
    assert found.all().tolist() == starts
    assert found.count == len(starts)
    positions = np.array([*starts, *(start + 1 for start in starts), *asked], np.uint64)
    expected = np.maximum(np.searchsorted(column, positions, side="right") - 1, 0).tolist()
    assert found.find(positions).tolist() == expected
    many = np.tile(positions, 40 + 2**13 // max(len(positions), 1))
    assert found.find(many)[: len(positions)].tolist() == expected


ranges = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 70_000), st.integers(0, 300), st.integers(1, 11)), max_size=700
)


def packed(given_ranges: list[tuple[int, int, int, int]]) -> RangePages:
    """Ranges of (frame, line, column, reason), written and read."""
    frame, line, column, reason = (np.array([r[at] for r in given_ranges], np.uint32) for at in range(4))
    base = np.full(401, 2**32 - 1, np.uint32)
    np.minimum.at(base, frame, np.where(line > 0, line - 1, 2**32 - 1).astype(np.uint32))
    base[base == 2**32 - 1] = 0
    run = runs(frame)
    start = np.arange(len(line), dtype=np.uint32)
    reasons = reason.astype(np.uint8)
    found = ModuleRanges(start, line, column, reasons, run, frame[run].astype(np.int64), frames(base), OWNERS)
    return RangePages(columns_of({**pack_ranges(found), "frame_line": narrow(base)}))


@given(ranges, st.integers(1, 3 << PAGE_SHIFT))
@settings(max_examples=60)
def test_packed_ranges_say_what_they_were_given(given_ranges: list[tuple[int, int, int, int]], count: int) -> None:
    given_ranges = (given_ranges * count)[:count]
    found = packed(given_ranges)
    every = np.arange(len(given_ranges))
    columns = [find(every).tolist() for find in (found.frame, found.line, found.column, found.reason)]
    assert list(zip(*columns, strict=True)) == given_ranges
    assert len(found) == len(given_ranges)
    again = packed(given_ranges)
    assert again.line(every[-2:]).tolist() == [line for _, line, _, _ in given_ranges[-2:]]


def test_ranges_that_contradict_each_other_are_refused() -> None:
    ones, zeros = np.ones(9, np.uint32), np.zeros(1, int)
    found = ModuleRanges(ones, ones, ones, np.ones(9, np.uint8), zeros, zeros, frames(zeros), OWNERS)
    columns = pack_ranges(found) | {"frame_line": np.zeros(1, np.uint8)}
    assert RangePages(columns_of(columns)).line(np.array([8])).tolist() == [1]
    for name, value in (("range_count", [10**6]), ("page_width", [1, 3, 1]), ("page_width", [1])):
        with pytest.raises(DataLoss):
            RangePages(columns_of(columns | {name: np.array(value, np.uint32)}))
    for name, value in (("range_count", [200]), ("page_width", [1, 2, 1])):
        with pytest.raises(DataLoss):
            RangePages(columns_of(columns | {name: np.array(value, np.uint32)})).line(zeros)


@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * len(RowTable._fields)), max_size=40))
def test_rows_come_back_as_they_were_packed(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array([row[at] for row in rows], np.uint64) for at in range(len(RowTable._fields))]
    back = unpack_table(np.frombuffer(pack_table(columns), np.uint8), len(rows), len(columns))
    assert [column.tolist() for column in back] == [column.tolist() for column in columns]


@given(st.lists(st.tuples(st.integers(-5, 2**40), st.integers(0, 3)), min_size=1, max_size=40))
def test_entries_are_numbered_by_what_they_say(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array([pair[at] for pair in pairs], np.int64) for at in range(2))
    distinct, number = numbered(combined(first, second))
    order = sorted(set(pairs))
    assert len(distinct) == len(order)
    assert [order[n] for n in number.tolist()] == pairs
    begins = [at for at, pair in enumerate(pairs) if at == 0 or pair != pairs[at - 1]]
    assert runs(first, second).tolist() == begins


@given(st.lists(st.tuples(st.integers(-3, 2**61), st.integers(0, 3)), max_size=40))
def test_groups_hold_the_entries_that_are_equal_in_their_order(pairs: list[tuple[int, int]]) -> None:
    groups = grouped(*(np.array([pair[at] for pair in pairs], np.int64) for at in range(2)))
    expected = {pair: [at for at, other in enumerate(pairs) if other == pair] for pair in sorted(set(pairs))}
    stops = [*groups.first.tolist()[1:], len(pairs)]
    found = [groups.order[a:b].tolist() for a, b in zip(groups.first.tolist(), stops, strict=False)]
    assert found == list(expected.values())
    assert [pairs[at] for at in groups.sample.tolist()] == list(expected)
    assert groups.number.tolist() == [list(expected).index(pair) for pair in pairs]


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


@pytest.mark.parametrize("what", ["a column that is not in the file", "one range less than starts"])
def test_an_index_in_the_store_that_is_whole_and_cannot_be_is_made_again(tmp_path: Path, what: str) -> None:
    with Engine(Store(tmp_path)) as engine:
        digest = engine.add(RAYCAST.read_bytes()).sha256
    (path,) = tmp_path.glob(f"index/*/*/{digest}.idx")
    whole = path.read_bytes()
    path.write_bytes(_outside(whole) if "column" in what else _a_range_less(whole))
    with Engine(Store(tmp_path)) as engine:
        assert engine.symbolize(digest, [ByKernel("raycast", KernelOffset(16))])[0].frames
    assert path.read_bytes() == whole


def _outside(whole: bytes) -> bytes:
    """The column row_data, which few questions need, moved past the end."""
    damaged = bytearray(whole)
    at = whole.index(b"row_data\0") + 40
    damaged[at : at + 8] = struct.pack("<Q", len(whole))
    return with_fitting_checksums(damaged)


def _a_range_less(whole: bytes) -> bytes:
    columns = dict(decode(whole))
    return encode(columns | {"range_count": narrow(columns["range_count"] - columns["range_count"].dtype.type(1))})


def test_strings_that_hold_a_text_and_those_that_are_it() -> None:
    texts = ["", "ab", "aba", "b", "a", "aab", "aaaa", "", "é", "aa"]
    strings = Strings(*encode_strings(texts))
    for text in ["", "a", "b", "ab", "ba", "aa", "aaa", "bb", "é", "aé", "abab", "x"]:
        assert strings.holding(text).tolist() == [at for at, each in enumerate(texts) if text in each], text
        same = [at for at, each in enumerate(texts) if text == each]
        assert strings.equal_to([text]) == ({text: same} if same else {}), text
    assert strings.equal_to(["a", "x", "", "é", "aa"]) == {"": [0, 7], "a": [4], "é": [8], "aa": [9]}
    assert strings.text_bytes == sum(len(each.encode()) for each in texts)


def test_a_long_text_that_repeats_itself_is_found_without_reading_it_at_every_letter() -> None:
    """Forty thousand million steps, were it: most of a minute, against a hundredth of a second."""
    begun = time.process_time()
    strings = Strings(*encode_strings([f"{'a' * 9_980}{at:05d}" for at in range(400)]))
    assert strings.holding("a" * 9_000 + "b").tolist() == []
    assert strings.equal_to(["a" * 9_984 + "b"]) == {}
    assert strings.holding("a" * 9_980).tolist() == list(range(400))
    assert time.process_time() - begun < 10
