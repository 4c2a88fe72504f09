"""What other processes do to the same store, for those in this one who keep something open or wait.

Everything that happens to modules stands in their log (``module_log``). Whether anything was committed is one number that SQLite
keeps in shared memory (PRAGMA data_version); only when it changed is the log read, and of it only the modules that are gone."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from symd.model.identities import Digest
from symd.store.catalogue import Catalogue
from symd.store.connection import digest_of_row
from symd.store.module_log import REMOVED

_ENDS = "SELECT coalesce((SELECT min(sequence) FROM changes), 0), coalesce((SELECT max(sequence) FROM changes), 0)"
_REMOVED = f"SELECT DISTINCT sha256 FROM changes WHERE sequence > ? AND kind = '{REMOVED}'"  # noqa: S608 - a constant


class News(NamedTuple):
    """Modules that were ``removed``, whoever did it; ``lost``: and others of which nobody knows any more. ``any`` says whether there
    was anything at all, of whatever kind."""

    removed: list[Digest]
    lost: bool
    any: bool


NOTHING = News([], lost=False, any=False)


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
            self._last = int(connection.execute(_ENDS).fetchone()[1])
        return News([], lost=True, any=True)

    def _news(self) -> News:
        if self._path != self._catalogue.path:
            return self._begin_again()
        if self._connection is None:
            self._connection = self._catalogue.connect()
            self._version = 0
        version = int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        if version == self._version:
            return NOTHING
        first, last = map(int, self._connection.execute(_ENDS).fetchone())
        removed = [digest_of_row(value) for (value,) in self._connection.execute(_REMOVED, (self._last,))]
        lost = first > self._last + 1
        self._version = version
        self._last = max(last, self._last)
        return News(removed, lost, any=True)
