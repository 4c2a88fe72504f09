"""The log of modules: everything once, in one order, for all who share the store, from any position that is remembered."""

from __future__ import annotations

import gc
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import BadQuery, PositionLost
from symd.model.addresses import ByKernel
from symd.model.contexts import Context, Load, Segment, Unload
from symd.store import ModuleStore, Store
from symd.store import catalogue as schema
from symd.store.maintenance import copy
from symd.store.module_log import Position
from tests.store.conftest import Opened

MODULE, OTHER = "ab" * 32, "cd" * 32
LONG = 30.0
"""Seconds after which a word that does not come is given up."""


def told(store: ModuleStore, position: Position) -> list[tuple[str, str, int | None, int | None]]:
    return [entry[1:] for entry in store.module_log.after(position, 1000)]


def placed(time: int, key: str, module: str = MODULE, until: int | None = None) -> Load:
    return Load(module, time, (Segment(0x1000, 16, ByKernel("k", 0)),), key=key, unload_time=until)


def test_what_happens_is_told_in_its_order(store: ModuleStore) -> None:
    begin = store.module_log.end()
    digest = store.put(b"abc")
    store.admit(digest, "format")
    name = store.context_log.add(Context(process=1))
    store.context_log.record(name, [placed(10, "a"), Unload("a", 20)])
    ((number, _),) = store.context_log.loads(name)
    store.remove(digest)
    assert told(store, begin) == [
        ("added", digest, None, None),
        ("loaded", MODULE, number, None),
        ("unloaded", MODULE, number, 20),
        ("removed", digest, None, None),
    ]
    assert store.module_log.after(store.module_log.end(), 10) == []


def test_a_module_is_told_once_by_whoever_admits_it_first(store: ModuleStore) -> None:
    """One daemon may be killed after it has put a module and before it tells; who adds it again finds it there."""
    digest = store.put(b"abc")
    begin = store.module_log.end()
    for each in ("format", "format", "another"):
        store.admit(digest, each)
    assert told(store, begin) == [("added", digest, None, None)]
    assert store.record(digest).format == "another"


def test_telling_an_event_twice_tells_it_once(store: ModuleStore) -> None:
    name = store.context_log.add(Context(process=1))
    events = [placed(10, "a", until=20), Unload("b", 5)]
    store.context_log.record(name, events)
    position = store.module_log.end()
    store.context_log.record(name, [*events, Unload("a", 20)])
    assert told(store, position) == []


def test_a_module_that_moves_goes_and_comes(store: ModuleStore) -> None:
    """A key that is loaded again ends what it named; an end that turns out to be earlier is told again."""
    name = store.context_log.add(Context(process=1))
    position = store.module_log.end()
    store.context_log.record(name, [placed(10, "a")])
    store.context_log.record(name, [placed(30, "a", OTHER)])
    store.context_log.record(name, [Unload("a", 20)])
    first, second = (number for number, _ in store.context_log.loads(name))
    assert told(store, position) == [
        ("loaded", MODULE, first, None),
        ("unloaded", MODULE, first, 30),
        ("loaded", OTHER, second, None),
        ("unloaded", MODULE, first, 20),
    ]


def test_a_load_that_is_told_after_its_end_is_told_with_it(store: ModuleStore) -> None:
    name = store.context_log.add(Context(process=1))
    store.context_log.record(name, [Unload("a", 20)])
    position = store.module_log.end()
    store.context_log.record(name, [placed(10, "a")])
    assert [(kind, time) for kind, _, _, time in told(store, position)] == [("loaded", None), ("unloaded", 20)]


def test_a_position_goes_on_in_another_process_over_the_same_store(open_store: Opened) -> None:
    first = open_store()
    digests = [first.put(text) for text in (b"one", b"two", b"three")]
    position = first.module_log.end()
    for digest in digests:
        first.admit(digest, "format")
    first.close()
    second = open_store()
    (one, *_), text = second.module_log.after(position, 1), str(position)
    assert one.digest == digests[0]
    assert [each.digest for each in second.module_log.after(Position.parsed(text), 10)] == digests
    assert [each.digest for each in second.module_log.after(position._replace(sequence=one.sequence), 10)] == digests[
        1:
    ]


def test_a_position_that_is_too_old_is_refused_by_name(open_store: Opened) -> None:
    store = open_store(Limits(module_events=5))
    begin = store.module_log.end()
    for number in range(5):
        store.admit(store.put(bytes([number])), "format")
    assert len(store.module_log.after(begin, 100)) == 5
    store.admit(store.put(b"sixth"), "format")
    with pytest.raises(PositionLost, match="more than 5 modules") as refused:
        store.module_log.after(begin, 100)
    assert refused.value.metadata == {"resume_token": str(begin), "limit": "module_events", "value": "5"}


