"""What a store keeps at most: each budget refuses by its name, and refuses nothing below it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded
from symd.model.addresses import ByKernel
from symd.model.contexts import Alias, Context, Load, Segment, Unload
from symd.store import ModuleStore, Store, budgets
from symd.store.budgets import Totals, totals
from tests.store.conftest import Opened


@contextmanager
def refused(limit: str) -> Iterator[None]:
    with pytest.raises(LimitExceeded) as caught:
        yield
    assert caught.value.metadata["limit"] == limit
    assert (f"raise the limit {limit}" in caught.value.hint) == (limit in Limits._fields)


def catalogued(store: ModuleStore) -> Totals:
    with store._catalogue.reading() as connection:
        return totals(connection)


def load(time: int) -> Load:
    return Load("ab" * 32, time, (Segment(0x1000, 16, ByKernel("k", 0)),), key="k")


def test_a_label_has_a_length(root: Path):
    label = "x" * 1024
    with Store(root) as store:
        digest = store.put(b"abc", label)
        with refused("label_length"):
            store.put(b"other", label + "x")
        with refused("label_length"):
            store.relabel(digest, label + "x")
        assert [record.label for record in store.records()] == [label]
        assert not list((root / "incoming").iterdir())


def test_twenty_thousand_aliases_of_eight_kilobytes_are_refused_by_name(store: ModuleStore):
    digest = store.put(b"abc")
    with refused("alias_key_length"):
        store.aliases.add([Alias("build-id", f"{number:08192}", digest) for number in range(20)])
    with refused("alias_kind_length"):
        store.aliases.add([Alias("x" * 8192, "1", digest)])
    with refused("module_aliases"):
        store.aliases.add([Alias("build-id", f"{number:064}", digest) for number in range(20_000)])
    assert store.aliases.of(digest) == []
    assert catalogued(store) == Totals(3, 0, 0)


def test_aliases_are_counted_for_a_module_and_in_all(open_store: Opened, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budgets, "MODULE_ALIASES", 3)
    store = open_store(Limits(aliases=4))
    one, other = store.put(b"one"), store.put(b"other")
    store.aliases.add([Alias("k", f"{number}", one) for number in range(3)])
    with refused("module_aliases"):
        store.aliases.add([Alias("k", "3", one)])
    store.aliases.add([Alias("k", "2", one), Alias("l", "1", other)])
    with refused("aliases"):
        store.aliases.add([Alias("l", "2", other)])
    store.aliases.add([Alias("k", "2", other)])
    store.aliases.remove("k", "0")
    store.aliases.add([Alias("l", "2", other)])
    store.remove(one)
    assert catalogued(store).aliases == len(store.aliases.of(other)) == 3


def test_contexts_and_what_they_are_told_are_counted(open_store: Opened, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budgets, "LOADS", 3)
    store = open_store(Limits(contexts=2))
    name, other = store.context_log.add(Context(process=1)), store.context_log.add(Context(process=2))
    with refused("contexts"):
        store.context_log.add(Context(process=3))
    assert store.context_log.add(Context(process=2)) == other
    store.context_log.record(name, [load(1), Unload("k", 2), load(3)])
    with refused("loads"):
        store.context_log.record(name, [Unload("k", 4)])
    store.context_log.record(name, [load(1), Unload("k", 2)])
    store.context_log.remove(name)
    assert store.context_log.add(Context(process=3)) != name


def test_totals_follow_every_change(open_store: Opened):
    store = open_store()
    digest, gone = store.put(b"abc"), store.put(b"gone away")
    store.put_index(digest, 1, b"index")
    store.put_index(digest, 1, b"other index")
    store.put_index(digest, 2, b"newer index")
    store.put_index(gone, 1, b"gone")
    name = store.context_log.add(Context())
    store.aliases.add([Alias("k", "1", digest, context=name), Alias("k", "1", gone)])
    assert catalogued(store) == Totals(3 + 11 + 11 + 9 + 4, 2, 1)
    store.remove(gone)
    assert catalogued(store) == Totals(25, 1, 1)
    store.context_log.remove(name)
    assert catalogued(store) == Totals(25, 0, 0)


def test_indexes_that_an_older_symd_wrote_are_counted_at_the_next_start(root: Path):
    with Store(root) as store:
        digest = store.put(b"abc")
        store.put_index(digest, 1, b"index")
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection:
        connection.execute("DELETE FROM indexes")
        connection.commit()
        assert totals(connection).bytes == 3
    with Store(root) as store:
        assert catalogued(store).bytes == 8
