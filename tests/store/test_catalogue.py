"""Connections to a catalogue: how long a write waits, and what is given back when it is closed."""

import fcntl
import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from symd.errors import StoreUnavailable
from symd.store import Store, catalogue, recovery
from symd.store.catalogue import Catalogue


def test_a_write_waits_no_longer_for_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "store") as store, store._catalogue.writing():
        monkeypatch.setattr(catalogue, "BUSY_SECONDS", 0.2)
        with pytest.raises(StoreUnavailable, match="another write holds the lock"), store._catalogue.writing():
            pass


def busy_timeouts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this thread tells SQLite about how long it may wait, from now on, in milliseconds. A store that another test left has a thread."""
    told: list[str] = []
    connect, here = Catalogue.connect, threading.get_ident()

    def traced(of: Catalogue) -> sqlite3.Connection:
        connection = connect(of)
        if threading.get_ident() == here:
            connection.set_trace_callback(told.append)
        return connection

    monkeypatch.setattr(Catalogue, "connect", traced)
    return told


def waits(told: list[str]) -> list[int]:
    """Of each transaction that was begun."""
    begun = [told[at - 1] for at, statement in enumerate(told) if statement.startswith("BEGIN")]
    return [int(statement.removeprefix("PRAGMA busy_timeout=")) for statement in begun]


class SlowLock:
    """The lock of a process's writers, behind others that take twelve seconds of the clock."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def acquire(self, timeout: float) -> bool:
        self.now += 12
        return timeout > 12

    def release(self) -> None:
        pass


@pytest.mark.parametrize(("seconds", "expected"), [(None, 18_000), (20.0, 8_000)])
def test_what_a_write_waited_for_its_own_process_it_does_not_wait_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None, expected: int
) -> None:
    told, lock = busy_timeouts(monkeypatch), SlowLock()
    pool = Catalogue(tmp_path / "catalogue.sqlite")
    monkeypatch.setattr(pool, "_write_lock", lock)
    monkeypatch.setattr(catalogue, "time", SimpleNamespace(monotonic=lambda: lock.now))
    told.clear()
    with pool.writing(seconds=seconds):
        pass
    assert waits(told) == pytest.approx([expected], abs=1)
    pool.close()


def test_a_connection_that_is_given_back_after_the_end_is_closed(tmp_path: Path) -> None:
    pool = Catalogue(tmp_path / "catalogue.sqlite")
    with pool.reading() as connection:
        pool.close()
        pool.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


@pytest.mark.parametrize("is_replaced", [True, False])
def test_nothing_is_written_to_a_catalogue_that_is_not_at_its_path(root: Path, is_replaced: bool) -> None:
    """It would be lost at the next start, though it was acknowledged."""
    with Store(root) as store:
        old = store.put(b"old")
        path = root / "catalogue.sqlite"
        path.rename(root / "kept")
        if is_replaced:
            shutil.copyfile(root / "kept", path)
        for write in (lambda: store.put(b"new"), lambda: store.relabel(old, "label"), lambda: store.remove(old)):
            with pytest.raises(StoreUnavailable, match=r"moved, removed or replaced .*\(put it back, or restart"):
                write()
        assert store.data(old) == b"old"
        (root / "kept").replace(path)
        new = store.put(b"new")
        assert {record.sha256 for record in store.records()} == {old, new}


class WrittenMeanwhile:
    """Writes bytes of a copy, and changes the store that is copied after each of the first ``writes`` files."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store, self._left = store, writes
        self.added: list[str] = []
        self.was_locked: list[bool] = []

    def __call__(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        with (self._store.root / "catalogue.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                self.was_locked.append(False)
            except BlockingIOError:
                self.was_locked.append(True)
        if self._left:
            self._left -= 1
            self.added.append(self._store.put(b"%d" % self._left))
            self._store.collect(1)  # the log of writes goes into the file


def test_files_that_are_written_while_they_are_copied_are_copied_again_without_writers(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(root) as store:
        old = store.put(b"old")
        written = WrittenMeanwhile(store, 1)
        monkeypatch.setattr(recovery, "write_bytes", written)
        recovery.copy_files(root / "catalogue.sqlite", tmp_path / "copy.sqlite")
    assert written.was_locked == [False, False, True, True]
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert {digest for (digest,) in copy.execute("SELECT sha256 FROM modules")} == {old, *written.added}


def test_files_that_are_written_all_the_time_are_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(root) as store:
        store.put(b"old")
        (root / "catalogue.lock").unlink()  # nothing keeps writers away
        monkeypatch.setattr(recovery, "write_bytes", lambda path, data: os.utime(root / "catalogue.sqlite"))
        with pytest.raises(StoreUnavailable, match="written all the time"):
            recovery.copy_files(root / "catalogue.sqlite", tmp_path / "copy.sqlite")
