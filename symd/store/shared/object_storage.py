"""The protocols of an object storage and of the cache of its files on this machine; an object storage that is a folder
(``file:///FOLDER``, such as a network file system); and the choice of a storage by its URL (``s3://BUCKET/PREFIX`` is
the other kind).

The name of an object is a relative path of lower-case letters, digits, dots, dashes and slashes, such as
``modules/ab/<sha256>`` or ``index/<format version>/ab/<sha256>.idx``. It is made of a digest, so everybody who writes
an object of that name writes the same bytes.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from io import BufferedReader
from itertools import groupby
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from symd.config import Limits
from symd.errors import DataLoss, FailedPrecondition, InvalidInput, LimitExceeded, StoreUnavailable, extra_hint
from symd.index import VERSION
from symd.index.format import decode
from symd.model.identities import Digest, is_digest
from symd.store.files import NOT_MADE, IncomingFile, disk, make_folder, open_file, size_of, sweep
from symd.store.folder import check_private
from symd.system.private_files import open_to_write

_NAME: Final = re.compile(r"[a-z0-9-][a-z0-9.-]*(/[a-z0-9-][a-z0-9.-]*)*")
_MODULES: Final = "modules/"
_INDEXES: Final = f"index/{VERSION}/"


def checked_name(name: str) -> str:
    """``name`` itself where it may be one; anything else raises ``InvalidInput``. No part of a name begins with a dot,
    so that none leads out of a folder."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} is not the name of an object", hint="lower-case letters, digits, dots, dashes, slashes"
        )
    return name


def promised_digest(name: str) -> Digest | None:
    """The SHA-256 of the bytes that have this name, where it says so: it is a module's."""
    last = name.rpartition("/")[2]
    return last if name.startswith(_MODULES) and is_digest(last) else None


def is_of_module(name: str, digest: Digest) -> bool:
    """Whether a name is that of a module's bytes, or of an index of it."""
    folder, _, last = name.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (
        (last == digest and folder == f"modules/{digest[:2]}")
        or (last == f"{digest}.idx" and bool(re.fullmatch(rf"index/[0-9]+/{digest[:2]}", folder)))
    )


def keeps_promise(name: str, file: BufferedReader) -> bool:
    """Whether a file's bytes are what its name promises: a module's have that digest, and an index of the format that
    this symd writes is whole by its own checksum. Other names promise nothing."""
    digest = promised_digest(name)
    if digest is not None:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest
    if not name.startswith(_INDEXES):
        return True
    size = os.fstat(file.fileno()).st_size
    try:
        decode(memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)) if size else b"")
    except DataLoss:
        return False
    return True


ASKED_AT_A_TIME: Final = 16
"""Requests for sizes that are made at a time: nearly all of it is waiting for the storage."""
LISTED_FROM: Final = 12
"""From this many names in one folder on, the folder is listed, and they are not asked for one by one: a list costs
as much as so many questions, and names a thousand objects."""


def check_size(name: str, size: int, most: int) -> None:
    """Raises ``LimitExceeded`` for an object of more than ``most`` bytes."""
    if size > most:
        raise LimitExceeded(f"the object has {size} bytes, at most {most} are fetched", where=name)


