"""Signals and streams of a command's process.

A signal that asks it to end works like Ctrl-C: what the command made for itself is removed first. Streams may be
non-blocking (O_NONBLOCK), as another program that shares the terminal or pipe left them; Python drops without a word
what such a stream does not take at once, and cannot read it before something has come. So symd waits for them itself,
and leaves the flag as it is, since the other program has it too.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)
AWAKE_SECONDS: Final = 1.0
"""How long a command that lasts waits at a time. The system may hand a signal to another thread, or to the main one
just before that begins to wait: what Python does about the signal is done when the main thread runs again."""


class Terminated(SystemExit):
    """The signal of this number came. Event loops let a ``SystemExit`` through."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Raises ``Terminated`` inside where such a signal comes that nobody else handles, and ends the process of that
    signal then. A second one ends it at once. For the main thread."""
    process = os.getpid()

    def end(number: int, _frame: object) -> None:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)
        if os.getpid() == process:
            raise Terminated(number)
        os.kill(os.getpid(), number)  # a process that was forked meanwhile has made nothing

    taken = [number for number in _ENDINGS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    except Terminated as terminated:
        atexit._run_exitfuncs()  # noqa: SLF001 - a signal runs none
        os.kill(process, terminated.number)
        raise


class _PatientFile(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        while (taken := super().write(data)) is None:
            select.select((), (self,), ())
        return taken

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        while (given := super().readinto(buffer)) is None:
            select.select((self,), (), ())
        return given

    def readall(self) -> bytes:
        return b"".join(iter(lambda: read(self.fileno(), io.DEFAULT_BUFFER_SIZE), b""))


def blocking_streams(stream: TextIO) -> TextIO:
    """``stream``, or where it does not wait one in its place that does, in UTF-8."""
    if waits(stream):
        return stream
    if stream.readable():
        raw = _PatientFile(stream.fileno(), closefd=False)
        return io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", errors=stream.errors)
    stream.flush()
    raw = _PatientFile(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors=stream.errors, line_buffering=bool(stream.line_buffering)
    )


def waits(stream: TextIO) -> bool:
    """Whether what the stream does not take is waited for; one that is no file of the system's takes all."""
    try:
        return os.get_blocking(stream.fileno())
    except OSError:
        return True


def read(descriptor: int, size: int) -> bytes:
    """Up to ``size`` bytes of a descriptor, as os.read gives them, once something is there."""
    while True:
        try:
            return os.read(descriptor, size)
        except BlockingIOError:
            select.select((descriptor,), (), ())


def write(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, however often the descriptor takes only a part. Raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select((), (descriptor,), ())
