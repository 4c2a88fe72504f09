"""A store looked through, byte by byte, without changing it: what is wrong, and what to do about it.

Others may be at work in the same store. What they are in the middle of is no finding: each suspicion is looked at again
while nobody writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from symd.errors import DataLoss
from symd.index import VERSION
from symd.index.format import decode
from symd.index.schema import Columns
from symd.model.identities import Digest, is_digest
from symd.store.catalogue import existing, migrate, older_schema, translated
from symd.store.files import abandoned, disk, mapped, sha256_of
from symd.store.folder import StorePaths, check_owner, look
from symd.store.recovery import copy_of_catalogue, fault_of
from symd.system.private_files import temporary_folder


class FindingKind(StrEnum):
    """What may be wrong with a store."""

    CATALOGUE = "damaged-catalogue"
    NO_CATALOGUE = "no-catalogue"
    MODULE = "damaged-module"
    SET_ASIDE = "module-set-aside"
    NO_FILE = "row-without-file"
    NO_ROW = "file-without-row"
    INDEX = "damaged-index"
    STRAY_INDEX = "index-without-module"
    LEFTOVER = "leftover"
    UNKNOWN = "unknown-file"


_REPAIR = "symd store repair"
ADVICE: Mapping[FindingKind, str] = {
    FindingKind.CATALOGUE: f"{_REPAIR}, or the next start, puts the last good copy in its place and adds the modules that are not in it",
    FindingKind.NO_CATALOGUE: f"{_REPAIR} makes one from the modules",
    FindingKind.MODULE: f"{_REPAIR} sets the file aside; adding the module again mends it",
    FindingKind.SET_ASIDE: "add the module again, delete it, or let symd store gc --damaged remove what was set aside",
    FindingKind.NO_FILE: f"{_REPAIR} drops the row; add the module again",
    FindingKind.NO_ROW: f"{_REPAIR} takes it into the catalogue when its bytes are right, or sets it aside",
    FindingKind.INDEX: f"{_REPAIR} removes it; it is made again when it is needed",
    FindingKind.STRAY_INDEX: f"{_REPAIR} removes it",
    FindingKind.LEFTOVER: "symd store gc removes it",
    FindingKind.UNKNOWN: "symd leaves it alone; move it away",
}


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """Something wrong: what, the file below the store's folder or the digest that it is about, and how one sees it."""

    kind: FindingKind
    subject: str
    problem: str

    @property
    def advice(self) -> str:
        return ADVICE[self.kind]


@dataclass(slots=True)
class Inspection:
    """What was looked at, and what is wrong."""

    modules: int = 0
    module_bytes: int = 0
    indexes: int = 0
    index_bytes: int = 0
    aliases: int = 0
    contexts: int = 0
    older_schema: int = 0
    """The schema's version of a catalogue that an older symd wrote and the next start takes to today's; 0 where it
    is today's."""
    findings: list[StoreFinding] = field(default_factory=list)


Progress = Callable[[int, int], None]
"""Called with how many bytes have been read, and of how many."""


def inspect(root: Path, progress: Progress | None = None) -> Inspection:
    """Read every byte of the store in the folder ``root``. Raises ``InvalidInput`` where there is no store,
    ``FailedPrecondition`` to whoever is neither root nor its owner, and ``StoreUnavailable``."""
    paths = StorePaths(root)
    with disk(root):
        if os.geteuid():
            check_owner(root)
        paths.check_store()
        with _readable(paths.catalogue) as catalogue:
            return _Inspector(paths, catalogue, progress).inspected()


def index_fault(data: memoryview, digest: Digest) -> str:
    """What is wrong with the bytes of an index of this format version, which should be that of a module; "" where
    nothing is."""
    try:
        columns = decode(data)
        columns.described()
        made_of = columns[Columns.module_sha256.name].tobytes().hex()
    except DataLoss as error:
        return error.message
    return "" if made_of == digest else f"is the index of another module, {made_of or 'which it does not name'}"


class _Readable(NamedTuple):
    """Where a catalogue can be read: it, or a copy; the schema that it had where that is an older one; what is wrong
    where it cannot be taken to today's."""

    path: Path
    older_schema: int = 0
    wrong: str = ""


@contextmanager
def _readable(path: Path) -> Iterator[_Readable]:
    """A catalogue in today's schema: a copy, where the file has an older one, or nothing may be written beside it, for
    SQLite would."""
    schema = older_schema(path)
    if not path.exists() or (not schema and os.access(path.parent, os.W_OK)):
        yield _Readable(path)
        return
    with temporary_folder() as folder:
        copied = folder / path.name
        copy_of_catalogue(path, copied)
        schema = older_schema(copied)
        yield _Readable(copied, schema, _migrated(copied) if schema else "")


