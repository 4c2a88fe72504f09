"""How the index of a module is made: by one thread at a time (``ModuleLocks``), in an attempt that is counted
(``IndexAttempts``), while the disk still takes in an uploaded module (``IndexAhead``), or when nobody waits for it
(``BackgroundBuilds``)."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from types import TracebackType
from typing import NamedTuple, Self

from symd.api import Pending
from symd.engine.reading import ModuleFile
from symd.engine.reading.questions import MakeIndex, Reader
from symd.errors import DeadlineExceeded, Malformed, SymdError, Unavailable, WorkerDied
from symd.index import VERSION
from symd.index.lookup import Index
from symd.store import ModuleStore
from symd.store.files import IncomingFile


class ModuleLocks:
    """A lock for each module, by digest. Safe to use from several threads. A holder that passes a limit of time
    passes its error on to all who wait for the same work, who do not begin anew: each of them would take as long
    again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._released: dict[str, Future[None]] = {}
        """A future for each lock that is held, by digest; it is done when the lock is released."""
        self._thread = threading.local()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Inside, in this thread, ``hold`` raises ``Pending`` where it would wait."""
        self._thread.never_waits = True
        try:
            yield
        finally:
            self._thread.never_waits = False

    @contextmanager
    def hold(self, digest: str, *, fails_with_holder: bool = True) -> Iterator[None]:
        """Hold the lock of a module. Raises ``DeadlineExceeded`` where the holder before passed a limit of time; for
        work of another kind, which does not take that long, ``fails_with_holder`` is false, and it begins then."""
        mine: Future[None] = Future()
        mine.set_running_or_notify_cancel()  # nobody who waits for it can cancel it
        while (holder := self._holder(digest, mine)) is not mine:
            if getattr(self._thread, "never_waits", False):
                raise Pending(holder if fails_with_holder else _ended(holder))
            late = holder.exception()
            if late is not None and fails_with_holder:
                raise copy(late)
        late = None
        try:
            yield
        except DeadlineExceeded as error:
            late = copy(error)  # without the frames that it passes through
            raise
        finally:
            with self._lock:
                del self._released[digest]
            if late is None:
                mine.set_result(None)
            else:
                mine.set_exception(late)

    def _holder(self, digest: str, mine: Future[None]) -> Future[None]:
        """What the holder of the lock will complete: ``mine`` where the lock was free, and is taken now."""
        with self._lock:
            return self._released.setdefault(digest, mine)


def _ended(work: Future[None]) -> Future[None]:
    """A future that is done when ``work`` is, without its error."""
    ended: Future[None] = Future()
    ended.set_running_or_notify_cancel()
    work.add_done_callback(lambda _: ended.set_result(None))
    return ended


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


class IndexAhead:
    """A context manager that begins an index ahead: inside, a thread of its own has ``reader`` make it, in a file that
    ``scratch`` gives. Leaving does not wait for the thread. The thread closes the descriptor of ``module``. Entering
    gives None where no thread can be started: then nothing is begun.

    ``is_admitted`` says whether the module was admitted with its index."""

    def __init__(
        self, reader: Reader, module: ModuleFile, scratch: Callable[[], AbstractContextManager[IncomingFile]]
    ) -> None:
        self.is_admitted = False
        self._reader, self._module, self._scratch = reader, module, scratch
        self._made, self._left = threading.Event(), threading.Event()
        self._file: IncomingFile | None = None
        self._error: SymdError = Unavailable("the index was not made", hint="add the module again")

    def __enter__(self) -> Self | None:
        run = contextvars.copy_context().run  # log lines and spans of the thread belong to the call served here
        try:
            threading.Thread(target=run, args=(self._make,), name="symd-index-ahead", daemon=True).start()
        except RuntimeError:  # the system has no thread left
            self._close_module()
            return None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()

    def index(self) -> IncomingFile:
        """The index file, once it is made, until the end. Raises what making it raises."""
        self._made.wait()
        if self._file is None:
            raise self._error
        return self._file

    def _make(self) -> None:
        try:
            with self._scratch() as file:
                self._reader.ask(self._module, MakeIndex(os.fspath(file.path)))
                self._file = file
                self._made.set()
                self._left.wait()
        except SymdError as error:  # raised where it is waited for
            self._error = error
        finally:
            self._made.set()
            self._close_module()

    def _close_module(self) -> None:
        if self._module.descriptor is not None:
            os.close(self._module.descriptor)


BUILD_THREADS = 4
"""Builds that run at a time."""
_MAX_WAITING = 1000
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
            if self._closed or digest in self._waiting or len(self._waiting) >= _MAX_WAITING:
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
