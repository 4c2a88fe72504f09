"""Indexing in processes of their own, so that a large module neither holds up a small question nor takes the daemon with
it: a deadline, a memory limit, and one clear error when a process dies."""

from __future__ import annotations

import json
import logging
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from symd.config import Limits
from symd.errors import DataLoss, DeadlineExceeded, SymdError, Unavailable
from symd.service.worker import ANSWER, LENGTH
from symd.store import failures

log = logging.getLogger(__name__)
_PROGRAM = Path(__file__).with_name("worker.py")


class Workers:
    """Up to ``count`` processes, started when they are first needed and kept. Safe to use from several threads."""

    def __init__(self, count: int = 2) -> None:
        self._turns = threading.BoundedSemaphore(count)
        self._idle: queue.LifoQueue[subprocess.Popen[bytes]] = queue.LifoQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that wait. One that works ends when its work is done."""
        while not self._idle.empty():
            _end(self._idle.get_nowait())

    def build(self, data: bytes, limits: Limits) -> bytes:
        """``engine.build_index`` in one of the processes. Raises what that raises; ``DeadlineExceeded`` after
        ``limits.build_seconds``, waiting for a free process not counted; ``Unavailable`` when the process dies."""
        with self._turns:
            process = self._take(limits)
            try:
                kind, answer = _asked(process, data, limits)
            except BaseException:
                _end(process)
                raise
            self._idle.put(process)
        if kind == b"I":
            return answer
        raise failures.decode(answer.decode()) or DataLoss("failed for a reason that this version does not know")

    def _take(self, limits: Limits) -> subprocess.Popen[bytes]:
        try:
            process = self._idle.get_nowait()
        except queue.Empty:
            return _start(limits)
        return process if process.poll() is None else _start(limits)


def _start(limits: Limits) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", str(_PROGRAM), str(limits.build_memory)]
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise Unavailable(f"no process to index with could be started: {error.strerror}") from error


def _asked(process: subprocess.Popen[bytes], data: bytes, limits: Limits) -> tuple[bytes, bytes]:
    """(kind, answer) of one request. When time is up the process is killed, which ends the reading here."""
    late = threading.Event()

    def cut() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(limits.build_seconds, cut)
    timer.start()
    try:
        answer = _exchange(process, data, asdict(limits))
    except OSError:
        answer = None
    finally:
        timer.cancel()
    if answer is None:
        raise _death(process, limits, late=late.is_set())
    return answer


def _exchange(
    process: subprocess.Popen[bytes], data: bytes, limits: Mapping[str, object]
) -> tuple[bytes, bytes] | None:
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018  # asked for in _start
    for part in (json.dumps(limits).encode(), data):
        process.stdin.write(LENGTH.pack(len(part)))
        process.stdin.write(part)
    process.stdin.flush()
    head = process.stdout.read(ANSWER.size)
    if len(head) < ANSWER.size:
        return None
    kind, length = ANSWER.unpack(head)
    answer = process.stdout.read(length)
    return (kind, answer) if len(answer) == length else None


def _death(process: subprocess.Popen[bytes], limits: Limits, *, late: bool) -> SymdError:
    process.kill()
    status = process.wait()
    if late:
        return DeadlineExceeded(
            f"indexing took longer than {limits.build_seconds:g} s", hint="raise the limit build_seconds"
        )
    how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    log.error("a process that indexed %s", how)
    return Unavailable(f"the process that indexed the module {how}", hint="try again; its memory may have run out")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # what was not written is of no use to a process that is gone
                log.debug("a pipe closed late")
