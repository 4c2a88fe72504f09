"""The periodic work of an open store, in one thread: it reports other processes' changes to listeners, writes the times
of use of modules to the catalogue, keeps a copy of it, and warns of a disk that is nearly full or cannot be written. A
failure is logged when it is new, or returns after a success or another failure.

All changes of modules are in their log (``module_log``). SQLite keeps one number in shared memory that changes with
each commit (PRAGMA data_version); only when it has changed is the log read for modules that are gone.

Whether a store's disk has room is known as of the last check, and there are listeners for changes of that.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from symd.config import Limits
from symd.errors import StoreUnavailable, SymdError
from symd.model.identities import Digest
from symd.store.budgets import Usage
from symd.store.catalogue import Catalogue
from symd.store.files import disk
from symd.store.folder import StorePaths
from symd.store.module_log import REMOVED, ModuleLog, Removals
from symd.store.recovery import keep_copy

log = logging.getLogger("symd.store")

PERIOD = 0.25
"""Seconds between two looks for changes: one number in shared memory is read."""
COPY_PERIOD = 3600.0
"""Seconds between two copies of a catalogue that changes."""
USES_PERIOD = 30.0
"""Seconds between two writes of when modules were used."""
_USES = "noting when modules were used"


class Housekeeping:
    """The thread, from ``begin`` to ``end``."""

    def __init__(
        self,
        paths: StorePaths,
        catalogue: Catalogue,
        limits: Limits,
        usage: Usage,
        module_log: ModuleLog,
        removals: Removals,
        writability: FolderWritability,
    ) -> None:
        self._paths = paths
        self._catalogue = catalogue
        self._limits = limits
        self._usage = usage
        self._module_log = module_log
        self._removals = removals
        self._writability = writability
        self._changes = ChangeReader(catalogue)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="symd-store", daemon=True)
        self._retried = RetriedWork()

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """End the thread, after which uses are written once more. Harmless when repeated."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._changes.close()
        self._retried.attempt(_USES, self._write_uses)

    def _run(self) -> None:
        attempt = self._retried.attempt
        written = time.monotonic()
        while not self._ended.wait(PERIOD):
            attempt("reading what others changed", self._tell_changes)
            self._writability.check()
            if time.monotonic() - written >= USES_PERIOD:
                attempt(_USES, self._write_uses)
                attempt("copying the catalogue", self._keep_copy)
                written = time.monotonic()

    def _keep_copy(self) -> None:
        """Copy a catalogue that was changed since the last copy, where that is old and there is room."""
        path, copy = self._catalogue.path, self._paths.catalogue_copy
        with disk(path):
            if self._writability.free() < self._limits.free_disk + path.stat().st_size:
                return
            copied = copy.stat().st_mtime if copy.exists() else float("-inf")
            changed = max(file.stat().st_mtime for file in (path, Path(f"{path}-wal")) if file.exists())
        if changed > copied and abs(time.time() - copied) >= COPY_PERIOD:
            with self._catalogue.translated():
                keep_copy(self._paths)

    def _tell_changes(self) -> None:
        removed, lost, is_any = self._changes.read()
        try:
            self._removals.notify_logged(self._catalogue, removed, lost=lost)
        except SymdError:
            self._changes.forget()  # those who listen hear of it in the next turn
            raise
        if is_any:
            self._module_log.notify()

    def _write_uses(self) -> None:
        self._usage.write(self._catalogue)


_ENDS = "SELECT coalesce((SELECT min(sequence) FROM changes), 0), coalesce((SELECT max(sequence) FROM changes), 0)"
_REMOVED = f"SELECT DISTINCT sha256 FROM changes WHERE sequence > ? AND kind = '{REMOVED}'"  # noqa: S608 - a constant


class LogChanges(NamedTuple):
    """New entries of the log: which modules were ``removed``, by whatever process; ``lost``: the log has forgotten some
    entries that were not read, which may be removals too; ``is_any``: there was an entry, of whatever kind."""

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
        self._is_lost = False
        with catalogue.reading() as connection:
            self._last = int(connection.execute(_ENDS).fetchone()[1])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def forget(self) -> None:
        """What was read last could not be told: the next call says that some is lost."""
        self._is_lost, self._version = True, 0

    def read(self) -> LogChanges:
        """What happened since the last call."""
        with self._catalogue.translated():
            try:
                return self._read()
            except sqlite3.Error:
                self.close()
                raise

    def _read(self) -> LogChanges:
        if self._connection is None:
            self._connection = self._catalogue.connect()
            self._version = 0
        version = int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        if version == self._version:
            return UNCHANGED
        first, last = map(int, self._connection.execute(_ENDS).fetchone())
        removed = [digest for (digest,) in self._connection.execute(_REMOVED, (self._last,))]
        lost = self._is_lost or first > self._last + 1
        self._version, self._last, self._is_lost = version, max(last, self._last), False
        return LogChanges(removed, lost, is_any=True)


class RetriedWork:
    """What each work failed with last. Two threads may use it, each for work of its own."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def attempt(self, what: str, work: Callable[[], object]) -> str:
        """Do ``work``, or log why ``what`` it does could not be done: the next time may do. Why not, "" where it
        could."""
        try:
            work()
        except SymdError as error:
            if str(error) != self._last.get(what):
                log.warning("%s: %s", what, error)
            self._last[what] = str(error)
            return error.message
        self._last.pop(what, None)
        return ""


class Writability(ABC):
    """Whether a store takes what is written, as of the last check. Safe to use from several threads but for
    checking, which is one thread's work."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[bool], None]] = []
        self.is_writable = True
        """What the last check found. True before the first."""

    def listen(self, listener: Callable[[bool], None]) -> None:
        """Call ``listener`` with ``is_writable`` now, and whenever it changes, from another thread then. It must not
        raise."""
        self._listeners.append(listener)
        listener(self.is_writable)

    @abstractmethod
    def free(self) -> int:
        """Free bytes of the disk. Raises OSError."""

    def _note_found(self, problem: str, of: str) -> None:
        """Note what a check found: ``problem`` is why writes may fail, "" where they will not. A change is told to the
        listeners and logged, with the name ``of`` what is written to."""
        if (not problem) == self.is_writable:
            return
        self.is_writable = not problem
        if self.is_writable:
            log.warning("%s takes what is written again", of)
        else:
            log.error("%s does not take what is written: %s", of, problem)
        for listener in self._listeners:
            listener(self.is_writable)


class FolderWritability(Writability):
    """Free bytes of the disk that has a store, beside ``Limits.free_disk``, and whether it may be written; never where
    it was opened to be read alone, because of ``refusal``."""

    def __init__(self, paths: StorePaths, limits: Limits, refusal: str = "") -> None:
        super().__init__()
        self._refusal = refusal
        self._root = paths.root
        self._least = limits.free_disk

    def free(self) -> int:
        """Free bytes of the disk. Raises OSError."""
        found = os.statvfs(self._root)
        return found.f_bavail * found.f_frsize

    def check(self) -> None:
        """Ask the disk; listeners are told of a change."""
        self._note_found(self._problem(), str(self._root))

    def _problem(self) -> str:
        """Why writes may fail, "" where they may not."""
        if self._refusal:
            return self._refusal
        try:
            with disk(self._root):
                if os.statvfs(self._root).f_flag & os.ST_RDONLY:
                    return "the disk is read-only"
                free = self.free()
        except StoreUnavailable as error:
            return error.message
        return f"the disk is nearly full, {free} bytes are free" if free < self._least else ""
