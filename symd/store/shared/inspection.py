"""A shared store looked through, byte by byte, without changing it: whether the object storage has what the catalogue
names.

Daemons are at work meanwhile. What they are in the middle of is no finding: each suspicion is looked at again, and an
object that is being written or removed stands with the unwanted.

``SharedUrls`` opens such a store, or looks through it, by the URLs of its parts, for ``symd.store.shared``, which
checks the catalogue's first: what is imported here takes packages that may be missing."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from symd.config import Limits
from symd.errors import FailedPrecondition, LimitExceeded
from symd.index import VERSION
from symd.model.identities import Digest, checked_digest
from symd.model.texts import counted
from symd.store.files import mapped, sha256_of
from symd.store.inspection import FindingKind, Inspection, Progress, StoreFinding, index_fault
from symd.store.shared.cached_files import CachedFiles
from symd.store.shared.catalogue import PostgresCatalogue
from symd.store.shared.object_storage import ObjectStorage, open_storage
from symd.store.shared.postgresql import PostgresDatabase
from symd.store.shared.store import SharedStore, index_object, module_object
from symd.system.private_files import temporary_folder

AT_A_TIME: Final = 4
"""Objects that are read at a time: most of it is waiting for the storage."""
_READS: Final = 2
"""How often bytes are fetched that are not those of the name: what spoils some may sit on the way."""
_NAME: Final = re.compile(
    r"modules/([0-9a-f]{2})/(?P<module>\1[0-9a-f]{62})"
    r"|index/(?P<version>[1-9][0-9]{0,8})/([0-9a-f]{2})/(?P<indexed>\4[0-9a-f]{62})\.idx"
)
"""A module, or an index, by the format version and the module's digest."""
_STRAY: Final = "nobody reads it; it can be removed with the storage's own tools"
ADVICE: Final[Mapping[FindingKind, str]] = {
    FindingKind.MODULE: "adding the module again mends it",
    FindingKind.SET_ASIDE: "add the module again, or delete it",
    FindingKind.NO_FILE: "add the module again, or delete it",
    FindingKind.NO_ROW: _STRAY,
    FindingKind.INDEX: "it is made again when it is needed",
    FindingKind.STRAY_INDEX: _STRAY,
    FindingKind.UNKNOWN: "symd leaves it alone; move it away",
}


class SharedFinding(StoreFinding):
    """Something wrong with an object of a shared store."""

    __slots__ = ()

    @property
    def advice(self) -> str:
        return ADVICE[self.kind]


@dataclass(frozen=True, slots=True)
class _Catalogued:
    """What the catalogue says."""

    modules: Mapping[Digest, int]
    indexes: Mapping[tuple[Digest, int], int]
    damaged: frozenset[Digest]


class _Object(NamedTuple):
    """An object that a row names: of a module, or of its index of a format ``version``."""

    name: str
    digest: Digest
    size: int
    version: int | None = None


def inspect_shared(
    catalogue: PostgresCatalogue, storage: ObjectStorage, progress: Progress | None = None
) -> Inspection:
    """Read every object that the catalogue names. Raises ``StoreUnavailable`` where one of the two cannot be reached or
    refuses, or this machine has no room for one object."""
    listed = dict(storage.names(""))
    rows = _Catalogued(catalogue.all_sizes(), catalogue.index_sizes(), frozenset(catalogue.noted_damaged()))
    found = Inspection()
    with catalogue.reading() as connection:
        found.aliases, found.contexts = connection.execute("SELECT aliases, contexts FROM totals").fetchone()
    with temporary_folder() as folder:
        inspector = _Inspector(catalogue, storage, rows, folder)
        objects = list(_objects(rows))
        done, whole = 0, sum(each.size for each in objects)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for each, findings in zip(objects, pool.map(partial(inspector.findings, listed), objects), strict=True):
                _count(found, each)
                found.findings += findings
                done += each.size
                if progress is not None:
                    progress(done, whole)
    found.findings += inspector.strays(listed.keys() - {each.name for each in objects})
    return found


def _objects(rows: _Catalogued) -> Iterator[_Object]:
    for digest, size in sorted(rows.modules.items()):
        yield _Object(module_object(digest), digest, size)
    for (digest, version), size in sorted(rows.indexes.items()):
        yield _Object(index_object(digest, version), digest, size, version)


def _count(found: Inspection, each: _Object) -> None:
    if each.version is None:
        found.modules += 1
        found.module_bytes += each.size
    else:
        found.indexes += 1
        found.index_bytes += each.size


