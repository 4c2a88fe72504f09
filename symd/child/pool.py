"""Processes that are kept warm to call one Python function, for work that may neither hold up this process nor take it down."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from symd.child.ending import Ending, Limit, limit_of
from symd.child.frames import BYTES, ERROR, HEAD, JSON, MEMORY, read_frame
from symd.child.process import ProcessLimits, kill, start
from symd.config import Limits
from symd.errors import DataLoss, from_description

_PROGRAM: Final = Path(__file__).with_name("worker.py")


class Pool:
    """Up to ``count`` processes, started when they are first needed and kept. Safe to use from several threads.

    ``function`` is "package.module:name"; it is called there as ``name(data: bytes, limits: Limits) -> bytes``.
    """

    def __init__(self, function: str, count: int) -> None:
        self._command = (sys.executable, "-P", str(_PROGRAM), function)
        self._turns = threading.BoundedSemaphore(count)
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()

    def close(self) -> None:
        """End the processes that wait. One that works ends when its work is done."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().end()

    def call(self, data: bytes, limits: Limits, process_limits: ProcessLimits) -> bytes | Ending:
        """What the function returns, or how the process ended that should have called it. Time begins to count when a
        process is free.

        Raises the SymdError that the function raises, and OSError when no process can be started.
        """
        with self._turns:
            worker = self._take(process_limits)
            try:
                answer = worker.ask(data, limits, process_limits)
            except BaseException:
                worker.end()
                raise
            if isinstance(answer, Ending):
                return answer
            self._idle.put(worker)
        kind, payload = answer
        if kind == BYTES:
            return payload
        error = from_description(json.loads(payload))
        raise error or DataLoss("the child failed for a reason that this version does not know")

    def _take(self, process_limits: ProcessLimits) -> _Worker:
        """A process that waits and was started with as much memory, or a new one."""
        with contextlib.suppress(queue.Empty):
            while True:
                worker = self._idle.get_nowait()
                if worker.memory == process_limits.memory and worker.process.poll() is None:
                    return worker
                worker.end()
        process = start(self._command, process_limits, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return _Worker(process, process_limits.memory)


@dataclass(frozen=True, slots=True)
class _Worker:
    """One process; ``memory`` is the limit that it was started with."""

    process: subprocess.Popen[bytes]
    memory: int

    def ask(self, data: bytes, limits: Limits, process_limits: ProcessLimits) -> tuple[bytes, bytes] | Ending:
        """The frame that it answers with, BYTES or ERROR; how it ended where it did not. When time is up it is killed, which
        ends the reading here."""
        late = threading.Event()

        def cut() -> None:
            late.set()
            kill(self.process)

        timer = threading.Timer(process_limits.seconds, cut)
        timer.start()
        try:
            answer, limit = self._exchange(data, limits, process_limits.answer)
        finally:
            timer.cancel()
            timer.join()
        if answer is not None and not late.is_set():
            return answer
        status = self.end()
        return Ending(status, Limit.SECONDS if late.is_set() else limit or limit_of(status))

    def _exchange(self, data: bytes, limits: Limits, largest: int) -> tuple[tuple[bytes, bytes] | None, Limit | None]:
        """The answer or None, and the limit that was passed where that is known."""
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: S101, PT018  # asked for in _take
        with contextlib.suppress(OSError):  # one that ended before it read all may have said why
            for kind, payload in ((JSON, json.dumps(asdict(limits)).encode()), (BYTES, data)):
                self.process.stdin.write(HEAD.pack(kind, len(payload)))
                self.process.stdin.write(payload)
            self.process.stdin.flush()
        try:
            frame = read_frame(self.process.stdout, largest)
        except ValueError:
            return None, Limit.ANSWER
        if frame is None or frame[0] not in (BYTES, ERROR):
            return None, Limit.MEMORY if frame is not None and frame[0] == MEMORY else None
        return frame, None

    def end(self) -> int:
        """Kill it, if it still lives, and give its status back."""
        kill(self.process)
        status = self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was not written is of no use to a process that is gone
                    stream.close()
        return status
