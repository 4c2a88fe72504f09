"""A connection to a catalogue, SQLite's or PostgreSQL's: how long a thread waits for the lock of writers (no longer
than its caller waits), and checked values from it.

Each column has a type and bounds. A question that names a row with other values gets an error; questions about many
rows go on without it.

A store's folder may be moved away, removed or replaced while it is used, and what is then written by its path is not in
the open catalogue: which file was at a path when it was opened, and whether it still is, says an ``OpenedPath``. A
``CatalogueCopy`` is read where SQLite cannot make the files that it needs beside a catalogue: its disk is full, or
read-only.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from symd.errors import StoreUnavailable
from symd.model.identities import Digest, is_digest
from symd.store.files import disk
from symd.system.private_files import make_temporary_folder, open_to_write, temp_dir

_thread = threading.local()


@contextmanager
def waiting_at_most(seconds: float | None) -> Iterator[None]:
    """Inside, in this thread, changes wait for the catalogue's lock for so many seconds from now at most; None: as long
    as any change may."""
    _thread.until = None if seconds is None else time.monotonic() + seconds
    try:
        yield
    finally:
        _thread.until = None


def patience() -> float | None:
    """The seconds of ``waiting_at_most`` that are left; None outside of it. Only changes that are made for one caller
    ask: an index is made for all who want it, and its rows wait as long as any change may."""
    until: float | None = getattr(_thread, "until", None)
    return None if until is None else max(until - time.monotonic(), 0.0)


log = logging.getLogger("symd.store")
T = TypeVar("T")


class StatementResult(Protocol):
    """What a statement found, read once."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to a catalogue. Parameters are in a query as ``?`` or as ``:name``."""

    def execute(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> StatementResult: ...
    def executemany(self, query: str, parameters: Iterable[Any], /) -> StatementResult: ...


class WrongValue(sqlite3.DatabaseError):
    """A value that symd did not write."""

    sqlite_errorname = "SQLITE_CORRUPT_VALUE"


class Kind(NamedTuple):
    """What a column has: which values symd may have written there. SQLite keeps any value in any column, and PostgreSQL
    any number."""

    name: str
    takes: Callable[[object], bool]


_LARGEST: Final = 1 << 61
"""No count or number of symd's own comes near: one that does would overflow where it is added to."""
LARGEST_FILE: Final = 1 << 50
"""Bytes: file systems and object storages take no larger one."""
LAST_SECOND: Final = 253402300799.0
"""The end of the year 9999: the last that a timestamp of protobuf can say."""
_LONGEST: Final = 1 << 20
_LONGEST_DOCUMENT: Final = 1 << 26
"""Characters."""


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < most


NUMBER: Final = Kind("a count or a number", lambda value: _is_whole(value, 0, _LARGEST))
FILE_SIZE: Final = Kind("a file's size", lambda value: _is_whole(value, 0, LARGEST_FILE + 1))
ANY_NUMBER: Final = Kind("a number of 64 bits", lambda value: _is_whole(value, -(1 << 63), 1 << 63))
MOMENT: Final = Kind("a time", lambda value: isinstance(value, int | float) and 0 <= value <= LAST_SECOND)
TEXT: Final = Kind("a text", lambda value: isinstance(value, str) and len(value) <= _LONGEST)
DOCUMENT: Final = Kind("a document", lambda value: isinstance(value, str) and len(value) <= _LONGEST_DOCUMENT)
DIGEST: Final = Kind("a module's digest", lambda value: isinstance(value, str) and is_digest(value))


def optional(kind: Kind) -> Kind:
    """A kind of value that is either ``kind`` or NULL."""
    return Kind(kind.name, lambda value: value is None or kind.takes(value))


def typed(row: Sequence[Any], *kinds: Kind) -> Sequence[Any]:
    """The row, where its values are of these kinds. Raises ``WrongValue``."""
    for value, kind in zip(row, kinds, strict=True):
        if not kind.takes(value):
            raise WrongValue(f"a value {ascii(value)[:40]} is where {kind.name} belongs")
    return row


def digest_of_row(value: object) -> Digest:
    """The digest in a row. Raises ``WrongValue``."""
    (digest,) = typed((value,), DIGEST)
    return Digest(digest)


def of_module(row: Sequence[Any], *kinds: Kind) -> Sequence[Any]:
    """A row that begins with a module's digest, which its error names."""
    digest = digest_of_row(row[0])
    try:
        typed(row[1:], *kinds)
    except WrongValue as error:
        raise WrongValue(f"in a row of module {digest} {error}") from error
    return row


_logged: set[str] = set()
_MAX_LOGGED: Final = 1000
"""Errors that are remembered as logged."""


def log_wrong(error: WrongValue) -> None:
    """Log once that a row is left out."""
    if str(error) not in _logged:
        if len(_logged) >= _MAX_LOGGED:
            _logged.clear()
        _logged.add(str(error))
        log.error("a row of the catalogue is left out: %s (symd store check names all such rows)", error)


def readable(
    found: Iterable[Sequence[Any]],
    value: Callable[[Sequence[Any]], T],
    wrong: Callable[[WrongValue], None] = log_wrong,
) -> Iterator[T]:
    """What ``value`` makes of each row; those of which it raises ``WrongValue`` are left out, and ``wrong`` is told."""
    for row in found:
        try:
            yield value(row)
        except WrongValue as error:
            wrong(error)


class OpenedPath:
    """A file or a folder that is held open, so that no other gets its number. Safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._path = path
        # to close any other descriptor of a catalogue would give up SQLite's locks (fcntl(2))
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self._close = weakref.finalize(self, os.close, handle)
        self._status = os.fstat(handle)

    def close(self) -> None:
        """Hold it open no longer. Harmless when repeated."""
        self._close()

    def change(self) -> str:
        """What has become of it, for a person; "" where it is still at its path. Raises OSError."""
        try:
            status = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "was moved away or removed"
        return "" if os.path.samestat(status, self._status) else "was replaced by another"


_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder is private
_PREFIX = "symd-catalogue-"
_PIECE = 1 << 20
"""Bytes that are copied at a time."""


class CatalogueCopy:
    """A copy of a catalogue that cannot be opened where it is. ``path`` is the copy. It goes with this object."""

    def __init__(self, original: Path, error: StoreUnavailable, copy: Callable[[Path, Path], None]) -> None:
        """``original`` must not be open in this process; ``error`` is why it cannot be; ``copy`` copies it. Raises
        ``StoreUnavailable``."""
        self._error = error
        try:
            self._copy_to(_SHARED_MEMORY, original, copy)
        except StoreUnavailable:  # it is not there, or full
            self._copy_to(temp_dir(), original, copy)

    def _copy_to(self, place: Path, original: Path, copy: Callable[[Path, Path], None]) -> None:
        with disk(place):
            folder = make_temporary_folder(place, _PREFIX)
            try:
                self.path = folder.path / original.name
                copy(original, self.path)
            except BaseException:
                folder.remove()
                raise
        self._remove = weakref.finalize(self, folder.remove)

    def unwritable(self) -> StoreUnavailable:
        """Why nothing can be written, for one caller."""
        error = self._error
        return StoreUnavailable(error.message, where=error.where, hint=error.hint, metadata=error.metadata)

    def remove(self) -> None:
        """Harmless when repeated. Who has it open goes on reading."""
        self._remove()


def copy_with_log(original: Path, to: Path) -> None:
    """Copy a catalogue's file and its log of writes, byte by byte, for this user alone: right as long as nobody writes.
    The log comes first: whoever closes the catalogue meanwhile brings it into the file, where it does no harm again.
    Raises OSError."""
    for suffix in ("-wal", ""):
        with (
            suppress(FileNotFoundError),
            Path(f"{original}{suffix}").open("rb") as file,
            open_to_write(Path(f"{to}{suffix}")) as target,
        ):
            shutil.copyfileobj(file, target, _PIECE)
