"""The periodic work of an open store, in one thread: it reports other processes' changes to listeners, writes the times
of use of modules to the catalogue, replaces a catalogue that turns out to be damaged, and warns of a disk that is
nearly full or a folder that is not the store's any more. A failure is logged when it is new, or returns after a success
or another failure.

All changes of modules are in their log (``module_log``). SQLite keeps one number in shared memory that changes with
each commit (PRAGMA data_version); only when it has changed is the log read for modules that are gone.

Whether a store accepts writes is known as of the last check, and there are listeners for changes of that. A store in a
folder refuses before a write fails: when few bytes are free, after a write was refused (a quota, a disk that is
read-only or fails), and while the catalogue cannot be written or the folder is away.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from symd.config import Limits
from symd.errors import StoreUnavailable, SymdError
from symd.model.identities import Digest
from symd.store.budgets import Usage
from symd.store.catalogue import Catalogue, newest
from symd.store.files import LOCK_SECONDS, IncomingFile, disk
from symd.store.folder import StorePaths, look
from symd.store.module_log import REMOVED, ModuleLog, Removals, digests_of_rows
from symd.store.recovery import adopt, fault_of, finish_replacing, keep_copy, recover, replace_catalogue

log = logging.getLogger("symd.store")

PERIOD = 0.25
"""Seconds between two looks for changes: one number in shared memory is read."""
COPY_PERIOD = 3600.0
"""Seconds between two copies of a catalogue that changes."""
RECOVERY_PERIOD = 2.0
"""Seconds between two attempts to bring files and rows in step, where that is to be done."""
USES_PERIOD = 30.0
"""Seconds between two writes of when modules were used."""
_USES = "noting when modules were used"
_ASKING = "asking the disk"


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
        written, recovered = time.monotonic(), float("-inf")
        while not self._ended.wait(PERIOD):
            if not self._is_in_place():
                attempt(_ASKING, self._check_disk)
                recovered = float("-inf")  # files and rows are brought in step as soon as it is back
                continue
            if time.monotonic() - recovered >= RECOVERY_PERIOD:
                attempt("replacing the catalogue", self._replace_damaged)
                attempt("bringing files and rows in step", self._recover)
                recovered = time.monotonic()
            attempt("reading what others changed", self._tell_changes)
            attempt(_ASKING, self._check_disk)
            if time.monotonic() - written >= USES_PERIOD:
                attempt(_USES, self._write_uses)
                attempt("copying the catalogue", self._keep_copy)
                written = time.monotonic()

    def _is_in_place(self) -> bool:
        """Whether the store's folder is the one that was opened. If it is not, writability tells of it."""
        try:
            self._catalogue.check_in_place()
        except SymdError:
            return False
        return True

    def _replace_damaged(self) -> None:
        """A catalogue that turned out to be damaged is replaced, or was by another process; one of which a copy was
        read is opened again where it can be."""
        damaged = self._catalogue.damaged
        if damaged is not None:
            wrong = fault_of(damaged) if damaged == newest(self._paths.root) else ""
            told = replace_catalogue(self._paths, damaged, wrong) if wrong else ""
            self._catalogue.damaged = None
            if told:
                log.error("%s", told)
                self._catalogue.is_recovered = False
        self._catalogue.renew()

    def _keep_copy(self) -> None:
        """Copy a catalogue that was changed since the last copy, where that is old. A damaged one is replaced
        then."""
        path, copy = self._catalogue.path, self._paths.catalogue_copy
        with disk(path):
            if (
                self._catalogue.unwritable is not None
                or self._writability.free() < self._limits.free_disk + path.stat().st_size
            ):
                return
            copied = copy.stat().st_mtime if copy.exists() else float("-inf")
            changed = max(file.stat().st_mtime for file in (path, Path(f"{path}-wal")) if file.exists())
        if changed > copied and abs(time.time() - copied) >= COPY_PERIOD:
            with self._catalogue.translated():
                keep_copy(self._paths, path)

    def _recover(self) -> None:
        """Bring files and rows in step, where they may not be."""
        if self._catalogue.is_recovered or self._catalogue.unwritable is not None:
            return
        self._catalogue.is_recovered = True
        try:
            with disk(self._paths.root):
                self._paths.create(durable=True)
                finish_replacing(self._paths, LOCK_SECONDS)
                recovery = recover(self._paths, self._catalogue, self._limits, look(self._paths))
                left = adopt(self._paths, self._catalogue, self._limits, recovery, self._ended.is_set).uncatalogued
            if left:
                self._catalogue.is_recovered = False
        except BaseException:
            self._catalogue.is_recovered = False
            raise

    def _tell_changes(self) -> None:
        removed, lost, is_any = self._changes.read()
        try:
            self._removals.notify_logged(self._catalogue, removed, lost=lost)
        except SymdError:
            self._changes.forget()  # those who listen hear of it in the next turn
            raise
        if is_any:
            self._module_log.notify()

    def _check_disk(self) -> None:
        with disk(self._paths.root):
            self._writability.check()

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
        """Another catalogue has replaced the one that was read, or the place in it was forgotten: what happened
        meanwhile is not known."""
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


