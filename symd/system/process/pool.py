"""Processes that are kept warm to call one Python function, for work that may neither hold up this process nor take it
down."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from symd.config import Limits
from symd.errors import DataLoss, Unavailable, error_from_dict
from symd.system.process.frames import BYTES, DEFECT, ERROR, HEAD, JSON, LAST, MEMORY, read_frame
from symd.system.process.process import ProcessLimits, interpreter_environment, kill, start
from symd.system.process.resources import MORE_THREADS
from symd.system.process.run import ChildException, ExitStatus, Limit, limit_of
from symd.system.process.worker import CONFINED

_PROGRAM: Final = Path(__file__).with_name("worker.py")
_PIECE: Final = 1 << 20
"""The most bytes that are read of a pipe at a time."""
_SUBJECTS: Final = 4
"""How many subjects a process is remembered for: those it worked on last."""


class Pool:
    """Up to ``count`` processes, kept once they are started. Safe to use from several threads.

    ``function`` is "package.module:name"; it is called there as ``name(data: bytes, limits: Limits, descriptors:
    Sequence[int]) -> bytes``. Where they are ``confined`` it opens no file: it has the descriptors that come with a
    call, for that call (``worker``). All processes are started by one thread, and die with it.
    """

    def __init__(self, function: str, count: int, *, confined: bool = False) -> None:
        self._command = (sys.executable, "-P", str(_PROGRAM), function, str(os.getpid()), CONFINED if confined else "")
        self._count = count
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="symd-starter", initializer=_hold_back_sigterm)
        self._turns = threading.BoundedSemaphore(count)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._working: set[_Worker] = set()
        self._closed = False
        self._starting = 0
        """Processes that are being started ahead."""
        self._ahead = 0
        self._ahead_limits: ProcessLimits | None = None

    def start_ahead(self, number: int, process_limits: ProcessLimits) -> None:
        """Start processes now, so that the first calls need not wait, and from here on in place of each that ends."""
        self._ahead, self._ahead_limits = min(number, self._count), process_limits
        self._refill()

    def close(self) -> None:
        """End all processes; calls that they work on end with it, and later ones are refused."""
        with self._lock:
            self._closed = True
            waiting, self._idle = self._idle, []
            for worker in self._working:
                kill(worker.process)
        for worker in waiting:
            worker.end()
        self._starter.shutdown(wait=False)

    def call(
        self,
        data: bytes,
        limits: Limits,
        process_limits: ProcessLimits,
        subject: str = "",
        descriptors: Sequence[int] = (),
    ) -> bytes | ChildException | ExitStatus:
        """What the function returns, or the exception of no class of ours that it raises, or how the process ended that
        should have called it. Time begins to count when a process is free. A process that worked on ``subject`` before
        is preferred. It gets copies of ``descriptors``, which share their positions in the files (dup(2)).

        Raises the SymdError that the function raises, Unavailable when the pool is closed, and OSError when no process
        can be started.
        """
        with self._turns:
            worker = self._take(process_limits, subject)
            used = bool(worker.subjects)
            answer = self._ask(worker, _Call(data, limits, process_limits, subject, descriptors))
            if used and isinstance(answer, ExitStatus) and answer.limit is Limit.MEMORY:
                worker = self._take(process_limits, subject, fresh=True)  # what it did before took that, perhaps
                answer = self._ask(worker, _Call(data, limits, process_limits, subject, descriptors))
        if isinstance(answer, ExitStatus):
            if self._closed:
                raise _ended()
            return answer
        kind, payload = answer
        if kind == BYTES:
            return payload
        if kind == DEFECT:
            return ChildException(**json.loads(payload))
        error = error_from_dict(json.loads(payload))
        raise error or DataLoss("the child failed for a reason that this version does not know")

    def _ask(self, worker: _Worker, call: _Call) -> tuple[bytes, bytes] | ExitStatus:
        worker.subjects.append(call.subject)
        kept = False
        try:
            answer = worker.ask(call)
            kept = not isinstance(answer, ExitStatus) and not worker.leaving
        finally:
            with self._lock:
                self._working.discard(worker)
                kept = kept and not self._closed
                if kept:
                    self._idle.append(worker)
            if not kept:
                worker.end()
                self._refill()
        return answer

    def _take(self, process_limits: ProcessLimits, subject: str, *, fresh: bool = False) -> _Worker:
        """A process that waits and was started with as much memory, or a new one."""
        at_start = _at_start(process_limits)
        while True:
            with self._lock:
                if self._closed:
                    raise _ended()
                worker = None if fresh else self._chosen(at_start, subject)
                if worker is not None and worker.process.poll() is None:
                    self._working.add(worker)
                    return worker
            if worker is None:
                break
            worker.end()
        self._end_others(at_start)
        return self._begin_worker(at_start)

    def _chosen(self, at_start: ProcessLimits, subject: str) -> _Worker | None:
        """The waiting process that knows the subject, else the one that worked last."""
        fitting = [worker for worker in self._idle if worker.at_start == at_start]
        if not fitting:
            return None
        chosen = next((worker for worker in fitting if subject and subject in worker.subjects), fitting[-1])
        self._idle.remove(chosen)
        return chosen

    def _end_others(self, at_start: ProcessLimits) -> None:
        """Make room for one more: those that wait and were started with other limits go, and one more where that is not
        enough."""
        with self._lock:
            leaving = [worker for worker in self._idle if worker.at_start != at_start]
            self._idle = [worker for worker in self._idle if worker.at_start == at_start]
            while self._idle and len(self._idle) + len(self._working) >= self._count:
                leaving.append(self._idle.pop(0))
        for worker in leaving:
            worker.end()

    def _begin_worker(self, at_start: ProcessLimits) -> _Worker:
        """A new process that works. One that starts while all are ended is ended too."""
        worker = self._started(at_start)
        with self._lock:
            is_kept = not self._closed
            if is_kept:
                self._working.add(worker)
            leaving = self._supernumerary() if is_kept else [worker]
        for each in leaving:
            each.end()
        if not is_kept:
            raise _ended()
        return worker

    def _supernumerary(self) -> list[_Worker]:
        """The waiting processes that are too many, as one may be that was started ahead while a call began another.
        To be called under the lock."""
        number = max(len(self._idle) + len(self._working) - self._count, 0)
        leaving, self._idle = self._idle[:number], self._idle[number:]
        return leaving

    def _started(self, at_start: ProcessLimits) -> _Worker:
        is_left = False

        def begin() -> _Worker:
            if is_left:  # whoever asked has been refused; it waited here until the system gave a thread after all
                raise _no_thread()
            return _start(self._command, at_start)

        try:
            return self._starter.submit(begin).result()
        except RuntimeError:  # its thread takes no more, or cannot be had
            is_left = True
            raise _ended() if self._closed else _no_thread() from None

    def _refill(self) -> None:
        """Start what is to be there ahead and is not. Where none can be started whoever needs one will say so."""
        if self._ahead_limits is None:
            return
        with contextlib.suppress(OSError, Unavailable):
            while self._is_one_short():
                self._start_one_ahead(_at_start(self._ahead_limits))

    def _is_one_short(self) -> bool:
        """Whether one is to be started, which is counted from now on."""
        with self._lock:
            is_short = not self._closed and len(self._idle) + len(self._working) + self._starting < self._ahead
            self._starting += is_short
        return is_short

    def _start_one_ahead(self, at_start: ProcessLimits) -> None:
        """Start a process without the lock, so that nobody who has a process, or gives one back, waits for this one."""
        leaving: list[_Worker] = []
        try:
            leaving = [self._started(at_start)]
        finally:
            with self._lock:
                self._starting -= 1
                if leaving and not self._closed:
                    self._idle[:0] = leaving
                    leaving = self._supernumerary()
        for worker in leaving:
            worker.end()


def _ended() -> Unavailable:
    return Unavailable("the processes that read modules are being ended")


def _no_thread() -> Unavailable:
    return Unavailable("the system gives no further thread", hint=f"raise the limit: {MORE_THREADS}")


def _at_start(limits: ProcessLimits) -> ProcessLimits:
    """What a process is held to for all its life. Seconds and the answer's size belong to one call."""
    return replace(limits, seconds=0.0, answer=0)


