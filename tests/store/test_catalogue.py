"""Connections to a catalogue's file that nobody uses, where others leave the file at the same time."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from symd.errors import StoreUnavailable
from symd.store import Store, catalogue
from symd.store.catalogue import _Pool, newest


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
