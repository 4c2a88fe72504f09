"""A store mended and tidied, also beside daemons that use it: what ``symd store repair`` and ``symd store gc`` do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from symd.config import UNBOUNDED_STORE, Limits
from symd.index.file_header import VERSION
from symd.model.identities import Digest
from symd.store.catalogue import newest
from symd.store.files import disk, remove
from symd.store.inspection import Finding, Kind, Progress, inspect
from symd.store.ownership import check_owner
from symd.store.paths import StorePaths
from symd.store.rebuild import Rebuilt, rebuild
from symd.store.store import Store


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was wrong before and what still is; the catalogue that was replaced, if one was."""

    before: Sequence[Finding]
    after: Sequence[Finding]
    rebuilt: Rebuilt | None


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
    paths, before, rebuilt = StorePaths(root), inspect(root, limits, progress).findings, None
    faults = [finding.problem for finding in before if finding.kind is Kind.CATALOGUE]
    if faults:
        rebuilt = rebuild(paths, newest(root), faults[0])
    with Store(root, limits._replace(store_size=UNBOUNDED_STORE)) as store:  # what is mended makes nothing else go
        for finding in before:
            name = Path(finding.subject).name
            if finding.kind is Kind.MODULE:
                store.set_aside(name)
            elif finding.kind is Kind.INDEX:
                _, version, _, name = Path(finding.subject).parts
                store.drop_index(name.removesuffix(".idx"), int(version))
    return Repaired(before, inspect(root, limits, progress).findings, rebuilt)


def collect(root: Path, limits: Limits, *, damaged: bool = False) -> Collected:
    """Remove what nobody needs; ``damaged``: also what was set aside. Raises as ``repair`` does."""
    paths = StorePaths(root)
    with disk(root):
        check_owner(root)
        paths.check_store()
    with Store(root, limits) as store:
        evicted = store.collect(VERSION)
        leftovers = store.recovery.leftovers
    gone = []
    with disk(paths.damaged):
        for path in sorted(paths.damaged.glob("*")) if damaged else ():
            remove(path)
            gone.append(path.name)
    return Collected(leftovers, evicted.indexes, evicted.modules, gone)
