"""A stand-in of ``symd run``: the folder and the socket that programs hand over to, and records by the layout in docs/capture-protocol.md."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEADER = struct.Struct("<4sHHBBHIQQQQiIQ")
FIELD = struct.Struct("<IIQQ")
LOADED, UNLOADED, FAILED, FOUND = 1, 2, 3, 4
COMMAND, DEVICE, KERNEL, BUILD_LOG, DATA, SOURCE, KEY = 1, 2, 3, 4, 5, 6, 7


@dataclass
class Taken:
    kind: int
    api: int
    way: int
    handle: int
    code: int
    process: int
    lost: int
    fields: dict[int, bytes] = field(default_factory=dict)


def parsed(record: bytes) -> Taken:
    """A record by the layout in handover.h."""
    magic, version, kind, api, way, zero, process, start, image, when, handle, code, lost, size = HEADER.unpack_from(
        record
    )
    assert (magic, version, zero) == (b"symd", 1, 0)
    assert all((start, image, when))
    assert size == len(record) - HEADER.size
    taken, at = Taken(kind, api, way, handle, code, process, lost), HEADER.size
    while at < len(record):
        tag, _, _, length = FIELD.unpack_from(record, at)
        at += FIELD.size
        taken.fields[tag] = record[at : at + length]
        at += length
    return taken


@dataclass
class Run:
    """A stand-in for ``symd run``: the folder, and what comes to the socket in it."""

    folder: Path
    listener: socket.socket

    def records(self) -> list[Taken]:
        """What was handed over by the socket."""
        found = []
        self.listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self.listener.accept()
                with connection:
                    while record := _received(connection):
                        found.append(parsed(record))
        return found

    def spooled(self) -> list[Taken]:
        """What lies in files."""
        return [parsed(path.read_bytes()) for path in sorted((self.folder / "spool").glob("*.record"))]


def _received(connection: socket.socket) -> bytes:
    data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 1)
    if not descriptors:
        return data
    with os.fdopen(descriptors[0], "rb") as stream:
        stream.seek(0)
        return stream.read()


@contextlib.contextmanager
def run_stand_in(folder: Path) -> Iterator[Run]:
    """A run's folder below ``folder``."""
    inner = folder / "run"
    (inner / "spool").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(inner / "socket"))
        listener.listen(64)
        yield Run(inner, listener)
