"""What a start does after a kill: removes leftovers and makes files and catalogue agree again.

Other processes may be at work in the same store, so each change is made under the writers' turn and looks again."""

from __future__ import annotations

import time
from dataclasses import dataclass

from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store import catalogue as rows
from symd.store.catalogue import Catalogue
from symd.store.files import make_folder, sha256_of, size_of, sweep
from symd.store.layout import Layout


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a start mended: counts of leftover files removed, modules adopted, rows dropped, indexes of unknown
    modules removed, and the digests whose files had other bytes and were moved to ``damaged/``."""

    leftovers: int = 0
    adopted: int = 0
    dropped: int = 0
    stray_indexes: int = 0
    damaged: tuple[str, ...] = ()


def recover(layout: Layout, catalogue: Catalogue) -> Recovery:
    """Adopt files without a row (after hashing them), drop rows without a file, remove everything that is neither."""
    leftovers = sweep(layout.incoming)
    files, known = layout.all_modules(), catalogue.digests()
    strangers = sorted(files - known)
    damaged = tuple(digest for digest in strangers if not _adopt(layout, catalogue, digest))
    dropped = _drop_rows(layout, catalogue, known - files)
    stray = _remove_stray_indexes(layout, catalogue)
    return Recovery(leftovers, len(strangers) - len(damaged), dropped, stray, damaged)


def _adopt(layout: Layout, catalogue: Catalogue, digest: Digest) -> bool:
    """Give a file its row; False when its bytes are not what its name says and it was moved away."""
    path = layout.module(digest)
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
            make_folder(layout.damaged)
            path.replace(layout.damaged / digest)
    return whole


def _drop_rows(layout: Layout, catalogue: Catalogue, digests: set[Digest]) -> int:
    if not digests:
        return 0
    with catalogue.writing() as connection:
        gone = [digest for digest in digests if size_of(layout.module(digest)) is None]
        rows.delete(connection, gone)
    return len(gone)


def _remove_stray_indexes(layout: Layout, catalogue: Catalogue) -> int:
    known = catalogue.digests()
    strays = [(path, digest) for path, digest in layout.all_indexes() if digest not in known]
    if not strays:
        return 0
    with catalogue.writing() as connection:
        gone = [path for path, digest in strays if not rows.exists(connection, digest)]
        for path in gone:
            path.unlink(missing_ok=True)
    return len(gone)
