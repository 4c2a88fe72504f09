"""What is told of a context is kept: each load ends where a naive reading of all events says, whatever came first."""

from __future__ import annotations

import hashlib
import itertools
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.errors import BadQuery, ContextNotFound, LimitExceeded, ModuleNotFound
from symd.model.addresses import ByAddress, ByKernel, BySection
from symd.model.contexts import Alias, Context, Load, Segment, Unload
from symd.store import ModuleStore, Store, budgets, context_log
from symd.store import catalogue as schema
from symd.store.context_log import ContextChanges
from tests.store.shared.fixtures import shared_store

MODULE = "ab" * 32
PLACES = (ByAddress(1 << 63), ByKernel("k", 8), BySection(".text", 0), BySection(3, (1 << 64) - 1))


def load(time, key="", address=0x1000, until=None, module=MODULE):
    segments = tuple(Segment(address + 256 * at, 16, place, "o" if at else None) for at, place in enumerate(PLACES))
    return Load(module, time, segments, key=key, unload_time=until)


def ends(events):
    """For each distinct load when it ends, as the words say: the first unload or load of its key after it."""
    loads = {(each.key, each.time, each.module) for each in events if isinstance(each, Load)}
    moments = {(key, at) for key, at, _ in loads}
    moments |= {(each.key, each.time) for each in events if isinstance(each, Unload)}
    moments |= {
        (each.key, each.unload_time) for each in events if isinstance(each, Load) and each.unload_time is not None
    }
    return {
        (key, at, module): min((when for other, when in moments if other == key and when > at), default=None)
        for key, at, module in loads
    }


def kept(store, name):
    found = [each for _, each in store.context_log.loads(name, limit=1000)]
    return {(each.key, each.time, each.module): each.unload_time for each in found}, len(found)


keys, moments = st.sampled_from(["a", "b"]), st.integers(0, 9)
event = st.one_of(
    st.builds(
        lambda time, key, life, module: load(time, key, until=time + life if life else None, module=module * 32),
        moments, keys, st.integers(0, 3), st.sampled_from(["ab", "cd"]),
    ),
    st.builds(Unload, keys, moments),
)  # fmt: skip


@pytest.fixture(scope="module", params=["folder", "shared"])
def quick(request, tmp_path_factory):
    """One store for all examples."""
    folder = tmp_path_factory.mktemp("quick")
    if request.param == "folder":
        with Store(folder, durable=False) as store:
            yield store
    else:
        with shared_store(request.getfixturevalue("postgresql").database(), folder) as store:
            yield store


numbers = itertools.count()


@settings(max_examples=400, deadline=None)
@given(batches=st.lists(st.lists(event, max_size=5), max_size=5))
def test_ends_do_not_depend_on_the_order_of_events(quick, batches):
    """A follower that asks after each batch ends up with the same as one that asks once."""
    name = quick.context_log.add(Context(process=next(numbers)))
    last, followed = ContextChanges(), {}
    for batch in batches:
        quick.context_log.record(name, batch)
        last = quick.context_log.changes(name, last)
        followed |= {row.sequence: (row.key, row.loaded, row.module, row.unloaded) for row in last.rows}
        for sequence, until in last.ended:
            followed[sequence] = (*followed[sequence][:3], until)
    events = [each for batch in batches for each in batch]
    assert kept(quick, name) == (ends(events), len(ends(events)))
    assert {row[:3]: row[3] for row in followed.values()} == ends(events)


def test_a_load_comes_back_as_it_was_told(store: ModuleStore):
    name = store.context_log.add(Context("host", 7, "gpu 0", "boottime", 48, {"start": "12"}))
    store.context_log.record(name, [load(5, "k", address=(1 << 64) - 4096)])
    assert [each for _, each in store.context_log.loads(name)] == [load(5, "k", address=(1 << 64) - 4096)]


def test_a_context_is_known_by_what_it_says(store: ModuleStore):
    one = Context("host", 7, "gpu 0", "boottime", 48, {"b": "1", "a": "2"})
    name = store.context_log.add(one)
    assert store.context_log.add(Context("host", 7, "gpu 0", "boottime", 48, {"a": "2", "b": "1"})) == name
    others = {store.context_log.add(Context("host", 7, "gpu 0", clock)) for clock in ("boottime", "x")}
    assert len({name, *others}) == 3
    assert store.context_log.context(name).context == one
    assert next(each.id for each in store.context_log.contexts()) == name
    assert {each.id for each in store.context_log.contexts(after=name)} == others


