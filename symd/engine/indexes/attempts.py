"""Attempts to index a module, counted before they begin, so that bytes which end their reader do so a few times and not
forever; the readers-writer lock that lets the last attempt run alone; and indexes that are built before anybody waits
for them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from symd.config import MIB, Limits
from symd.errors import DeadlineExceeded, LimitExceeded, Malformed, SymdError, WorkerDied
from symd.index import VERSION, Index

if TYPE_CHECKING:
    from symd.store import ModuleStore
    from symd.store.files import IncomingFile


class SharedLock:
    """A readers-writer lock: many hold it shared, or one exclusively. Who waits to hold it exclusively goes before
    those who come later to share it. Safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._exclusive = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it beside others who share it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._exclusive)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold it alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._exclusive)
            self._exclusive = True
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._sharing)
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()


MAX_ATTEMPTS = 3
"""How often a module may end the process that indexes it. Where the process that asked was killed too, nobody knows
why: the machine may have been taken away. The module is then tried once more, alone and with less memory, so that
what happens meanwhile is its doing and not another's."""
_LEAST_MEMORY = 512 * MIB


class BuildAttempt(NamedTuple):
    """An attempt to index a module: the index that another process has made meanwhile, or None, and the ``file`` to
    make one in; ``memory`` is how much it may take, where it is made alone."""

    made: Index | None
    file: IncomingFile
    memory: int | None = None


class IndexAttempts:
    """The attempts to index modules of a store. Safe to use from several threads."""

    def __init__(self, store: ModuleStore, limits: Limits) -> None:
        self._store, self._limits = store, limits
        self._running: set[str] = set()
        self._lock = SharedLock()
        """Held exclusively by an attempt that is made alone, so that what happens meanwhile is its own doing."""

    @contextmanager
    def one(self, digest: str, made_meanwhile: Callable[[], Index | None]) -> Iterator[BuildAttempt]:
        """An attempt, counted for as long as it has no answer; its error is remembered where it lasts.
        ``made_meanwhile`` is asked where another process was waited for. Raises ``Malformed`` where there were too many
        attempts, and where one that is made alone has not enough memory: with more it may end the daemon again."""
        with self._store.attempt(digest, VERSION) as before, self._count_failure(digest):
            found = made_meanwhile() if before.waited else None
            if found is not None:
                self._store.forget_attempts(digest, VERSION)
                yield BuildAttempt(found, before.file)
            elif before.begun < MAX_ATTEMPTS:
                with self._lock.shared():
                    yield BuildAttempt(None, before.file)
            elif before.begun > MAX_ATTEMPTS or before.ending:
                raise _given_up(before.begun, before.ending)
            else:
                with self._lock.exclusive(), self._small_enough():
                    memory = self._limits.build_memory
                    yield BuildAttempt(None, before.file, max(memory // 4, min(memory, _LEAST_MEMORY)))

    def forget(self) -> None:
        """Take back the attempts that are running, which end now with this process: none of them counts."""
        for digest in tuple(self._running):
            self._store.forget_attempts(digest, VERSION)

    @contextmanager
    def _small_enough(self) -> Iterator[None]:
        try:
            yield
        except LimitExceeded as error:
            if error.metadata.get("limit") != "build_memory":
                raise
            raise _too_large_alone(error.message, self._limits) from error

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
    last = ending or "the process that asked for it was killed, though nothing else was indexed then"
    return Malformed(
        f"symd cannot read it: {begun} attempts to index it had no end; the last: {last}",
        hint="delete the module to have it tried again",
        metadata={"attempts": str(begun)},
    )


def _too_large_alone(what: str, limits: Limits) -> Malformed:
    return Malformed(
        f"symd cannot read it: {MAX_ATTEMPTS} attempts to index it ended with the process that asked for it, and alone {what}",
        hint="raise the limit build_memory where the machine has that much, or delete the module to have it tried again",
        metadata={"attempts": str(MAX_ATTEMPTS + 1), "limit": "build_memory", "value": str(limits.build_memory)},
    )


BUILD_THREADS = 4
"""Builds that run at a time."""
_MOST_WAITING = 1000
"""Modules that wait for one of these."""


class BackgroundBuilds:
    """Calls ``build`` with each digest that is added, in daemon threads of its own: ``BUILD_THREADS`` at most. A thread
    ends when nothing waits. A digest that finds no room, or no thread, is dropped: the next question about the module
    builds its index. Safe to use from several threads."""

    def __init__(self, build: Callable[[str], None]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._waiting: deque[str] = deque()
        self._running = 0

    def add(self, digest: str) -> None:
        """Build the index of a module soon, unless too many wait already."""
        with self._lock:
            if digest in self._waiting or len(self._waiting) >= _MOST_WAITING:
                return
            self._waiting.append(digest)
            if self._running < BUILD_THREADS:
                self._start()

    def clear(self) -> None:
        """Forget what waits. Builds that run are not ended."""
        with self._lock:
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
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None
