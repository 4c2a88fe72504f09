"""What other processes do to the same store: modules that they add or remove.

The catalogue has a short log of both (table ``changes``, written by triggers and by who admits a module). Whether anything
was committed is one number that SQLite keeps in shared memory (PRAGMA data_version); only when it changed is the log read."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from symd.model.identities import Digest
from symd.store.catalogue import Catalogue

_LAST = "SELECT coalesce(max(sequence), 0) FROM changes"
_NEWS = "SELECT sequence, sha256, writer FROM changes WHERE sequence > ? ORDER BY sequence"


class Change(NamedTuple):
    """A module that ``writer`` admitted, or that was removed (None)."""

    sequence: int
    digest: Digest
    writer: str | None


class News(NamedTuple):
    """What happened, oldest first; ``lost``: and something before it that is not known any more."""

    changes: list[Change]
    lost: bool


NOTHING = News([], lost=False)


class Changes:
    """The changes of one catalogue from now on. For one thread at a time. Raises as the catalogue does."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._connection: sqlite3.Connection | None = None
        self._version = 0
        self._begin_again()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def news(self) -> News:
        """What happened since the last call."""
        with self._catalogue.translated():
            try:
                return self._news()
            except sqlite3.Error:
                self.close()
                raise

    def _begin_again(self) -> News:
        """Another catalogue has replaced the one that was read: what happened meanwhile is not known."""
        self.close()
        self._path = self._catalogue.path
        with self._catalogue.reading() as connection:
            self._last = int(connection.execute(_LAST).fetchone()[0])
        return News([], lost=True)

    def _news(self) -> News:
        if self._path != self._catalogue.path:
            return self._begin_again()
        if self._connection is None:
            self._connection = self._catalogue.connect()
            self._version = 0
        version = int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        if version == self._version:
            return NOTHING
        changes = list(map(Change._make, self._connection.execute(_NEWS, (self._last,))))
        lost = bool(changes) and changes[0].sequence > self._last + 1
        self._version = version
        self._last = changes[-1].sequence if changes else self._last
        return News(changes, lost)