@pytest.mark.parametrize("text", ["0" * 16 + "-0", "future"])
def test_a_position_of_another_store_is_refused_by_name(store: ModuleStore, text: str) -> None:
    position = store.module_log.end()
    other = position._replace(sequence=1) if text == "future" else Position.parsed(text)
    with pytest.raises(PositionLost, match="another store"):
        store.module_log.after(other, 1)


def test_a_position_means_nothing_in_a_copy(root: Path, tmp_path: Path) -> None:
    """There other things happen from then on."""
    with Store(root) as store:
        position = store.module_log.end()
    copy(root, tmp_path / "copy")
    with Store(tmp_path / "copy") as copied, pytest.raises(PositionLost, match="another store"):
        copied.module_log.after(position, 1)
    with Store(root) as store:
        assert store.module_log.end() == position


@pytest.mark.parametrize("text", ["", "7", "x" * 16 + "-1", "0" * 16 + "-" + "9" * 19, "0" * 16 + "-1\n"])
def test_what_is_no_resume_token_is_refused(text: str) -> None:
    with pytest.raises(BadQuery, match="not a resume token"):
        Position.parsed(text)


def test_a_bell_rings_for_this_process_and_for_others(open_store: Opened) -> None:
    mine, theirs = open_store(), open_store()
    subscription = mine.module_log.subscribe()
    position = mine.module_log.end()
    for store in (mine, theirs):
        name = store.context_log.add(Context(process=id(store)))
        act = threading.Timer(0.01, store.context_log.record, (name, [placed(1, "a")]))
        act.start()
        giving_up = threading.Timer(LONG, subscription.close)
        giving_up.start()
        while not (entries := mine.module_log.after(position, 10)):
            assert subscription.wait()
        giving_up.cancel()
        act.join()
        position = position._replace(sequence=entries[-1].sequence)


def test_closing_wakes_whoever_waits(store: ModuleStore) -> None:
    subscription = store.module_log.subscribe()

    def wait() -> None:
        while subscription.wait():
            pass  # a listener that comes up rings, as something may have happened before

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    store.module_log.close()
    waiting.join(LONG)
    assert not waiting.is_alive()


def test_a_bell_that_is_dropped_is_forgotten(store: ModuleStore) -> None:
    store.module_log.subscribe()
    gc.collect()
    assert not list(store.module_log._subscriptions)


def test_a_catalogue_of_the_schema_before_keeps_its_log(root: Path) -> None:
    """Its arrivals and removals are entries, and a daemon of that version beside this one writes such still."""
    root.mkdir(mode=0o700)
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        for number, step in enumerate(schema.MIGRATIONS[:5], 1):
            connection.executescript(f"{step} PRAGMA user_version = {number};")
        connection.execute("INSERT INTO changes (sha256, writer) VALUES (?, 'w')", (MODULE,))
        connection.execute("INSERT INTO changes (sha256) VALUES (?)", (OTHER,))
        connection.commit()
    with Store(root) as store:
        with store._catalogue.writing() as connection:
            connection.execute("INSERT INTO changes (sha256, writer) VALUES (?, 'w')", (OTHER,))
        begin = store.module_log.end()._replace(sequence=0)
        assert told(store, begin) == [
            ("added", MODULE, None, None), ("removed", OTHER, None, None), ("added", OTHER, None, None),
        ]  # fmt: skip


def test_loads_that_live_are_those_told_before_an_entry(store: ModuleStore) -> None:
    name = store.context_log.add(Context(process=1))
    store.context_log.record(name, [placed(1, "a"), placed(2, "b"), Unload("b", 3)])
    position = store.module_log.end()
    store.context_log.record(name, [placed(4, "c")])
    numbers = {load.key: number for number, load in store.context_log.loads(name)}
    assert store.context_log.active_loads(0, position.sequence) == [numbers["a"]]
    assert store.context_log.active_loads_of(MODULE, position.sequence) == [numbers["a"]]
    assert store.context_log.active_loads_of(OTHER, position.sequence) == []
    assert store.context_log.active_loads(numbers["a"], store.module_log.end().sequence) == [numbers["c"]]


def test_a_load_of_which_nobody_knows_the_place_is_kept_and_listed(store: ModuleStore) -> None:
    name = store.context_log.add(Context(process=1))
    load = Load(MODULE, 10, key="a")
    store.context_log.record(name, [load, placed(11, "b")])
    listed = list(store.context_log.loads(name))
    assert listed[0][1] == load
    assert [each.key for _, each in listed] == ["a", "b"]
    found = store.context_log.load(listed[0][0])
    assert found is not None
    assert (found.context.id, found.load) == (name, load)
    store.context_log.remove(name)
    assert store.context_log.load(listed[0][0]) is None
