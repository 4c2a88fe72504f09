"""What is done for an open store now and then, by one thread: other processes' changes are told to those who listen,
the times at which modules were used come to the catalogue, a catalogue that turns out to be damaged is replaced, and a
disk that is nearly full, or a folder that is not the store's any more, is told of."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from symd.config import Limits
from symd.errors import SymdError
from symd.store.catalogue import Catalogue, newest
from symd.store.catalogue_check import fault_of
from symd.store.changes import ChangeReader
from symd.store.files import LOCK_SECONDS, disk
from symd.store.folder_writability import FolderWritability
from symd.store.module_log import ModuleLog
from symd.store.paths import StorePaths
from symd.store.rebuild import finish_replacing, keep_copy, replace_catalogue
from symd.store.recovery import adopt, recover
from symd.store.removals import Removals
from symd.store.retried_work import RetriedWork
from symd.store.tree import look
from symd.store.usage import Usage

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
        """A catalogue that turned out to be damaged is replaced, or was by another process; one of which a copy was read is opened again
        where it can be."""
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
        """Of a catalogue that was changed since the last copy, where that is old. Damage that is met is replaced then."""
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
