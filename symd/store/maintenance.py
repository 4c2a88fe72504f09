"""A store mended and tidied, also beside daemons that use it: what ``symd store repair`` and ``symd store gc`` do."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from symd.config import UNBOUNDED_STORE, Limits
from symd.index.file_header import VERSION
from symd.model.identities import Digest
from symd.store.catalogue import newest
from symd.store.files import disk, remove
from symd.store.inspection import FindingKind, Progress, StoreFinding, inspect
from symd.store.ownership import check_owner
from symd.store.paths import StorePaths
from symd.store.rebuild import replace_catalogue
from symd.store.removed_files import sweep_leftovers
from symd.store.store import Store
from symd.store.tree import look

_OPENING: Final = 256 << 10
"""Free bytes with which a catalogue can be opened, and rows removed."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was wrong before and what still is; what to tell of a catalogue that was replaced, "" where none was."""

    before: Sequence[StoreFinding]
    after: Sequence[StoreFinding]
    rebuilt: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What was removed: files that dead writers left, indexes of older formats, modules beyond ``Limits.store_size``, and
    files that had been set aside because they were damaged."""

    leftovers: int
    indexes: Sequence[tuple[Digest, int]]
    modules: Sequence[Digest]
    damaged: Sequence[str]


def repair(root: Path, limits: Limits, progress: Progress | None = None) -> Repaired:
    """Mend what can be mended. Raises as ``inspect`` and ``Store`` do, and FailedPrecondition to root in another's store."""
    with disk(root):
        check_owner(root)
    paths, before, rebuilt = StorePaths(root), inspect(root, limits, progress).findings, ""
    faults = [finding.problem for finding in before if finding.kind is FindingKind.CATALOGUE]
    if faults:
        rebuilt = replace_catalogue(paths, newest(root), faults[0])
    unbounded = limits._replace(store_size=UNBOUNDED_STORE)  # what is mended makes nothing else go
    with Store(root, unbounded, adopt_later=True) as store:  # which would log what is told as a finding
        store.check_writable()
        for finding in before:
            if finding.kind is FindingKind.MODULE:
                store.set_aside(Path(finding.subject).name)
        store.adopt()
        for finding in before:
            if finding.kind is FindingKind.INDEX:
                _, version, _, name = Path(finding.subject).parts
                store.drop_index(name.removesuffix(".idx"), int(version))
    return Repaired(before, inspect(root, limits, progress).findings, rebuilt)


def collect(root: Path, limits: Limits, *, damaged: bool = False) -> Collected:
    """Remove what nobody needs; ``damaged``: also what was set aside. Raises as ``repair`` does."""
    paths = StorePaths(root)
    with disk(root):
        check_owner(root)
        paths.check_store()
        swept, first = _make_room(paths)
    with Store(root, limits) as store:
        evicted = store.collect(VERSION)
        leftovers = swept + store.recovery.leftovers
    gone = []
    with disk(paths.damaged):
        for path in sorted(paths.damaged.glob("*")) if damaged else ():
            remove(path)
            gone.append(path.name)
    return Collected(leftovers, [*first, *evicted.indexes], evicted.modules, gone)


def _make_room(paths: StorePaths) -> tuple[int, Sequence[tuple[Digest, int]]]:
    """On a full disk the catalogue cannot even be opened: remove leftovers, and then indexes, those of older formats and the largest first,
    until it can. How many leftovers went, and which indexes. A start notes which are gone; they are made again when they are needed. Raises OSError."""
    if _free(paths) >= _OPENING:
        return 0, ()
    swept = (sweep_leftovers(paths.incoming, lambda _digest: True) or 0) if paths.incoming.is_dir() else 0
    gone = []
    sizes = look(paths).indexes
    for digest, version in sorted(sizes, key=lambda each: (each[1] == VERSION, -sizes[each])):
        if _free(paths) >= _OPENING:
            break
        paths.index(digest, version).unlink(missing_ok=True)
        gone.append((digest, version))
    return swept, gone


def _free(paths: StorePaths) -> int:
    return shutil.disk_usage(paths.root).free