class _Inspector:
    """Collects the findings of an inspection. Safe to use from several threads."""

    def __init__(self, catalogue: PostgresCatalogue, storage: ObjectStorage, rows: _Catalogued, folder: Path) -> None:
        self._catalogue = catalogue
        self._storage = storage
        self._rows = rows
        self._folder = folder

    def findings(self, listed: Mapping[str, int], each: _Object) -> list[SharedFinding]:
        """What is wrong with an object that a row names."""
        missing = each.name not in listed and self._storage.size(each.name) is None
        problem = "is not in the storage" if missing else self._fault(each)
        if problem and not self._is_named(each):
            return []  # it was removed meanwhile
        if each.version is not None:
            return [SharedFinding(FindingKind.INDEX, each.name, problem)] if problem else []
        if each.digest in self._rows.damaged and self._catalogue.is_noted_damaged(each.digest):
            return [SharedFinding(FindingKind.SET_ASIDE, each.name, problem or "was found damaged once")]
        return (
            [SharedFinding(FindingKind.NO_FILE if missing else FindingKind.MODULE, each.name, problem)]
            if problem
            else []
        )

    def strays(self, names: Iterable[str]) -> Iterator[SharedFinding]:
        """The objects that no row named and that nobody is about to write or to remove."""
        for name in sorted(names):
            of = _NAME.fullmatch(name)
            if of is None:
                yield SharedFinding(FindingKind.UNKNOWN, name, "has a name that symd gives to nothing")
                continue
            version = int(of["version"]) if of["version"] else None
            each = _Object(name, checked_digest(of["module"] or of["indexed"]), 0, version)
            if self._is_stray(each):
                kind = FindingKind.NO_ROW if version is None else FindingKind.STRAY_INDEX
                yield SharedFinding(kind, name, "is not in the catalogue")

    def _is_stray(self, each: _Object) -> bool:
        if self._storage.size(each.name) is None or self._catalogue.is_unwanted(each.name):
            return False
        return not self._is_named(each)

    def _is_named(self, each: _Object) -> bool:
        if each.version is None:
            return self._catalogue.has(each.digest)
        return self._catalogue.has_index(each.digest, each.version)

    def _fault(self, each: _Object) -> str:
        """What is wrong with an object's bytes, "" where they are right."""
        problem = ""
        for _ in range(_READS):
            path = self._folder / secrets.token_hex(8)
            try:
                if not self._storage.fetch(each.name, path, each.size):
                    return "is not in the storage"
                problem = _fault_of_file(path, each)
            except LimitExceeded as error:
                return error.message
            finally:
                path.unlink(missing_ok=True)
            if not problem:
                break
        return problem


def _fault_of_file(path: Path, each: _Object) -> str:
    size = path.stat().st_size
    if each.version is None:
        actual = sha256_of(path)
        return "" if actual == each.digest and size == each.size else f"has {size} bytes with the SHA-256 {actual}"
    if size != each.size:
        return f"has {size} bytes, and the catalogue says {each.size}"
    return index_fault(mapped(path), each.digest) if each.version == VERSION else ""  # another symd alone can read it


class SharedUrls:
    """A shared store by its URLs, as ``symd.store.shared.shared_urls`` takes them."""

    def __init__(self, objects: str, catalogue: str, limits: Limits) -> None:
        self._objects, self._catalogue, self._limits = objects, catalogue, limits

    def opened(self, cache: Path, *, make: bool) -> SharedStore:
        """The store, made where there is none if ``make``; ``cache`` is the folder of this machine for whole files.
        Raises ``InvalidInput`` for a URL that names no storage, ``FailedPrecondition`` where a package is missing, a
        catalogue is of another time, or the storage has nothing of what the catalogue names; ``StoreUnavailable`` where
        one of them cannot be reached."""
        storage = open_storage(self._objects, self._limits, make=make)
        _check_together(self._objects, storage, self._catalogue, self._limits, make=make)
        files = CachedFiles(cache, storage, self._limits)
        database = PostgresDatabase(self._catalogue, self._limits)
        return SharedStore(database, files, cache / "incoming-modules", self._limits, make=make)

    def inspected(self, progress: Progress | None) -> Inspection:
        """Look through the store, which is not changed. Raises as ``opened`` does."""
        storage = open_storage(self._objects, self._limits, make=False)
        with closing(PostgresCatalogue(PostgresDatabase(self._catalogue, self._limits), make=False)) as opened:
            return inspect_shared(opened, storage, progress)


def _check_together(objects: str, storage: ObjectStorage, catalogue: str, limits: Limits, *, make: bool) -> None:
    """Raises ``FailedPrecondition`` where the catalogue has modules and the storage none: another prefix, or a folder
    that is not mounted. Whoever asked there would note each module as lost, for all daemons. An object is always there
    before its row, so that this is never so in between."""
    if next(storage.names("modules/"), None) is not None:
        return
    with closing(PostgresCatalogue(PostgresDatabase(catalogue, limits), make=make)) as opened:
        named = opened.sums()[0] - opened.damaged()
    if named > 0:
        raise FailedPrecondition(
            f"there is no module, and the catalogue has {counted(named, 'module')}: it is that of another storage",
            where=objects,
            hint="name the --store whose catalogue this is; where its objects are lost, begin with an empty database",
        )
