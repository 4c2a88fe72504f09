"""Connections to a catalogue's file that nobody uses, where others leave the file at the same time."""

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from symd.errors import StoreUnavailable
from symd.store import Store, catalogue
from symd.store.catalogue import Catalogue, _Pool, newest
from symd.store.connection import copy_with_log
from symd.store.recovery import fault_of


class LeftMeanwhile(list[sqlite3.Connection]):
    """Another thread leaves the file just before a connection is given back."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool

    def append(self, connection: sqlite3.Connection) -> None:
        self._pool.close()
        super().append(connection)


def test_a_connection_that_is_given_back_while_the_file_is_left_is_closed() -> None:
    pool = _Pool(Path("catalogue.sqlite"))
    pool.idle = LeftMeanwhile(pool)
    connection = sqlite3.connect(":memory:")
    pool.give_back(connection)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_what_is_given_back_is_kept_until_the_file_is_left() -> None:
    pool, connection = _Pool(Path("catalogue.sqlite")), sqlite3.connect(":memory:")
    pool.give_back(connection)
    assert pool.idle == [connection]
    pool.close()
    pool.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_write_that_another_process_holds_up_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "store") as store:
        digest = store.put(b"anything", "x")
        path = newest(tmp_path / "store")
        command = [sys.executable, "-c", HOLD, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            monkeypatch.setattr(catalogue, "BUSY_SECONDS", 0.2)
            with pytest.raises(
                StoreUnavailable, match=f"process {other.pid} holds the lock of the catalogue"
            ) as caught:
                store.remove(digest)
            assert caught.value.metadata["pid"] == str(other.pid)
            other.communicate()
        store.remove(digest)


def test_a_write_waits_no_longer_for_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "store") as store, store._catalogue.writing():
        monkeypatch.setattr(catalogue, "BUSY_SECONDS", 0.2)
        with pytest.raises(StoreUnavailable, match="another write of this process"), store._catalogue.writing():
            pass


def busy_timeouts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this thread tells SQLite about how long it may wait, from now on, in milliseconds. A store that another test left has a thread."""
    told: list[str] = []
    opened, here = Catalogue._open_connection, threading.get_ident()

    def traced(pool_of: Catalogue, pool: catalogue._Pool) -> sqlite3.Connection:
        connection = opened(pool_of, pool)
        if threading.get_ident() == here:
            connection.set_trace_callback(told.append)
        return connection

    monkeypatch.setattr(Catalogue, "_open_connection", traced)
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
    pool = Catalogue(tmp_path)
    monkeypatch.setattr(pool, "_write_lock", lock)
    monkeypatch.setattr(catalogue, "time", SimpleNamespace(monotonic=lambda: lock.now))
    told.clear()
    with pool.writing(seconds=seconds):
        pass
    assert waits(told) == pytest.approx([expected], abs=1)
    pool.close()


def test_behind_a_write_that_waited_in_vain_nobody_waits_for_as_long_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "BUSY_SECONDS", 0.5)
    monkeypatch.setattr(catalogue, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(catalogue, "time", SimpleNamespace(monotonic=lambda: 0.0))  # no time passes but in SQLite
    told = busy_timeouts(monkeypatch)
    pool = Catalogue(tmp_path)
    with closing(sqlite3.connect(pool.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        told.clear()
        for seconds in (0.01, None, None):
            with pytest.raises(StoreUnavailable, match="holds the lock"), pool.writing(seconds=seconds):
                pass
        other.execute("ROLLBACK")
    for _ in range(2):
        with pool.writing():
            pass
    short, whole, again, last, next_one = waits(told)
    assert (short, whole) == (10, 500)
    assert (again, last) == (10, 10)
    assert next_one == 500, "the lock has been got"
    pool.close()


def test_what_is_noted_while_a_write_fails_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread notes that files of a refused transaction wait, between two steps of this one. What a store that another test left looks
    at and notes is not counted."""
    pool = Catalogue(tmp_path)
    noted = [True]

    def look(of: Catalogue) -> bool:
        before = noted[-1]
        if of is pool:
            noted.append(False)
        return before

    note = property(look, lambda of, is_recovered: noted.append(is_recovered) if of is pool else None)

    def write() -> None:
        with pool.writing():
            monkeypatch.setattr(Catalogue, "is_recovered", note, raising=False)
            raise ValueError("another")

    with pytest.raises(ValueError, match="another"):
        write()
    monkeypatch.undo()
    assert noted[-1] is (len(noted) == 1), "it was looked at, and what was seen written back"
    pool.close()


def test_a_copy_has_the_log_of_writes_that_another_brings_into_the_file_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, copied = tmp_path / "catalogue", tmp_path / "copied"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    catalogue.migrate(connection, path)
    copy = shutil.copyfileobj

    def copy_while_another_closes(source: Any, target: Any, length: int = 0) -> None:
        copy(source, target, length)
        if source.name.startswith(str(path)):
            connection.close()

    monkeypatch.setattr("shutil.copyfileobj", copy_while_another_closes)
    copy_with_log(path, copied)
    assert not Path(f"{path}-wal").exists()
    assert [(tmp_path / f"copied{end}").stat().st_mode & 0o777 for end in ("", "-wal")] == [0o600, 0o600]
    assert fault_of(copied) == ""
