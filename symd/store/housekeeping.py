"""What is done for an open store now and then, by one thread: other processes' changes are told to those who listen,
the times at which modules were used come to the catalogue, a catalogue that turns out to be damaged is replaced, and a
disk that is nearly full, or a folder that is not the store's any more, is told of."""

from __future__ import annotations

import threading
import time
from contextlib import closing, suppress

from symd.config import Limits
from symd.errors import SymdError
from symd.store import soundness
from symd.store.catalogue import Catalogue, existing, newest
from symd.store.changes import ChangeReader
from symd.store.files import disk
from symd.store.folder_writability import FolderWritability
from symd.store.maintenance_log import MaintenanceLog
from symd.store.module_log import ModuleLog
from symd.store.paths import StorePaths
from symd.store.rebuild import faults, finish_rebuild, rebuild
from symd.store.recovery import adopt, recover
from symd.store.removals import Removals
from symd.store.tree import look
from symd.store.usage import Usage

PERIOD = 0.25
"""Seconds between two looks for changes: one number in shared memory is read."""
_PAUSE_SECONDS = 0.002
"""Between two pieces of the catalogue that are looked through."""
LOOK_PERIOD = 3600.0
"""Seconds between two looks through all that the catalogue has."""
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
        self._complaints = MaintenanceLog()

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """No more after this; uses are written once more. Harmless when repeated."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._changes.close()
        self._complaints.attempt(_USES, self._write_uses)

    def _run(self) -> None:
        attempt = self._complaints.attempt
        written, looked, recovered = time.monotonic(), float("-inf"), float("-inf")
        while not self._ended.wait(PERIOD):
            if not self._is_in_place():
                attempt(_ASKING, self._check_disk)
                recovered = float("-inf")  # files and rows are brought in step as soon as it is back
                continue
            if time.monotonic() - looked >= LOOK_PERIOD:
                attempt("looking through the catalogue", self._look_through)
                looked = time.monotonic()
            attempt("replacing the catalogue", self._replace_damaged)
            if time.monotonic() - recovered >= RECOVERY_PERIOD:
                attempt("replacing the damaged catalogue", self._replace_rescued)
            if time.monotonic() - recovered >= RECOVERY_PERIOD:
                attempt("bringing files and rows in step", self._recover)
                recovered = time.monotonic()
            attempt("reading what others changed", self._tell_changes)
            attempt(_ASKING, self._check_disk)
            if time.monotonic() - written >= USES_PERIOD:
                attempt(_USES, self._write_uses)
                written = time.monotonic()

    def _is_in_place(self) -> bool:
        """Whether the store's folder is the one that was opened. If it is not, writability tells of it."""
        try:
            self._catalogue.check_in_place()
        except SymdError:
            return False
        return True

    def _look_through(self) -> None:
        """Find values that symd did not write before somebody meets them; a start looks at those only that it goes by."""
        path = self._catalogue.path
        with suppress(_EndedError), self._catalogue.translated(), closing(existing(path)) as connection:
            if soundness.faults(connection, pause=self._pause):
                self._catalogue.damaged = path

    def _pause(self) -> None:
        """Let others have the processor. Raises ``_EndedError`` at the end."""
        if self._ended.wait(_PAUSE_SECONDS):
            raise _EndedError

    def _replace_damaged(self) -> None:
        """A catalogue that turned out to be damaged is made anew, or was by another process; one of which a copy was read is opened again
        where it can be."""
        damaged = self._catalogue.damaged
        if damaged is not None:
            found = faults(damaged) if damaged == newest(self._paths.root) else []
            rebuilt = rebuild(self._paths, damaged, "; ".join(found)) if found else None
            self._catalogue.damaged = None
            if rebuilt is not None:
                self._catalogue.is_recovered = False
        self._catalogue.renew()

    def _replace_rescued(self) -> None:
        """A damaged catalogue that could not be replaced is, where it can be by now."""
        found = self._catalogue.rescue
        if found is not None:
            rebuild(self._paths, found.damaged, found.fault, lock_seconds=self._limits.lock_seconds)
            self._catalogue.renew()

    def _recover(self) -> None:
        """Bring files and rows in step, where they may not be."""
        if self._catalogue.is_recovered or self._catalogue.unwritable is not None:
            return
        self._catalogue.is_recovered = True
        try:
            with disk(self._paths.root):
                self._paths.create(durable=True)
                finish_rebuild(self._paths, self._limits.lock_seconds)
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


class _EndedError(Exception):
    """The store is closed: what was begun is left."""
