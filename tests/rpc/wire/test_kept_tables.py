"""A table of locations that answers point into again travels once, and only to a client that keeps it."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from symd.errors import Malformed
from symd.model.answers import Answers, Locations, TextSection
from symd.model.arguments import ColumnQuestion
from symd.rpc.wire.answers import from_columns, write_columns
from symd.rpc.wire.columns import concatenated
from symd.rpc.wire.location_tables import ENTRIES_PER_ADDRESS, MIN_NAMED_ENTRIES, NamedTables, TableCache
from symd.v1 import answer_pb2, location_pb2

PLACES = (TextSection("", ".text", 1, 0x1000),)
COLUMNS = ("reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent")


def table(count=MIN_NAMED_ENTRIES, start=0):
    """Entry n is line ``start`` + n of function n % 3; every third is inlined into the one before."""
    number = np.arange(count, dtype=np.uint32)
    zero = np.zeros(count, np.uint32)
    parent = np.where((number % 3 == 2) & (number > 2), number - 1, 0).astype(np.uint32)
    inlined = (parent != 0).astype(np.uint8)
    reason = np.ones(count, np.uint8)
    strings = ("", "f", "g", "h", "/src/a.cl")
    return Locations(
        reason, zero, number % 3 + 1, zero, zero + 4, number + start, number % 80, inlined, parent, strings
    )


def answers(locations, count=MIN_NAMED_ENTRIES, seed=1):
    numbers = np.random.default_rng(seed).integers(1, len(locations), count)
    offset = np.arange(count, dtype=np.uint64)
    return Answers(numbers.astype(np.uint32), np.ones(count, np.uint32), offset, locations, PLACES)


class Daemon:
    """Both ends without a socket: what a call that says ``known`` gets, as bytes and back."""

    def __init__(self):
        self.tables = NamedTables()

    def message(self, given, known=(), sent=None):
        message = self.tables.message(given.locations, len(given), known, set() if sent is None else sent)
        written = answer_pb2.PackedAnswers()
        write_columns(written, given, ColumnQuestion(given.offset, ()), message)
        return answer_pb2.PackedAnswers.FromString(written.SerializeToString())


def test_a_table_that_is_met_again_comes_whole_and_then_by_name():
    daemon, kept, given = Daemon(), TableCache(), answers(table())
    first, second = daemon.message(given), daemon.message(given)
    assert (first.locations.id, first.locations.count < MIN_NAMED_ENTRIES) == (b"", True)
    assert (len(second.locations.id), second.locations.count) == (16, MIN_NAMED_ENTRIES)
    third = daemon.message(given, known=[second.locations.id])
    assert third.locations == location_pb2.LocationTable(id=second.locations.id)
    call = kept.of("module")
    parts = [
        from_columns(each, ColumnQuestion(given.offset, ()), call.take(each.locations))
        for each in (first, second, third)
    ]
    assert parts[2].locations is parts[1].locations
    for part in parts:
        assert list(part) == list(given)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(parts[1].locations, name), getattr(given.locations, name))
    assert list(concatenated(parts)) == list(given) * 3


def test_a_table_that_is_shared_comes_whole_with_the_first_large_batch_and_then_by_name():
    daemon, shared = Daemon(), replace(table(MIN_NAMED_ENTRIES * ENTRIES_PER_ADDRESS), shared=True)
    assert daemon.message(answers(shared, MIN_NAMED_ENTRIES - 1)).locations.id == b""
    first = daemon.message(answers(shared)).locations
    assert (len(first.id), first.count) == (16, MIN_NAMED_ENTRIES * ENTRIES_PER_ADDRESS)
    few = daemon.message(answers(shared, 9), known=[first.id]).locations
    assert few == location_pb2.LocationTable(id=first.id)


def test_a_later_call_starts_with_the_tables_that_came():
    daemon, kept, given = Daemon(), TableCache(), answers(table())
    daemon.message(given)
    mine = kept.of("module").take(daemon.message(given).locations)
    later = kept.of("module")
    assert later.take(daemon.message(given, known=list(later.known)).locations) is mine
    assert kept.of("another").known == {}


def test_in_a_stream_a_named_table_comes_once():
    daemon, given, sent = Daemon(), answers(table()), set()
    counts = [daemon.message(given, sent=sent).locations.count for _ in range(4)]
    assert counts[1:] == [MIN_NAMED_ENTRIES, 0, 0]
    assert daemon.message(given, sent=set()).locations.count == MIN_NAMED_ENTRIES


def test_a_small_batch_does_not_bring_a_large_table():
    daemon, large = Daemon(), table(MIN_NAMED_ENTRIES * ENTRIES_PER_ADDRESS)
    daemon.message(answers(large))
    name = daemon.message(answers(large)).locations.id
    few = answers(large, MIN_NAMED_ENTRIES - 1)
    message = daemon.message(few)
    assert (message.locations.id, message.locations.count < 2 * MIN_NAMED_ENTRIES) == (b"", True)
    assert daemon.message(few, known=[name]).locations == location_pb2.LocationTable(id=name)


def test_equal_tables_that_are_not_the_same_have_no_name():
    daemon = Daemon()
    for _ in range(3):
        assert daemon.message(answers(table())).locations.id == b""
        gc.collect()


def test_a_small_table_has_no_name():
    daemon, given = Daemon(), answers(table(MIN_NAMED_ENTRIES - 1))
    assert {daemon.message(given).locations.id for _ in range(3)} == {b""}


def test_a_table_that_is_gone_is_forgotten():
    daemon, given = Daemon(), answers(table())
    daemon.message(given)
    daemon.message(given)
    assert len(daemon.tables._met) == 1
    del given
    gc.collect()
    assert not daemon.tables._met


def test_the_client_keeps_no_more_than_its_budget():
    kept = TableCache(budget=2 * 30 * MIN_NAMED_ENTRIES + 1000)
    for number in range(3):
        kept.keep(f"module {number}", bytes([number]), table())
    assert [list(kept.of(f"module {number}").known) for number in range(3)] == [[], [b"\1"], [b"\2"]]
    kept.keep("large", b"L", table(10 * MIN_NAMED_ENTRIES))
    assert kept.of("large").known == {}


def test_a_name_that_never_came_with_a_table_is_malformed():
    with pytest.raises(Malformed, match="never came"):
        TableCache().of("module").take(location_pb2.LocationTable(id=b"nobody"))


def test_a_name_follows_from_the_content_so_that_any_daemon_answers_a_client_that_has_the_table():
    one, other = Daemon(), Daemon()
    shared = [replace(table(MIN_NAMED_ENTRIES * ENTRIES_PER_ADDRESS), shared=True) for _ in range(2)]
    first = one.message(answers(shared[0])).locations
    assert first.count == MIN_NAMED_ENTRIES * ENTRIES_PER_ADDRESS
    assert other.message(answers(shared[1]), known=[first.id]).locations == location_pb2.LocationTable(id=first.id)
    few = answers(replace(table(MIN_NAMED_ENTRIES * ENTRIES_PER_ADDRESS), shared=True), 9)
    assert Daemon().message(few, known=[first.id]).locations == location_pb2.LocationTable(id=first.id)


@pytest.mark.parametrize("name", [*COLUMNS, "strings"])
def test_tables_that_differ_in_anything_have_different_names(name):
    plain = replace(table(), shared=True)
    column = getattr(plain, name)
    changed = (*column[:-1], "/src/b.cl") if name == "strings" else np.concatenate([column[:-1], column[-1:] ^ 1])
    names = {Daemon().message(answers(each)).locations.id for each in (plain, replace(plain, **{name: changed}))}
    assert len(names) == 2
