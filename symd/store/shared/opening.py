"""The parts of a shared store by their URLs, for ``symd.store.shared``, which checks the catalogue's first: what is
imported here takes packages that may be missing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from symd.config import Limits
from symd.errors import FailedPrecondition
from symd.model.texts import counted
from symd.store.inspection import Inspection, Progress
from symd.store.shared.cached_files import CachedFiles
from symd.store.shared.catalogue import PostgresCatalogue
from symd.store.shared.inspection import inspect_shared
from symd.store.shared.object_storage import ObjectStorage, open_storage
from symd.store.shared.postgresql import PostgresDatabase
from symd.store.shared.store import SharedStore


def opened(objects: str, catalogue: str, cache: Path, limits: Limits, *, make: bool) -> SharedStore:
    """``symd.store.shared.open_shared``, behind its check of the URL."""
    storage = open_storage(objects, limits, make=make)
    _check_together(objects, storage, catalogue, limits, make=make)
    files = CachedFiles(cache, storage, limits)
    return SharedStore(PostgresDatabase(catalogue, limits), files, cache / "incoming-modules", limits, make=make)


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


def inspected(objects: str, catalogue: str, limits: Limits, progress: Progress | None) -> Inspection:
    """``symd.store.shared.inspect_by_urls``, behind its check of the URL."""
    storage = open_storage(objects, limits, make=False)
    with closing(PostgresCatalogue(PostgresDatabase(catalogue, limits), make=False)) as opened:
        return inspect_shared(opened, storage, progress)