@lru_cache(4)
def _serialized(limits: Limits) -> bytes:
    """The fields as a request has them. To write them takes longer than many a question; most are asked with the same
    ones."""
    return json.dumps(limits._asdict()).encode()


def _hold_back_sigterm() -> None:
    """Block SIGTERM in this thread: processes that it starts inherit that, and so do not die of one that comes before
    ``worker`` ignores it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))


def _start(command: Sequence[str], at_start: ProcessLimits) -> _Worker:
    ours, its = socket.socketpair()
    try:
        with its:
            process = start(
                command, at_start, interpreter_environment(), stdin=its.fileno(), stdout=subprocess.PIPE, bufsize=0
            )
    except BaseException:
        ours.close()
        raise
    return _Worker(process, ours, at_start)


class _ReadUntil:
    """What is read of a pipe in ``seconds`` from now. A thread that ends the reading from outside takes longer to start
    than many a question to answer."""

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._descriptor, self._end = descriptor, time.monotonic() + seconds
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def read(self, size: int) -> bytes:
        """So many bytes, fewer where the pipe ends. Raises TimeoutError."""
        found = bytearray()
        while len(found) < size:
            milliseconds = math.ceil((self._end - time.monotonic()) * 1000)
            if milliseconds <= 0 or not self._poll.poll(milliseconds):
                raise TimeoutError
            piece = os.read(self._descriptor, min(size - len(found), _PIECE))
            if not piece:
                break
            found += piece
        return bytes(found)


class _Call(NamedTuple):
    data: bytes
    limits: Limits
    process_limits: ProcessLimits
    subject: str
    descriptors: Sequence[int]


@dataclass(slots=True, eq=False)
class _Worker:
    """One process, asked through the socket ``requests``; ``at_start`` are the limits that it was started with,
    ``subjects`` what it worked on last. One that is ``leaving`` has given its last answer."""

    process: subprocess.Popen[bytes]
    requests: socket.socket
    at_start: ProcessLimits
    subjects: deque[str] = field(default_factory=lambda: deque(maxlen=_SUBJECTS))
    leaving: bool = False

    def ask(self, call: _Call) -> tuple[bytes, bytes] | ExitStatus:
        """The frame that it answers with: BYTES, ERROR or DEFECT; how it ended where it did not. When time is up it is
        killed."""
        answer, limit = self._exchange(call)
        if answer is not None:
            return answer
        status = self.end()
        return ExitStatus(status, limit or limit_of(status))

    def _exchange(self, call: _Call) -> tuple[tuple[bytes, bytes] | None, Limit | None]:
        """The answer or None, and the limit that was passed where that is known."""
        assert self.process.stdout is not None  # noqa: S101 - asked for in _start
        answers = _ReadUntil(self.process.stdout.fileno(), call.process_limits.seconds)
        self.requests.settimeout(call.process_limits.seconds)
        fields = _serialized(call.limits)
        heads = HEAD.pack(JSON, len(fields)) + fields + HEAD.pack(BYTES, len(call.data))
        with contextlib.suppress(OSError):  # one that ended before it read all may have said why
            socket.send_fds(self.requests, [b"."], list(call.descriptors))
            self.requests.sendall(heads)
            self.requests.sendall(call.data)
        answer_size = call.process_limits.answer
        try:
            frame = read_frame(answers, answer_size)
            if frame is not None and frame[0] == LAST:
                self.leaving = True
                frame = read_frame(answers, answer_size)
        except TimeoutError:
            return None, Limit.SECONDS
        except ValueError:
            return None, Limit.ANSWER
        if frame is None or frame[0] not in (BYTES, ERROR, DEFECT):
            return None, Limit.MEMORY if frame is not None and frame[0] == MEMORY else None
        return frame, None

    def end(self) -> int:
        """Kill it, if it still lives, and give its status back."""
        kill(self.process)
        status = self.process.wait()
        self.requests.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status
