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
        """Look through the store (``symd.store.shared.inspection``), which is not changed. Raises as ``opened``
        does."""
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
