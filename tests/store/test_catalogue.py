"""Connections to a catalogue's file that nobody uses, where others leave the file at the same time."""

import sqlite3
from pathlib import Path

import pytest

from symd.store.catalogue import _Pool


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
