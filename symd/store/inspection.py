"""A store looked through, byte by byte, without changing it: what is wrong, and what to do about it.

Others may be at work in the same store. What they are in the middle of is no finding: each suspicion is looked at again
while nobody writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from symd.errors import DataLoss
from symd.index.format import VERSION, decode
from symd.index.schema import Columns
from symd.model.identities import Digest
from symd.store.catalogue import existing, newest, translated
from symd.store.files import abandoned, disk, mapped, sha256_of, size_of
from symd.store.paths import StorePaths
from symd.store.rebuild import faults


class Kind(StrEnum):
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


_REPAIR = "symd store repair"
ADVICE: Mapping[Kind, str] = {
    Kind.CATALOGUE: f"{_REPAIR} makes it again from what can be read of it and from the modules",
    Kind.NO_CATALOGUE: f"{_REPAIR} makes one from the modules",
    Kind.MODULE: f"{_REPAIR} sets the file aside; adding the module again mends it",
    Kind.SET_ASIDE: "add the module again, or delete it",
    Kind.NO_FILE: f"{_REPAIR} drops the row; add the module again",
    Kind.NO_ROW: f"{_REPAIR} takes it into the catalogue when its bytes are right, or sets it aside",
    Kind.INDEX: f"{_REPAIR} removes it; it is made again when it is needed",
    Kind.STRAY_INDEX: f"{_REPAIR} removes it",
    Kind.LEFTOVER: "symd store gc removes it",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: what, the file below the store's folder or the digest that it is about, and how one sees it."""

    kind: Kind
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
    findings: list[Finding] = field(default_factory=list)


def inspect(root: Path) -> Inspection:
    """Read every byte of the store in the folder ``root``. Raises ``InvalidInput`` where there is none, and
    ``StoreUnavailable``."""
    paths = StorePaths(root)
    paths.check_store()
    with disk(root):
        return _Inspector(paths).inspected()


class _Inspector:
    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths
        self._found = Inspection()

    def inspected(self) -> Inspection:
        sound = self._look_at_catalogue()
        for digest in sorted(self._paths.all_modules()):
            self._module(digest)
        for digest, version in sorted(self._paths.all_indexes()):
            self._index(digest, version)
        for path in sorted(self._paths.incoming.iterdir()):
            if abandoned(path):
                self._say(Kind.LEFTOVER, path, "is no upload of a process that runs")
        if sound:
            self._compare_with_catalogue()
        return self._found

    def _look_at_catalogue(self) -> bool:
        """Whether there is one and SQLite finds nothing wrong with it."""
        path = newest(self._paths.root)
        wrong = faults(path) if path.exists() else []
        if not path.exists():
            self._say(Kind.NO_CATALOGUE, path, "is not there")
        if wrong:
            self._say(Kind.CATALOGUE, path, "; ".join(wrong[:3]))
        return path.exists() and not wrong

    def _module(self, digest: Digest) -> None:
        path = self._paths.module(digest)
        try:
            size, actual = size_of(path), sha256_of(path)
        except FileNotFoundError:
            return  # removed meanwhile
        self._found.modules += 1
        self._found.module_bytes += size or 0
        if actual != digest:
            self._say(Kind.MODULE, path, f"has {size} bytes with the SHA-256 {actual}")

    def _index(self, digest: Digest, version: int) -> None:
        path = self._paths.index(digest, version)
        try:
            data = mapped(path)
        except FileNotFoundError:
            return
        self._found.indexes += 1
        self._found.index_bytes += len(data)
        if version != VERSION:
            return  # of another symd, which alone can read it
        try:
            columns = decode(data)
            columns.described()
            made_of = columns[Columns.module_sha256.name].tobytes().hex()
        except DataLoss as error:
            self._say(Kind.INDEX, path, error.message)
            return
        if made_of != digest:
            self._say(Kind.INDEX, path, f"is the index of another module, {made_of or 'which it does not name'}")

    def _compare_with_catalogue(self) -> None:
        """Rows and files, while nobody writes."""
        path = newest(self._paths.root)
        with translated(path), closing(existing(path)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._found.aliases = connection.execute("SELECT count(*) FROM aliases").fetchone()[0]
            self._found.contexts = connection.execute("SELECT count(*) FROM contexts").fetchone()[0]
            rows = {digest for (digest,) in connection.execute("SELECT sha256 FROM modules")}
            files = self._paths.all_modules()
            for digest in sorted(rows - files):
                aside = self._paths.aside(digest)
                if aside.exists():
                    self._say(Kind.SET_ASIDE, aside, "has other bytes than the module had")
                else:
                    self._say(
                        Kind.NO_FILE, self._paths.module(digest), "is not there, and the catalogue has the module"
                    )
            for digest in sorted(files - rows):
                self._say(Kind.NO_ROW, self._paths.module(digest), "is not in the catalogue")
            for digest, version in sorted(self._paths.all_indexes()):
                if digest not in rows:
                    self._say(Kind.STRAY_INDEX, self._paths.index(digest, version), "is of no module in the catalogue")
            connection.execute("ROLLBACK")

    def _say(self, kind: Kind, path: Path, problem: str) -> None:
        self._found.findings.append(Finding(kind, str(path.relative_to(self._paths.root)), problem))