def test_events_told_twice_are_told_once(store: ModuleStore):
    name = store.context_log.add(Context())
    keys = store.context_log.record(name, [load(1), load(1), load(2), Unload("x", 5), load(1, until=9)])
    assert keys[0] == keys[1] == keys[4] != keys[2]
    assert len(store.context_log.changes(name).rows) == 2 * len(PLACES)
    assert kept(store, name)[0][keys[0], 1, MODULE] == 9


def test_a_context_that_is_forgotten_takes_everything_with_it(store: ModuleStore):
    name = store.context_log.add(Context())
    module = store.put(b"a module")
    store.context_log.record(name, [load(1, "k"), Unload("k", 2)])
    store.aliases.add([Alias("handle", "1", module, context=name), Alias("handle", "1", module)])
    before = store.context_log.changes(name)
    store.context_log.remove(name)
    for ask in (
        store.context_log.context,
        store.context_log.changes,
        store.context_log.loads,
        store.context_log.remove,
    ):
        with pytest.raises(ContextNotFound):
            ask(name)
    assert [each.context for each in store.aliases.of(module)] == [""]
    assert store.context_log.add(Context()) == name
    again = store.context_log.changes(name, before)
    assert (again.rows, again.number != before.number) == ([], True)
    with store._catalogue.reading() as connection:
        left = connection.execute("SELECT sequence FROM loads UNION ALL SELECT load FROM segments").fetchall()
        left += connection.execute("SELECT key FROM unloads").fetchall()
    assert not left


def test_more_segments_than_are_kept_are_refused_and_nothing_is_kept(open_store, monkeypatch):
    monkeypatch.setattr(budgets, "MAPPINGS", 10)
    store = open_store()
    name = store.context_log.add(Context())
    store.context_log.record(name, [load(1), load(2)])
    with pytest.raises(LimitExceeded, match="at most 10 are kept"):
        store.context_log.record(name, [Unload("k", 5), load(3)])
    store.context_log.record(name, [load(1)])
    assert len(store.context_log.loads(name)) == 2


def test_what_is_no_id_is_said_so(store: ModuleStore):
    for wrong in ("", "x" * 32, "0" * 33, "0" * 31 + "\n"):
        with pytest.raises(BadQuery):
            store.context_log.context(wrong)


