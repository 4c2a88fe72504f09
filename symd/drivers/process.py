"""One child process from start to end: its answer and its chatter are read while a deadline runs, and its whole process
group is gone afterwards, whatever happened."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CHUNK: Final = 1 << 16
_TAIL: Final = 4096


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended. ``status`` is its exit status, or minus the signal that ended it; ``cut`` says that this side
    ended it ("deadline", "size"; "" when not); ``answer`` is what it wrote, ``chatter`` the last it printed."""

    status: int
    cut: str
    answer: bytes
    chatter: str


def run(command: Sequence[str], *, environment: Mapping[str, str], folder: Path, seconds: float, largest: int) -> Ended:
    """Run ``command`` plus one argument, the number of the descriptor on which it answers.

    It gets ``seconds`` and may answer with ``largest`` bytes. Raises OSError when it cannot be started.
    """
    reader, writer = os.pipe()
    try:
        process = _start([*command, str(writer)], environment, folder, writer)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    with process, os.fdopen(reader, "rb", buffering=0) as answers:
        return _Conversation(process, answers.fileno(), largest).until(time.monotonic() + seconds)


def _start(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, writer: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(writer,),
        start_new_session=True,
    )


class _Conversation:
    """Reads both pipes of one child until it ends, by itself or by us."""

    def __init__(self, process: subprocess.Popen[bytes], answers: int, largest: int) -> None:
        assert process.stdout is not None  # noqa: S101  # asked for in _start
        self._process = process
        self._answers = answers
        self._chatters = process.stdout.fileno()
        self._largest = largest
        self._answer = bytearray()
        self._chatter = bytearray()
        for descriptor in (self._answers, self._chatters):
            os.set_blocking(descriptor, False)

    def until(self, deadline: float) -> Ended:
        cut = self._listen(deadline)
        # The child is not reaped yet, so its group's number cannot belong to anybody else.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        self._drain(self._answers)
        self._drain(self._chatters)
        return Ended(status, cut, bytes(self._answer), self._chatter.decode("utf-8", "replace"))

    def _listen(self, deadline: float) -> str:
        """Read until the child ends; the reason for ending it, or ""."""
        end = os.pidfd_open(self._process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for descriptor in (end, self._answers, self._chatters):
                    selector.register(descriptor, selectors.EVENT_READ)
                while (left := deadline - time.monotonic()) > 0:
                    ready = [key.fd for key, _ in selector.select(left)]
                    if end in ready:
                        return ""
                    for descriptor in ready:
                        if not self._read(descriptor):
                            selector.unregister(descriptor)
                    if len(self._answer) > self._largest:
                        return "size"
                return "deadline"
        finally:
            os.close(end)

    def _drain(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(self._answer) <= self._largest and self._read(descriptor):
                pass

    def _read(self, descriptor: int) -> bool:
        """Take what is there; False when the other end is closed."""
        data = os.read(descriptor, _CHUNK)
        if descriptor == self._answers:
            self._answer += data
        else:
            self._chatter += data
            del self._chatter[:-_TAIL]
        return bool(data)
