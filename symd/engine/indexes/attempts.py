"""Attempts to index a module, counted before they begin, so that bytes which end their reader do so a few times and not
forever; and indexes that are built before anybody waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from symd.errors import DeadlineExceeded, Malformed, SymdError, WorkerDied
from symd.index import VERSION, Index

if TYPE_CHECKING:
    from symd.store import ModuleStore
    from symd.store.files import IncomingFile


MAX_ATTEMPTS = 3
"""How often a module may end the process that indexes it, or the one that asked for it."""


class BuildAttempt(NamedTuple):
    """An attempt to index a module: the index that another process has made meanwhile, or None, and the ``file`` to
    make one in."""

    made: Index | None
    file: IncomingFile


class IndexAttempts:
    """The attempts to index modules of a store. Safe to use from several threads."""

    def __init__(self, store: ModuleStore) -> None:
        self._store = store
        self._running: set[str] = set()

    @contextmanager
    def one(self, digest: str, made_meanwhile: Callable[[], Index | None]) -> Iterator[BuildAttempt]:
        """An attempt, counted for as long as it has no answer; its error is remembered where it lasts.
        ``made_meanwhile`` is asked where another process was waited for. Raises ``Malformed`` where there were too many
        attempts."""
        with self._store.attempt(digest, VERSION) as before, self._count_failure(digest):
            found = made_meanwhile() if before.waited else None
            if found is not None:
                self._store.forget_attempts(digest, VERSION)
            elif before.begun >= MAX_ATTEMPTS:
                raise _given_up(before.begun, before.ending)
            yield BuildAttempt(found, before.file)

    def forget(self) -> None:
        """Take back the attempts that are running, which end now with this process: none of them counts."""
        for digest in tuple(self._running):
            self._store.forget_attempts(digest, VERSION)

    @contextmanager
    def _count_failure(self, digest: str) -> Iterator[None]:
        """What becomes of the count when an attempt ends with an error."""
        self._running.add(digest)
        try:
            yield
        except (DeadlineExceeded, WorkerDied) as error:
            self._store.note_attempt(digest, VERSION, error.message)
            raise
        except SymdError as error:
            if not self._store.remember_failure(digest, VERSION, error):
                self._store.forget_attempts(digest, VERSION)
            raise
        finally:
            self._running.discard(digest)


def _given_up(begun: int, ending: str) -> Malformed:
    last = ending or "the process that asked for it was killed"
    return Malformed(
        f"symd cannot read it: {begun} attempts to index it had no end; the last: {last}",
        hint="delete the module to have it tried again",
        metadata={"attempts": str(begun)},
    )


BUILD_THREADS = 4
"""Builds that run at a time."""
_MOST_WAITING = 1000
"""Modules that wait for one of these."""


class BackgroundBuilds:
    """Calls ``build`` with each digest that is added, in daemon threads of its own: the end of the process waits for
    none. A thread ends when nothing waits. A digest that finds no room, or no thread, is dropped: the next question
    about the module builds its index. Safe to use from several threads."""

    def __init__(self, build: Callable[[str], None]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._waiting: dict[str, None] = {}
        self._running = 0
        self._closed = False

    def add(self, digest: str) -> None:
        """Build the index of a module soon, unless too many wait already."""
        with self._lock:
            if self._closed or digest in self._waiting or len(self._waiting) >= _MOST_WAITING:
                return
            self._waiting[digest] = None
            if self._running < BUILD_THREADS:
                self._start()

    def close(self) -> None:
        """Forget what waits. Builds that run are not ended."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name="symd-build", daemon=True).start()
        except RuntimeError:  # the system has no thread left
            if not self._running:
                self._waiting.clear()
        else:
            self._running += 1

    def _run(self) -> None:
        try:
            while (digest := self._next()) is not None:
                self._build(digest)
        except BaseException:  # a defect, which the interpreter reports
            with self._lock:
                self._running -= 1
            raise

    def _next(self) -> str | None:
        """The digest that waits longest; None where none does, and then the thread counts as ended."""
        with self._lock:
            if not self._waiting:
                self._running -= 1
                return None
            digest = next(iter(self._waiting))
            del self._waiting[digest]
            return digest