def _migrated(path: Path) -> str:
    """Take a copy to today's schema; what is wrong where that cannot be, else ""."""
    try:
        with translated(path), closing(existing(path)) as connection:
            migrate(connection, path)
    except DataLoss as error:
        return error.metadata["fault"]
    return ""


class _Inspector:
    def __init__(self, paths: StorePaths, catalogue: _Readable, progress: Progress | None) -> None:
        self._paths = paths
        self._catalogue = catalogue.path
        self._wrong = catalogue.wrong
        self._progress = progress
        self._found = Inspection(older_schema=catalogue.older_schema)
        self._tree = look(paths)
        self._done, self._all = 0, sum(self._tree.modules.values()) + sum(self._tree.indexes.values())

    def inspected(self) -> Inspection:
        sound = self._look_at_catalogue()
        for digest in sorted(self._tree.modules):
            self._module(digest)
        for digest, version in sorted(self._tree.indexes):
            self._index(digest, version)
        for path in sorted(self._paths.incoming.glob("incoming-*")):
            if abandoned(path):
                self._say(FindingKind.LEFTOVER, path, "is not an upload of a running process")
        if sound:
            self._compare_with_catalogue()
        return self._found

    def _read(self, size: int) -> None:
        self._done += size
        if self._progress is not None:
            self._progress(self._done, self._all)

    def _look_at_catalogue(self) -> bool:
        """Whether there is one and SQLite finds nothing wrong with it."""
        path, there = self._paths.catalogue, self._catalogue.is_file()
        wrong = (self._wrong or fault_of(self._catalogue)) if there else ""
        if not there:
            self._say(FindingKind.NO_CATALOGUE, path, "is not there")
        if wrong:
            self._say(FindingKind.CATALOGUE, path, wrong)
        return there and not wrong

    def _module(self, digest: Digest) -> None:
        path = self._paths.module(digest)
        try:
            size, actual = path.stat().st_size, sha256_of(path)
        except FileNotFoundError:
            return  # removed meanwhile
        self._found.modules += 1
        self._found.module_bytes += size
        self._read(size)
        if actual != digest:
            self._say(FindingKind.MODULE, path, f"has {size} bytes with the SHA-256 {actual}")

    def _index(self, digest: Digest, version: int) -> None:
        path = self._paths.index(digest, version)
        try:
            data = mapped(path)
        except FileNotFoundError:
            return
        self._found.indexes += 1
        self._found.index_bytes += data.nbytes
        self._read(data.nbytes)
        problem = index_fault(data, digest) if version == VERSION else ""  # another symd alone can read it
        if problem:
            self._say(FindingKind.INDEX, path, problem)

    def _compare_with_catalogue(self) -> None:
        """Rows and files, while nobody writes."""
        with translated(self._catalogue), closing(existing(self._catalogue)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._found.aliases = connection.execute("SELECT count(*) FROM aliases").fetchone()[0]
            self._found.contexts = connection.execute("SELECT count(*) FROM contexts").fetchone()[0]
            rows = {digest for (digest,) in connection.execute("SELECT sha256 FROM modules")}
            tree, aside = look(self._paths), self._paths.damaged_modules()
            files = tree.modules.keys()
            for digest in sorted(aside - files):
                self._say(
                    FindingKind.SET_ASIDE, self._paths.damaged_module(digest), "has other bytes than the module had"
                )
            for digest in sorted(rows - files - aside):
                if is_digest(digest):
                    problem = "is not there, and the catalogue has the module"
                    self._say(FindingKind.NO_FILE, self._paths.module(digest), problem)
                else:
                    self._say(FindingKind.NO_FILE, self._catalogue, f"has a module {digest[:80]!r}: that is no SHA-256")
            for digest in sorted(files - rows):
                self._say(FindingKind.NO_ROW, self._paths.module(digest), "is not in the catalogue")
            for digest, version in sorted(tree.indexes):
                if digest not in rows:
                    problem = "is of no module in the catalogue"
                    self._say(FindingKind.STRAY_INDEX, self._paths.index(digest, version), problem)
            connection.execute("ROLLBACK")

    def _say(self, kind: FindingKind, path: Path, problem: str) -> None:
        self._found.findings.append(StoreFinding(kind, str(path.relative_to(self._paths.root)), problem))
