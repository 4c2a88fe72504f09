"""A folder of captures: the bytes of each module once, in ``modules/SHA256``, and the events in ``captures.jsonl``, one
JSON object a line. docs/capture-protocol.md describes its keys.

Several runs may share a folder: each line is written at once, under a lock. An unfinished line of a killed process was
never acknowledged, and the next process to open the folder cuts it off.

The folder may hold what somebody else put there: no link is followed, nothing is waited for, and a list that symd did
not write is left alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from enum import Enum
from operator import index
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

from symd.errors import DataLoss, InvalidInput, LimitExceeded, StoreUnavailable, SymdError
from symd.model.addresses import DeviceAddress
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureEvent,
    CaptureWay,
    FailedBuild,
    ModuleForm,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)
from symd.system.atomic_output import make_inside, open_inside
from symd.system.messages import os_error_text
from symd.system.private_files import make_folder, private_lock
from symd.system.symlinks import resolved, still_resolved

EVENTS: Final = "captures.jsonl"
MODULES: Final = "modules"
SOURCES: Final = "sources"
"""Source texts that lines name, where ``symd run --debug-lines`` asked for them."""
LOCK: Final = ".lock"
_TAIL_BYTES: Final = 1 << 16
_APPENDING: Final = os.O_RDWR | os.O_APPEND
_SAFELY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NO_FILE: Final = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
"""What open(2) says with these flags of a link, a folder, a socket."""


_UNBOUNDED: Final = 1 << 60
"""Bytes that no disk has room for."""


class FolderSink:
    """Keeps events in a folder, which is made where it is not there. Raises StoreUnavailable where the disk refuses,
    InvalidInput where the folder has another's ``captures.jsonl``, FailedPrecondition where another user's link leads
    there (``system.symlinks.resolved``)."""

    def __init__(
        self, folder: Path, most: int = _UNBOUNDED, *, follow_links: bool = True, private: bool = False
    ) -> None:
        """``most`` bytes are added at the most, ``Limits.capture_bytes``: beyond, ``take`` raises LimitExceeded.
        Without ``follow_links`` the folder was resolved before, and FailedPrecondition is raised where a link is on
        the way now. ``private``: nobody named the folder, and nobody else may open it where it is made."""
        self._room = most
        try:
            self.folder = folder = resolved(folder) if follow_links else still_resolved(folder)
            if private:
                make_folder(folder, parents=True, exist_ok=True)
            make_inside(folder)
            self._modules = own_folder(folder / MODULES)
            self._events = _opened(folder / EVENTS, _APPENDING, open_inside)
            self._file = _identity(self._events)
        except OSError as error:
            raise _unavailable(folder, error) from error
        try:
            with self._locked():
                _check_own(self._events, folder / EVENTS)
                _cut_unfinished_line(self._events)
        except OSError as error:
            self.close()
            raise _unavailable(folder, error) from error
        except InvalidInput:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if _identity(self._events) == self._file:
            os.close(self._events)

    def _reopen(self) -> None:
        """A program that captures itself may close all descriptors, and open its own files under these numbers."""
        if _identity(self._events) != self._file:
            self._events = _opened(self.folder / EVENTS, _APPENDING, open_inside)
            self._file = _identity(self._events)
            _check_own(self._events, self.folder / EVENTS)

    def take(self, event: CaptureEvent) -> None:
        """Write the module's bytes, then the event's line."""
        try:
            data: bytes | None = getattr(event, "data", None)
            digest = "" if data is None else self._keep(data)
            line = (event_line(event, digest) + "\n").encode()
            self._take_room(len(line))
            self._reopen()
            with self._locked():
                written = os.write(self._events, line)
                if written < len(line):
                    os.ftruncate(self._events, os.fstat(self._events).st_size - written)
                    raise StoreUnavailable("there is no room for an event", where=str(self.folder / EVENTS))
        except OSError as error:
            raise _unavailable(self.folder, error) from error

    def _take_room(self, size: int) -> None:
        if size > self._room:
            raise LimitExceeded(
                "the run has captured all that it may",
                where=str(self.folder),
                hint="raise it with --limit capture_bytes=NUMBER",
                metadata={"limit": "capture_bytes"},
            )
        self._room -= size

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return private_lock(self.folder / LOCK)  # the list itself others may read, and so lock

    def _keep(self, data: bytes) -> str:
        """The module's digest, after its file is there."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._modules / digest
        if path.exists():
            return digest
        self._take_room(len(data))
        partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with os.fdopen(open_inside(partial, os.O_WRONLY | os.O_EXCL), "wb") as stream:
                stream.write(data)
            partial.rename(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        return digest


def own_folder(folder: Path) -> Path:
    """Where a folder inside one of captures leads, which is made where it is not there. Raises OSError,
    FailedPrecondition where another user's link leads there, InvalidInput where it is another user's, who could put a
    link in its place."""
    place = resolved(folder)
    make_inside(place)
    owner = place.lstat().st_uid  # of a link that was put there while it was made, its own
    if owner not in (os.geteuid(), 0):
        raise _foreign(f"it is user {owner}'s, and another user's folder is not written in", folder)
    return place


def events_of(
    folder: Path, start: int = 0, damaged: Callable[[SymdError], None] | None = None
) -> Iterator[tuple[CaptureEvent, int]]:
    """The events of a folder from the byte ``start`` of its list on, each with the byte behind its line. A last line
    without its end is not there yet. ``damaged`` is told of lines that are no events, and they are passed over.

    Raises StoreUnavailable where there is no such folder, InvalidInput where its list is no file, DataLoss for a line
    that is no event or a module that is gone or another.
    """
    try:
        with open(_opened(folder / EVENTS, os.O_RDONLY), "rb") as lines:
            lines.seek(start)
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                start += len(line)
                try:
                    event = event_of_line(line.decode("ascii", "replace"), lambda digest: _module(folder, digest))
                except SymdError as error:
                    located = error.prefix_where(f"{folder / EVENTS}, byte {start - len(line)}")
                    if damaged is None:
                        raise located from None
                    damaged(located)
                else:
                    yield event, start
    except OSError as error:
        raise _unavailable(folder, error) from error


def _module(folder: Path, digest: str) -> bytes:
    if len(digest) != 64 or not digest.isalnum():
        raise DataLoss(f"{digest[:80]!r} is not a SHA-256")
    try:
        with open(_opened(folder / MODULES / digest, os.O_RDONLY), "rb") as stream:
            data = stream.read()
    except (FileNotFoundError, InvalidInput):
        raise DataLoss(f"module {digest} is gone") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise DataLoss(f"module {digest} has other bytes than it had")
    return data


def _opened(path: Path, flags: int, open_file: Callable[[Path, int], int] = os.open) -> int:
    """A descriptor of a regular file. Raises OSError, InvalidInput where something else is there."""
    try:
        descriptor = open_file(path, flags | _SAFELY)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise _foreign("it is a link or not a regular file", path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _foreign("it is not a regular file", path)
    return descriptor


def _check_own(descriptor: int, path: Path) -> None:
    """Raises InvalidInput for a list that another user owns, or that does not begin as symd's do."""
    owner = os.fstat(descriptor).st_uid
    if owner not in (os.geteuid(), 0):
        raise _foreign(f"it is user {owner}'s, and another user's list is not written to", path)
    if not begins_event(os.pread(descriptor, _TAIL_BYTES, 0)):
        raise _foreign("it does not begin with an event of symd's, and is left as it is", path)


def _foreign(message: str, path: Path) -> InvalidInput:
    return InvalidInput(message, where=str(path), hint="choose another folder of captures (--out)")


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Which file is open there; None where none is."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _cut_unfinished_line(descriptor: int) -> None:
    """Events are lines: what is behind the last end of a line is no event."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        part = os.pread(descriptor, end - start, start)
        at = part.rfind(b"\n")
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)


def _unavailable(folder: Path, error: OSError) -> StoreUnavailable:
    reason = os_error_text(error)
    return StoreUnavailable(
        f"captures cannot be kept there: {reason}", where=str(error.filename or folder), hint="choose another --out"
    )


_EVENTS: Final[Mapping[str, Callable[..., CaptureEvent]]] = MappingProxyType(
    {
        "module-loaded": ModuleLoaded,
        "module-found": ModuleFound,
        "module-unloaded": ModuleUnloaded,
        "build-failed": FailedBuild,
        "process-ended": ProcessEnded,
    }
)
_NAMES: Final = MappingProxyType({cls: name for name, cls in _EVENTS.items()})
_BEGINNINGS: Final = tuple(f'{{"event": "{name}", '.encode() for name in _EVENTS)
"""How ``event_line`` begins."""
_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "process": lambda each: CapturedProcess(
            str(each["host"]),
            int(each["process"]),
            int(each["start_time"]),
            tuple(map(str, each["command"])),
            str(each.get("boot", "")),
        ),
        "api": CaptureApi,
        "way": CaptureWay,
        "form": ModuleForm,
        "kernels": lambda each: tuple(map(str, each)),
        "addresses": lambda each: {str(name): DeviceAddress(int(value)) for name, value in each.items()},
        "handle": index,
        "time": index,
        "code": index,
        "load_base": index,
        "device": str,
        "source": str,
        "build_log": str,
    }
)
"""How the values of fields are made of JSON."""


def event_line(event: CaptureEvent, digest: str = "") -> str:
    """One line without its end. The bytes of a module are named by ``sha256`` and ``size``; ``digest`` is the first
    where it is known."""
    written: dict[str, Any] = {"event": _NAMES[type(event)]}
    for each in fields(event):
        value = getattr(event, each.name)
        if each.name == "data":
            written |= {"sha256": digest or hashlib.sha256(value).hexdigest(), "size": len(value)}
        else:
            written[each.name] = _plain(value)
    return json.dumps(written, ensure_ascii=True, separators=(", ", ": "))


def begins_event(data: bytes) -> bool:
    """Whether ``data`` is the beginning of an event's line, however much or little there is of it."""
    return any(data.startswith(each) or each.startswith(data) for each in _BEGINNINGS)


def event_of_line(line: str, read: Callable[[str], bytes]) -> CaptureEvent:
    """The event that a line was written of; ``read`` gives a module's bytes by their SHA-256. Raises DataLoss for
    another line."""
    try:
        written = json.loads(line)
        cls = _EVENTS[written["event"]]
        values = {
            each.name: read(written["sha256"]) if each.name == "data" else _value(each, written[each.name])
            for each in fields(cls)  # type: ignore[arg-type]
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DataLoss(f"it is not an event: {line[:80]!r}") from error
    return cls(**values)


def _value(field: Field[Any], written: Any) -> Any:
    return None if written is None and field.default is None else _VALUES[field.name](written)


def _plain(value: Any) -> Any:
    if isinstance(value, CapturedProcess):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Enum):
        return value.value
    return dict(value) if isinstance(value, Mapping) else value
