"""Whoever asks for a change waits for others' changes no longer than is said."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from symd.errors import StoreUnavailable
from symd.model.contexts import Alias, Context, Unload
from symd.model.identities import Digest
from symd.store import ModuleStore, Store, catalogue
from symd.store.rows import catalogue_lock_timeout, lock_timeout_left
from tests.store.conftest import Opened

LONG = 30.0
"""Seconds after which a change that does not end is given up."""

CHANGES: dict[str, Callable[[ModuleStore, Digest, str], object]] = {
    "a context": lambda store, _digest, _name: store.context_log.add(Context(process=2)),
    "events": lambda store, _digest, name: store.context_log.record(name, [Unload("a", 1)]),
    "a context's end": lambda store, _digest, name: store.context_log.remove(name),
    "an alias": lambda store, digest, _name: store.aliases.add([Alias("kind", "other", digest)]),
    "an alias's end": lambda store, _digest, _name: store.aliases.remove("kind", "key"),
    "a label": lambda store, digest, _name: store.relabel(digest, "another"),
    "a removal": lambda store, digest, _name: store.remove(digest),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_waits_for_others_as_long_as_is_said(
    open_store: Opened, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "BUSY_SECONDS", 3600.0)
    monkeypatch.setattr("symd.store.shared.postgresql.CATALOGUE_SECONDS", 600.0)
    store, other = open_store(), open_store()
    digest, name = Digest(store.put(b"a module")), store.context_log.add(Context())
    store.aliases.add([Alias("kind", "key", digest)])

    def change(seconds: float | None) -> object:
        with catalogue_lock_timeout(seconds):
            return CHANGES[what](store, digest, name)

    with ThreadPoolExecutor(1) as threads:
        with other._catalogue.writing():  # type: ignore[attr-defined]
            ended = threads.submit(change, 0.05)
            error = ended.exception(LONG)
        assert isinstance(error, StoreUnavailable)
        threads.submit(change, None).result(LONG)


def test_what_is_said_holds_for_one_thread_and_no_longer() -> None:
    assert lock_timeout_left() is None
    with ThreadPoolExecutor(1) as threads, catalogue_lock_timeout(60.0):
        left = lock_timeout_left()
        assert left is not None
        assert 0 < left <= 60.0
        assert threads.submit(lock_timeout_left).result(LONG) is None
    assert lock_timeout_left() is None
    with catalogue_lock_timeout(0.0):
        assert lock_timeout_left() == 0.0
    with catalogue_lock_timeout(None):
        assert lock_timeout_left() is None


def test_who_got_the_lock_in_time_waits_for_the_rest_as_ever(open_store: Opened) -> None:
    """In PostgreSQL the bound is a setting of the transaction."""
    store = open_store()
    asked, said = ("PRAGMA busy_timeout", 30_000) if isinstance(store, Store) else ("SHOW lock_timeout", "20s")
    with store._catalogue.writing(seconds=0.5) as connection:  # type: ignore[attr-defined]
        assert connection.execute(asked).fetchone() == (said,)
