"""A shared store by the URLs of its parts. What it takes of other packages is imported here and not before."""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from symd.config import Limits
from symd.errors import FailedPrecondition, InvalidInput, extra_hint
from symd.model.texts import counted

if TYPE_CHECKING:
    from symd.store.inspection import Inspection, Progress
    from symd.store.shared.object_storage import ObjectStorage
    from symd.store.shared.store import SharedStore

SCHEMES: Final = ("postgresql://", "postgres://")


def open_shared(objects: str, catalogue: str, cache: Path, limits: Limits, *, make: bool) -> SharedStore:
    """The store whose bytes are in the object storage ``objects`` and whose catalogue is in the database ``catalogue``,
    made where there is none if ``make``; ``cache`` is the folder of this machine for whole files. Raises
    ``InvalidInput`` for URLs that name none, ``FailedPrecondition`` where a package is missing, a catalogue is of
    another time, or the storage has nothing of what the catalogue names; ``StoreUnavailable`` where one of them cannot
    be reached."""
    check_catalogue(catalogue)
    from symd.store.shared.cached_files import CachedFiles  # noqa: PLC0415 - only for a shared store
    from symd.store.shared.object_storage import open_storage  # noqa: PLC0415 - only for a shared store
    from symd.store.shared.postgresql import PostgresDatabase  # noqa: PLC0415 - an extra
    from symd.store.shared.store import SharedStore  # noqa: PLC0415 - only for a shared store

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
    from symd.store.shared.catalogue import PostgresCatalogue  # noqa: PLC0415 - only for a shared store
    from symd.store.shared.postgresql import PostgresDatabase  # noqa: PLC0415 - only for a shared store

    with closing(PostgresCatalogue(PostgresDatabase(catalogue, limits), make=make)) as opened:
        named = opened.sums()[0] - opened.damaged()
    if named > 0:
        raise FailedPrecondition(
            f"there is no module, and the catalogue has {counted(named, 'module')}: it is that of another storage",
            where=objects,
            hint="name the --store whose catalogue this is; where its objects are lost, begin with an empty database",
        )


def inspect_by_urls(objects: str, catalogue: str, limits: Limits, progress: Progress | None) -> Inspection:
    """Look through that store (``symd.store.shared.inspection``), which is not changed. Raises as ``open_shared``
    does."""
    check_catalogue(catalogue)
    from symd.store.shared.catalogue import PostgresCatalogue  # noqa: PLC0415 - only for a shared store
    from symd.store.shared.inspection import inspect_shared  # noqa: PLC0415 - only for a shared store
    from symd.store.shared.object_storage import open_storage  # noqa: PLC0415 - only for a shared store
    from symd.store.shared.postgresql import PostgresDatabase  # noqa: PLC0415 - only for a shared store

    storage = open_storage(objects, limits, make=False)
    with closing(PostgresCatalogue(PostgresDatabase(catalogue, limits), make=False)) as opened:
        return inspect_shared(opened, storage, progress)


def check_catalogue(catalogue: str) -> None:
    """Raises ``InvalidInput`` for a URL that names no catalogue, ``FailedPrecondition`` where the package for it is
    missing."""
    if not catalogue.startswith(SCHEMES):
        raise InvalidInput("it is no URL of a catalogue", hint="write postgresql://USER@HOST:PORT/DATABASE")
    if find_spec("psycopg") is None:
        raise FailedPrecondition(
            "a catalogue in PostgreSQL takes psycopg, which is not installed", hint=extra_hint("shared")
        )
