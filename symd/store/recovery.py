"""What a start does after a kill: removes leftovers and makes files and catalogue agree again.

Other processes may be at work in the same store, so each change is made under the writers' turn and looks again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store import catalogue as rows
from symd.store.catalogue import Catalogue
from symd.store.files import make_folder, sha256_of, size_of, sweep
from symd.store.paths import StorePaths
from symd.store.rebuild import Rebuilt


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a start mended: counts of leftover files removed and of rows dropped, and the digests whose files had other
    bytes and were moved to ``damaged/``."""

    leftovers: int = 0
    dropped: int = 0
    damaged: tuple[Digest, ...] = ()
    strangers: tuple[Digest, ...] = ()
    """Module files that have no row yet: nobody has looked whether their bytes are what their names say."""
    rebuilt: Rebuilt | None = None
    """The catalogue that was damaged, and what was kept of it."""


def recover(paths: StorePaths, catalogue: Catalogue) -> Recovery:
    """Drop rows without a file, remove everything that has neither, forget attempts to index what is gone, and name the files
    that have no row: to hash them may take long, which is ``adopt``'s part. A row whose file was set aside as damaged stays."""
    leftovers = sweep(paths.incoming)
    files, known = paths.all_modules(), catalogue.digests()
    strangers = files - known
    dropped = _drop_rows(paths, catalogue, known - files - paths.all_damaged())
    _reconcile_indexes(paths, catalogue, strangers)
    with catalogue.writing(survives_power_cut=False) as connection:
        rows.forget_attempts_of_nothing(connection)
    return Recovery(leftovers, dropped, strangers=tuple(sorted(strangers)))


def adopt(
    paths: StorePaths, catalogue: Catalogue, found: Recovery, stop: Callable[[], bool] = lambda: False
) -> Recovery:
    """Give the files without a row theirs, after hashing them, until there are none or ``stop`` says so."""
    damaged, left = list(found.damaged), list(found.strangers)
    while left and not stop():
        digest = left.pop(0)
        if not _adopt(paths, catalogue, digest):
            damaged.append(digest)
    _reconcile_indexes(paths, catalogue, set(left))
    return replace(found, damaged=tuple(damaged), strangers=tuple(left))


def _adopt(paths: StorePaths, catalogue: Catalogue, digest: Digest) -> bool:
    """Give a file its row; False when its bytes are not what its name says and it was moved away."""
    path = paths.module(digest)
    try:
        whole = sha256_of(path) == digest
    except FileNotFoundError:
        return True
    with catalogue.writing() as connection:
        size = size_of(path)
        if size is None or rows.exists(connection, digest):
            return True
        if whole:
            rows.insert(connection, ModuleRecord(digest, size, "", "", time.time()))
        else:
            make_folder(paths.damaged)
            path.replace(paths.damaged / digest)
    return whole


def _drop_rows(paths: StorePaths, catalogue: Catalogue, digests: set[Digest]) -> int:
    if not digests:
        return 0
    with catalogue.writing() as connection:
        gone = [digest for digest in digests if size_of(paths.module(digest)) is None]
        rows.delete(connection, gone)
    return len(gone)


def _reconcile_indexes(paths: StorePaths, catalogue: Catalogue, strangers: set[Digest]) -> None:
    """Remove index files of modules that are not there, and note in the catalogue those that are; those of ``strangers``
    wait."""
    known, noted = catalogue.digests(), catalogue.indexes()
    files = {key for key in paths.all_indexes() if key[0] not in strangers}
    if files == noted and all(digest in known for digest, _ in files):
        return
    with catalogue.writing() as connection:
        for digest, version in sorted(files - noted):
            path = paths.index(digest, version)
            size = size_of(path)
            if not rows.exists(connection, digest):
                path.unlink(missing_ok=True)
            elif size is not None:
                rows.keep_index(connection, digest, version, size)
        gone = [key for key in noted - files if size_of(paths.index(*key)) is None]
        rows.forget_indexes(connection, gone)
