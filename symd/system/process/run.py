"""A child process from start to end: what it answers and what it prints are read while its time runs."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from symd.system.process import usage
from symd.system.process.cancellation import Cancellation, Cancelled
from symd.system.process.ending import Ending, Limit, limit_of
from symd.system.process.process import ProcessLimits, Running, kill, start
from symd.system.process.starter import Confined

_READ_BYTES: Final = 1 << 16
_PRINTED_BYTES: Final = 1 << 20
"""How much of what a child prints beside its answer is kept: the end of it."""
_CHECK_SECONDS: Final = 0.5
"""Between two questions whether somebody still waits."""
_LAST_WORDS: Final = 300
"""Characters."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A child that has ended: how, what it answered and the last MiB that it printed beside the answer."""

    ending: Ending
    answer: bytes = field(repr=False)
    printed: str = field(repr=False)

    @property
    def last_words(self) -> str:
        """The last line that it printed, at most 300 characters; "" when it printed nothing."""
        return self.printed.strip().rpartition("\n")[2].strip()[:_LAST_WORDS]


def run(
    command: Sequence[str],
    limits: ProcessLimits,
    *,
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    own_pipe: bool = False,
    cancellation: Cancellation | None = None,
    confined: Confined | None = None,
    check_wanted: Callable[[], None] | None = None,
) -> Ended:
    """Run ``command`` in ``folder`` with exactly this environment and input.

    Its standard output is the answer, its standard error what it prints. With ``own_pipe`` the answer comes on a pipe of
    its own, whose descriptor's number is appended to ``command``, and both outputs are what it prints. ``confined`` is who starts it
    with few files and system calls, and which files; it takes no ``own_pipe``. Raises OSError when
    it cannot be started, limited or confined, and Cancelled, with the child ended, when there is a ``cancellation`` and it comes first.
    ``check_wanted`` is called before it is started and now and then while it runs; what it raises ends the child.
    """
    if check_wanted is not None:
        check_wanted()
    with contextlib.ExitStack() as ours:
        with contextlib.ExitStack() as its:
            answers, answer_end = _pipe(ours, its)
            prints, print_end = _pipe(ours, its)
            inputs = _file_of(stdin, its) if stdin else _nothing(its)
            if confined is not None:
                files = (inputs, answer_end, print_end)
                process: Running = confined.start(command, limits, folder, environment, files)
            else:
                process = start(
                    [*command, str(answer_end)] if own_pipe else command,
                    limits,
                    environment,
                    (answer_end,) if own_pipe else (),
                    cwd=folder,
                    stdin=inputs,
                    stdout=print_end if own_pipe else answer_end,
                    stderr=print_end,
                )
        try:
            return _Reader(process, answers, prints, limits, folder, cancellation, check_wanted).until_it_ends()
        finally:
            process.wait()


def _pipe(ours: contextlib.ExitStack, its: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe whose end for reading is ours, without waiting, and whose end for writing is the child's."""
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    its.callback(os.close, writing)
    os.set_blocking(reading, False)
    return reading, writing


def _file_of(data: bytes, its: contextlib.ExitStack) -> int:
    """A file in memory that holds ``data``: unlike a pipe it takes all of it at once."""
    descriptor = os.memfd_create("stdin")
    its.callback(os.close, descriptor)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _nothing(its: contextlib.ExitStack) -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    its.callback(os.close, descriptor)
    return descriptor


class _Reader:
    """Reads both pipes of one child until it ends, by itself or by us."""

    def __init__(
        self,
        process: Running,
        answers: int,
        prints: int,
        limits: ProcessLimits,
        folder: Path,
        cancellation: Cancellation | None,
        check_wanted: Callable[[], None] | None,
    ) -> None:
        self._check_wanted = check_wanted
        self._next_check = math.inf if check_wanted is None else time.monotonic() + _CHECK_SECONDS
        self._process = process
        self._folder = folder
        self._cancellation = cancellation
        self._next_look = time.monotonic() if usage.watched(limits) else math.inf
        self._answers, self._prints = answers, prints
        self._limits = limits
        self._end = time.monotonic() + limits.seconds
        self._answer = bytearray()
        self._printed = bytearray()

    def until_it_ends(self) -> Ended:
        try:
            limit = self._listen()
        finally:
            kill(self._process)
        status = self._process.wait()
        for descriptor in (self._answers, self._prints):
            with contextlib.suppress(
                BlockingIOError
            ):  # nothing is left, and something of the group still holds the pipe
                while not self._too_much() and self._read(descriptor):
                    pass
        if self._too_much():
            limit = Limit.ANSWER
        ending = Ending(status, limit or limit_of(status))
        return Ended(ending, bytes(self._answer), self._printed.decode("utf-8", "replace"))

    def _listen(self) -> Limit | None:
        """Read until the child ends; the limit for which to end it, or None."""
        ended = os.pidfd_open(self._process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for descriptor in (ended, self._answers, self._prints):
                    selector.register(descriptor, selectors.EVENT_READ)
                if self._cancellation is not None:
                    selector.register(self._cancellation, selectors.EVENT_READ)
                while (now := time.monotonic()) < self._end:
                    ready = [
                        key.fd for key, _ in selector.select(min(self._end, self._next_look, self._next_check) - now)
                    ]
                    if ended in ready:
                        return None
                    if self._cancellation is not None and self._cancellation.fileno() in ready:
                        raise Cancelled
                    self._check()
                    for descriptor in ready:
                        if not self._read(descriptor):
                            selector.unregister(descriptor)
                    limit = Limit.ANSWER if self._too_much() else self._looked()
                    if limit is not None:
                        return limit
                return Limit.SECONDS
        finally:
            os.close(ended)

    def _check(self) -> None:
        """Raises where nobody waits any more, when it is time to ask."""
        if self._check_wanted is not None and time.monotonic() >= self._next_check:
            self._check_wanted()
            self._next_check = time.monotonic() + _CHECK_SECONDS

    def _looked(self) -> Limit | None:
        """What it takes of disk and threads, when it is time to look at that."""
        if time.monotonic() < self._next_look:
            return None
        limit = usage.passed(self._process.pid, self._folder, self._limits)
        self._next_look = time.monotonic() + usage.LOOK_SECONDS
        return limit

    def _too_much(self) -> bool:
        return len(self._answer) > self._limits.answer

    def _read(self, descriptor: int) -> bool:
        """Take what is there; False when the other end is closed."""
        data = os.read(descriptor, _READ_BYTES)
        if descriptor == self._answers:
            self._answer += data
        else:
            self._printed += data
            del self._printed[:-_PRINTED_BYTES]
        return bool(data)