def test_pages_of_changes_are_whole_loads(store: ModuleStore, monkeypatch):
    monkeypatch.setattr("symd.store.context_log.PAGE", 3)
    name = store.context_log.add(Context())
    store.context_log.record(name, [load(at, "k") for at in range(10)])
    last, seen = ContextChanges(), []
    while not seen or not last.whole:
        last = store.context_log.changes(name, last)
        seen.append(len(last.rows) // len(PLACES))
    assert seen == [3, 3, 3, 1]
    assert not store.context_log.changes(name, last).rows


def test_pages_end_where_their_loads_have_many_segments(store: ModuleStore, monkeypatch):
    """A context with 4,000,000 segments, in fifty loads, was read as one page: gigabytes of the daemon for one address. A load that has more than
    a page is a page of its own."""
    name = store.context_log.add(Context())
    store.context_log.record(name, [load(at, str(at)) for at in range(5)])
    everything = store.context_log.loads(name)
    for rows, expected in ((len(PLACES) - 1, [1] * 5), (2 * len(PLACES), [2, 2, 1]), (3 * len(PLACES) - 1, [2, 2, 1])):
        monkeypatch.setattr("symd.store.context_log.ROWS", rows)
        last, seen, told, after = ContextChanges(), [], [], 0
        while not seen or not last.whole:
            last = store.context_log.changes(name, last)
            seen.append(len(last.rows) // len(PLACES))
        pages = []
        while page := store.context_log.loads(name, after):
            pages.append(len(page))
            told += page
            after = page[-1][0]
        assert seen == pages == expected
        assert told == everything


def steps_of_a_page(store: Store, loads: int) -> int:
    """Of SQLite's machine, for a page of one load of so many."""
    name = store.context_log.add(Context(process=loads))
    store.context_log.record(name, [load(at, str(at)) for at in range(loads)])
    steps = itertools.count()
    with closing(sqlite3.connect(store.root / "catalogue.sqlite")) as connection:
        number = connection.execute("SELECT number FROM contexts WHERE id = ?", (name,)).fetchone()[0]
        connection.set_progress_handler(lambda: next(steps) < 0, 1)
        context_log._end_of_page(connection, number, 0, 1)
    return next(steps)


def test_what_follows_a_page_is_not_looked_at(root, store: Store):
    assert steps_of_a_page(store, 1000) < 2 * steps_of_a_page(store, 10)


def test_names_of_modules_resolve_in_both_directions(store: ModuleStore):
    one, other = store.put(b"one"), store.put(b"other")
    name = store.context_log.add(Context())
    everywhere = Alias("amd-uri", "file:///a#offset=1&size=2", one, "gfx90a")
    here = Alias("amd-uri", "file:///a#offset=1&size=2", other, None, name)
    store.aliases.add([everywhere, here])
    assert store.aliases.resolve("amd-uri", here.key) == everywhere
    assert store.aliases.resolve("amd-uri", here.key, name) == here
    assert store.aliases.resolve("amd-uri", everywhere.key, "f" * 32) == everywhere
    assert store.aliases.resolve("cupti-crc", here.key) is None
    assert (list(store.aliases.of(one)), list(store.aliases.of(other))) == ([everywhere], [here])
    with pytest.raises(ModuleNotFound):
        store.aliases.add([Alias("build-id", "1", one), Alias("build-id", "2", "0" * 64)])
    assert store.aliases.resolve("build-id", "1") is None, "all or none"
    store.remove(other)
    assert store.aliases.resolve("amd-uri", here.key, name) == everywhere


def test_aliases_of_a_store_of_the_first_schema_are_kept(root):
    root.mkdir()
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.executescript(schema.MIGRATIONS[0] + "PRAGMA user_version = 1;")
    digest = hashlib.sha256(b"old").hexdigest()
    (root / "modules" / digest[:2]).mkdir(parents=True)
    (root / "modules" / digest[:2] / digest).write_bytes(b"old")
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.execute("INSERT INTO modules VALUES (?, 3, '', 'old', 1.0)", (digest,))
        connection.execute("INSERT INTO aliases VALUES ('build-id', '01', ?)", (digest,))
        connection.commit()
    with Store(root) as store:
        assert store.aliases.resolve("build-id", "01") == Alias("build-id", "01", digest)
        assert list(store.aliases.of(digest)) == [Alias("build-id", "01", digest)]
        assert store.record(digest).label == "old"


TELL = """
import sys
from pathlib import Path
from symd.model.addresses import ByAddress
from symd.model.contexts import Context, Load, Segment, Unload
from symd.store import Store
store = Store(Path(sys.argv[1]))
name = store.context_log.add(Context(process=1))
print(name, flush=True)
for number in range(int(sys.argv[2]), 10**6):
    key = f"handle {number % 7}"
    load = Load("ab" * 32, 10 * number + 10, (Segment(4096 * number, 4096, ByAddress(0)),), key=key)
    store.context_log.record(name, [load, Unload(key, 10 * number + 15)])
    print(number, flush=True)
"""


def test_what_was_acknowledged_survives_kills_and_events_are_whole(tmp_path):
    """Each event pair is told in one transaction: after a kill its load is there with its end, or neither is."""
    told, name = 0, ""
    for _ in range(8):
        command = [sys.executable, "-c", TELL, str(tmp_path), str(told)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout
            name, first = (child.stdout.readline().strip() for _ in range(2))
            time.sleep(0.02)
            child.kill()
            acknowledged = [first, *filter(None, child.stdout.read().split("\n"))]
        with Store(tmp_path) as store:
            loads = [each for _, each in store.context_log.loads(name, limit=10**6)]
        assert [each.time for each in loads] == [10 * at + 10 for at in range(len(loads))]
        assert all(each.unload_time == each.time + 5 for each in loads)
        assert len(loads) >= told + len(acknowledged)
        told = len(loads)
    assert told > 0