class ObjectStorage(Protocol):
    """Files by name, outside of this machine. Safe to use from several threads.

    Every method ends within a bounded time, tries again what may do the next time, and raises ``StoreUnavailable``,
    with the cause and what to do about it, where the storage cannot be reached, refuses or fails.
    """

    def put(self, name: str, path: Path) -> None:
        """Keep the file ``path`` under a name: whole or not at all. Where the name is there already the bytes are the
        same."""

    def fetch(self, name: str, path: Path, most: int) -> bool:
        """Write what has that name to the file ``path``, which is made where it is not there, and written anew, not
        replaced, where it is. False, and nothing is written, where nothing has the name. After an error the file may
        hold a part. Raises ``LimitExceeded``, before anything is written, where it has more than ``most`` bytes."""

    def size(self, name: str) -> int | None:
        """Bytes of what has that name; None where nothing has."""

    def remove(self, name: str) -> None:
        """Forget a name. Harmless where nothing has it."""

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Every name that begins with ``prefix``, and the bytes of each, in the order of the names."""


def sizes(storage: ObjectStorage, names: Sequence[str]) -> dict[str, int]:
    """Bytes of those of ``names`` that the storage has now. Many are asked for at a time: single names, or lists of the
    folders of which there are many. Raises ``StoreUnavailable``, whose metadata then has ``storage``."""

    def of_folder(folder: str, wanted: Sequence[str]) -> dict[str, int]:
        if len(wanted) < LISTED_FROM:
            return {name: size for name in wanted if (size := storage.size(name)) is not None}
        among = frozenset(wanted)
        return {name: size for name, size in storage.names(f"{folder}/") if name in among}

    asked: list[tuple[str, Sequence[str]]] = []
    for folder, each in groupby(sorted(set(names)), lambda name: name.rpartition("/")[0]):
        wanted = list(each)
        asked += [(folder, wanted)] if len(wanted) >= LISTED_FROM else [(folder, [name]) for name in wanted]
    try:
        if len(asked) <= 1:
            found = [of_folder(*each) for each in asked]
        else:
            with ThreadPoolExecutor(min(ASKED_AT_A_TIME, len(asked))) as pool:
                found = list(pool.map(lambda each: of_folder(*each), asked))
    except StoreUnavailable as error:
        error.metadata.setdefault("storage", error.where)
        raise
    return {name: size for part in found for name, size in part.items()}


PIECE: Final = 1 << 20
"""Bytes copied at a time."""


class FolderStorage:
    """Each name is a file below ``root``. ``.incoming/`` has what is being written."""

    def __init__(self, root: Path, *, make: bool = True) -> None:
        """If not ``make`` nothing is written, and ``InvalidInput`` is raised where there is no such folder."""
        self._root = root
        self._incoming = root / ".incoming"
        with disk(root):
            if not make and not root.is_dir():
                raise InvalidInput("there is no such folder", where=str(root), hint="give that of the daemons")
            check_private(root)
            if make:
                with disk(root, NOT_MADE):
                    make_folder(self._incoming)
                sweep(self._incoming)
            self._is_known = self._incoming.is_dir()

    def put(self, name: str, path: Path) -> None:
        """``ObjectStorage.put``; on return the file survives a power cut."""
        target = self._path(name)
        with disk(target):
            file = IncomingFile(self._incoming)
            try:
                with os.fdopen(open_file(path), "rb") as source:
                    while piece := source.read(PIECE):
                        file.write(piece)
                file.sync()
                file.publish(target)
            finally:
                file.discard()

    def fetch(self, name: str, path: Path, most: int) -> bool:
        """``ObjectStorage.fetch``."""
        source = self._path(name)
        with disk(source):
            try:
                handle = open_file(source)
            except (FileNotFoundError, NotADirectoryError):
                self._check_in_place()
                return False
            with os.fdopen(handle, "rb") as found:
                check_size(name, os.fstat(handle).st_size, most)
                with disk(path), open_to_write(path) as target:
                    shutil.copyfileobj(found, target, PIECE)
        return True

    def size(self, name: str) -> int | None:
        """``ObjectStorage.size``."""
        path = self._path(name)
        with disk(path):
            try:
                size = size_of(path)
            except NotADirectoryError:
                size = None
            if size is None:
                self._check_in_place()
            return size

    def remove(self, name: str) -> None:
        """``ObjectStorage.remove``."""
        path = self._path(name)
        with disk(path), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            path.unlink()

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """``ObjectStorage.names``."""
        with disk(self._root):
            self._check_in_place()
            yield from _files(self._root, "", prefix)

    def _check_in_place(self) -> None:
        """Raises ``StoreUnavailable`` where the folder, which was opened, is not there any more: nothing in it is
        lost."""
        if self._is_known and not self._incoming.is_dir():
            raise StoreUnavailable(
                "the folder of the object storage is not what it was: it has no .incoming any more",
                where=str(self._root),
                hint="mount it again, or put it back",
                metadata={"storage": str(self._root)},
            )

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)


def _files(folder: Path, above: str, prefix: str) -> Iterator[tuple[str, int]]:
    """The files below ``folder`` whose names begin with ``prefix``, in the order of their names, which begin with
    ``above``."""
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not entry.name.startswith(".")]
    except FileNotFoundError:
        return  # it was removed meanwhile
    named = sorted((f"{above}{entry.name}{'/' if entry.is_dir() else ''}", entry) for entry in entries)
    for name, entry in named:
        if entry.is_dir():
            if name.startswith(prefix) or prefix.startswith(name):
                yield from _files(Path(entry.path), name, prefix)
        elif name.startswith(prefix) and (size := size_of(Path(entry.path))) is not None:
            yield name, size


def open_storage(url: str, limits: Limits, *, make: bool) -> ObjectStorage:
    """The storage at ``url``, after it was seen to answer; a folder is made where there is none if ``make``. Raises
    ``InvalidInput`` for a URL that names none, ``FailedPrecondition`` where what it takes is not installed,
    ``StoreUnavailable`` where it cannot be used."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _no_storage(url, parts)
    if parts.scheme == "s3" and parts.hostname:
        if find_spec("obstore") is None:
            raise FailedPrecondition(
                "s3:// takes obstore, which is not installed", where=url, hint=extra_hint("shared")
            )
        from symd.store.shared.s3_storage import S3Storage  # noqa: PLC0415 - obstore is an extra, and takes 40 ms

        storage = S3Storage(parts.netloc, unquote(parts.path).strip("/"), limits)
        storage.check()
        return storage
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return FolderStorage(Path(unquote(parts.path)), make=make)
    raise _no_storage(url, parts)


def _no_storage(url: str, parts: SplitResult) -> InvalidInput:
    shown = url if parts.password is None else f"{parts.scheme}://…"  # no secret comes into a log
    return InvalidInput(
        f"{shown[:200]!r} names no object storage",
        hint="write s3://BUCKET/PREFIX, with credentials and the endpoint in AWS_* variables, or file:///FOLDER",
    )