REFUSED: Final = frozenset(errno.errorcode[each] for each in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO))
"""Errors with which a disk refuses what is written to it."""


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

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Notice a disk that refuses what is written inside."""
        try:
            yield
        except StoreUnavailable as error:
            self.note_refusal(error)
            raise

    @abstractmethod
    def note_refusal(self, error: StoreUnavailable) -> None:
        """A write ended with this error. Where the disk is why, the next check says so."""

    @abstractmethod
    def free(self) -> int:
        """Free bytes of the disk. Raises OSError."""

    def _note_found(self, problem: str, of: str, also: str = "") -> None:
        """Note what a check found: ``problem`` is why writes may fail, "" where they will not. A change is told to the
        listeners and logged, with the name ``of`` what is written to, and ``also`` at the end of the line."""
        if (not problem) == self.is_writable:
            return
        self.is_writable = not problem
        if self.is_writable:
            log.warning("%s takes what is written again%s", of, also)
        else:
            log.error("%s does not take what is written: %s%s", of, problem, also)
        for listener in self._listeners:
            listener(self.is_writable)


PROBE_SECONDS = 2.0
"""Seconds between two attempts to write, after a write was refused."""
_REFUSED_BY_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")
_PROBE = bytes(4096)


class FolderWritability(Writability):
    """Free bytes of the disk that has a store, beside ``Limits.free_disk``, and whether writes succeed."""

    def __init__(
        self,
        paths: StorePaths,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        of_catalogue: Callable[[], str] = lambda: "",
    ) -> None:
        """``of_catalogue`` says why it takes nothing (``Catalogue.problem``)."""
        super().__init__()
        self._of_catalogue = of_catalogue
        self._paths = paths
        self._least = limits.free_disk
        self._clock = clock
        self._refusal = ""
        """Why a write was refused, until one succeeds."""
        self._probed = float("-inf")

    def note_refusal(self, error: StoreUnavailable) -> None:
        """A write ended with this error. Where the disk is why, the next check finds that it is not writable, until
        bytes can be written."""
        said = error.metadata
        if said.get("errno") in REFUSED or said.get("sqlite", "").startswith(_REFUSED_BY_SQLITE):
            self._refusal = error.message
            self._probed = self._clock()

    def free(self) -> int:
        """Free bytes of the disk. Raises OSError."""
        found = os.statvfs(self._paths.root)
        return found.f_bavail * found.f_frsize

    def check(self) -> None:
        """Ask the disk; listeners are told of a change. Raises OSError."""
        root = str(self._paths.root)
        if problem := self._of_catalogue():
            self._note_found(problem, root)
        else:
            free = self.free()
            self._note_found(self._problem(free), root, f"; {free} bytes are free")

    def _problem(self, free: int) -> str:
        """Why writes may fail, "" where they may not."""
        if os.statvfs(self._paths.root).f_flag & os.ST_RDONLY:
            return "the disk is read-only"
        if free < self._least:
            return "the disk is nearly full"
        if self._refusal and self._clock() - self._probed >= PROBE_SECONDS:
            self._refusal = self._probe()
            self._probed = self._clock()
        return self._refusal

    def _probe(self) -> str:
        """Why ``Limits.free_disk`` bytes cannot be written, "" where they can: they are taken, a few are brought to the
        disk, and all are given back."""
        try:
            with disk(self._paths.incoming):
                file = IncomingFile(self._paths.incoming)
                try:
                    file.write(_PROBE)
                    file.reserve(self._least)
                    file.sync()
                finally:
                    file.discard()
        except StoreUnavailable as error:
            return error.message
        return ""
