"""What other processes do to the same store, for those in this one who keep something open or wait.

Everything that happens to modules stands in their log (``module_log``). Whether anything was committed is one number that SQLite
keeps in shared memory (PRAGMA data_version); only when it changed is the log read, and of it only the modules that are gone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from symd.model.identities import Digest
from symd.store.catalogue import Catalogue
from symd.store.module_log import REMOVED, digests_of_rows

_ENDS = "SELECT coalesce((SELECT min(sequence) FROM changes), 0), coalesce((SELECT max(sequence) FROM changes), 0)"
_REMOVED = f"SELECT DISTINCT sha256 FROM changes WHERE sequence > ? AND kind = '{REMOVED}'"  # noqa: S608 - a constant


class LogChanges(NamedTuple):
    """New entries of the log: which modules were ``removed``, by whatever process; ``lost``: the log has forgotten some entries that were not
    read, which may be removals too; ``is_any``: there was an entry, of whatever kind."""

    removed: list[Digest]
    lost: bool
    is_any: bool


UNCHANGED = LogChanges([], lost=False, is_any=False)


class ChangeReader:
    """Reads the changes of one catalogue from now on. For one thread at a time. Raises as the catalogue does."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._connection: sqlite3.Connection | None = None
        self._version = 0
        self._path: Path | None = None
        """The catalogue that is read; None: none has been since the place in it was forgotten."""
        self._begin_again()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def forget(self) -> None:
        """What was read last could not be told: the next call says that some is lost."""
        self._path = None

    def read(self) -> LogChanges:
        """What happened since the last call."""
        with self._catalogue.translated():
            try:
                return self._read()
            except sqlite3.Error:
                self.close()
                raise

    def _begin_again(self) -> LogChanges:
        """Another catalogue has replaced the one that was read, or the place in it was forgotten: what happened meanwhile is not known."""
        self.close()
        path = self._catalogue.path
        with self._catalogue.reading() as connection:
            self._last = int(connection.execute(_ENDS).fetchone()[1])
        self._path = path
        return LogChanges([], lost=True, is_any=True)

    def _read(self) -> LogChanges:
        if self._path != self._catalogue.path:
            return self._begin_again()
        if self._connection is None:
            self._connection = self._catalogue.connect()
            self._version = 0
        version = int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        if version == self._version:
            return UNCHANGED
        first, last = map(int, self._connection.execute(_ENDS).fetchone())
        removed = digests_of_rows(self._connection.execute(_REMOVED, (self._last,)))
        lost = first > self._last + 1
        self._version = version
        self._last = max(last, self._last)
        return LogChanges(removed, lost, is_any=True)
