"""The periodic work of an open shared store, in two threads. One reports to listeners what other daemons do and whether
the catalogue can be reached, and writes times of use of modules into it; the other removes unwanted objects.

The server wakes the first (LISTEN); if the connection for that is lost another is made, and all that is open is looked
at anew. Writes are refused where the catalogue does not answer or this machine's disk is nearly full.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from symd.config import Limits
from symd.errors import SymdError
from symd.store.budgets import Usage
from symd.store.files import disk, make_folder
from symd.store.housekeeping import RetriedWork, Writability
from symd.store.module_log import REMOVED, ModuleLog, Removals
from symd.store.shared.catalogue import CHANNEL, PostgresCatalogue
from symd.store.shared.postgresql import PostgresConnection, PostgresDatabase

PERIOD: Final = 0.5
"""Seconds after which the first thread looks whether there is something to do, when nobody wakes it."""
USES_PERIOD: Final = 30.0
"""Seconds between two writes of when modules were used."""
UNWANTED_PERIOD: Final = 60.0
"""Seconds between two looks for unwanted objects that others may have left."""
RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts to reach a server that is gone."""
_USES: Final = "noting when modules were used"
_ENDS: Final = "SELECT coalesce((SELECT min(sequence) FROM changes), 0), (SELECT last FROM module_log)"
_REMOVED: Final = f"SELECT DISTINCT sha256 FROM changes WHERE sequence > ? AND kind = '{REMOVED}'"  # noqa: S608 - a constant


class SharedHousekeeping:
    """The two threads, from ``begin`` to ``end``."""

    def __init__(
        self,
        server: PostgresDatabase,
        catalogue: PostgresCatalogue,
        usage: Usage,
        module_log: ModuleLog,
        removals: Removals,
        writability: SharedWritability,
        clean: Callable[[Callable[[], bool]], object],
    ) -> None:
        """``clean`` removes unwanted objects until there are none or what it is given says so."""
        self._server = server
        self._catalogue = catalogue
        self._usage = usage
        self._module_log = module_log
        self._removals = removals
        self._writability = writability
        self._remove_unwanted = clean
        self._ended = threading.Event()
        self._hurried = threading.Event()
        self._thread = threading.Thread(target=self._run, name="symd-store", daemon=True)
        self._cleaner = threading.Thread(target=self._clean, name="symd-store-objects", daemon=True)
        self._listening: PostgresConnection | None = None
        self._last: int | None = None
        """The last entry of the log that was looked at; None before the first."""
        self._retried = RetriedWork()

    def begin(self) -> None:
        self._thread.start()
        self._cleaner.start()

    def hurry(self) -> None:
        """Something is unwanted now."""
        self._hurried.set()

    def end(self) -> None:
        """End both threads, after which uses are written once more. Harmless when repeated."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._hurried.set()
        for thread in (self._thread, self._cleaner):
            if thread is not threading.current_thread():
                thread.join()
        if self._listening is not None:
            self._listening.close()
        self._retried.attempt(_USES, self._write_uses)

    def _run(self) -> None:
        written = time.monotonic()
        while not self._ended.is_set():
            trouble = self._retried.attempt("looking after the store", self._listen)
            if not trouble and time.monotonic() - written >= USES_PERIOD:
                trouble = self._retried.attempt(_USES, self._write_uses)
                written = time.monotonic()
            self._retried.attempt("asking the disk", partial(self._writability.check, trouble))
            if trouble:
                self._ended.wait(RETRY_SECONDS)

    def _clean(self) -> None:
        while not self._ended.is_set():
            self._retried.attempt("removing unwanted objects", lambda: self._remove_unwanted(self._ended.is_set))
            self._hurried.wait(UNWANTED_PERIOD)
            self._hurried.clear()

    def _listen(self) -> None:
        """Wait a while for the server's word, and tell what has happened."""
        anew = self._listening is None
        try:
            if self._listening is None:
                self._listening = self._server.own_connection()
                with self._server.translated():
                    self._listening.execute(f"LISTEN {CHANNEL}")
            with self._server.translated():
                told = anew or self._listening.notified(PERIOD)
            if told:
                self._tell(lost=anew and self._last is not None)
        except SymdError:
            self._hang_up()
            raise

    def _hang_up(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def _tell(self, *, lost: bool) -> None:
        with self._catalogue.reading_at_once() as connection:
            first, last = connection.execute(_ENDS).fetchone()
            since = last if self._last is None else self._last
            removed = [digest for (digest,) in connection.execute(_REMOVED, (since,))]
        forgotten = first > since + 1
        self._last = last
        self._removals.notify_logged(self._catalogue, removed, lost=lost or forgotten)
        self._module_log.notify()

    def _write_uses(self) -> None:
        self._usage.write(self._catalogue, survives_power_cut=False)


class SharedWritability(Writability):
    """Whether a store that several daemons share takes what is written, for one of these daemons."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        super().__init__()
        self._folder = folder
        self._least = limits.free_disk

    def free(self) -> int:
        """Free bytes of the disk for files being written. Raises OSError."""
        make_folder(self._folder, durable=False)  # it lies in a cache, which somebody may have emptied
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize

    def check(self, trouble: str) -> None:
        """Ask the disk; ``trouble`` says why the catalogue cannot be used, "" where it can. Listeners are told of a
        change. Raises ``StoreUnavailable`` where the disk gives no answer."""
        with disk(self._folder):
            problem = trouble or ("the disk is nearly full" if self.free() < self._least else "")
        self._note_found(problem, "the store")
