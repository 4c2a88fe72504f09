"""Streams that do not wait (O_NONBLOCK), as a terminal or a pipe is left by another program that has it too: what such a stream does not take at
once Python drops without a word, and reading it fails while nothing has come yet. So symd waits itself. The flag stays as it is, which is the other
programs' as well."""

from __future__ import annotations

import io
import os
import select
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


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
