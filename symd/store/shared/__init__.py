"""A store that daemons on several machines share: the catalogue in PostgreSQL, the bytes of modules and indexes in an
object storage with a cache of whole files on each machine. It has the interface of ``symd.store`` and keeps the same
promises.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from symd.config import Limits
from symd.errors import FailedPrecondition, InvalidInput, extra_hint

if TYPE_CHECKING:
    from symd.store.inspection import Inspection, Progress
    from symd.store.shared.store import SharedStore

SCHEMES: Final = ("postgresql://", "postgres://")


def open_shared(objects: str, catalogue: str, cache: Path, limits: Limits, *, make: bool) -> SharedStore:
    """The store whose bytes are in the object storage ``objects`` and whose catalogue is in the database ``catalogue``,
    made where there is none if ``make``; ``cache`` is the folder of this machine for whole files. Raises
    ``InvalidInput`` for URLs that name none, ``FailedPrecondition`` where a package is missing, a catalogue is of
    another time, or the storage has nothing of what the catalogue names; ``StoreUnavailable`` where one of them cannot
    be reached."""
    check_catalogue(catalogue)
    from symd.store.shared import opening  # noqa: PLC0415 - 96 ms: its packages are extras, and only a shared store needs them

    return opening.opened(objects, catalogue, cache, limits, make=make)


def inspect_by_urls(objects: str, catalogue: str, limits: Limits, progress: Progress | None) -> Inspection:
    """Look through that store (``symd.store.shared.inspection``), which is not changed. Raises as ``open_shared``
    does."""
    check_catalogue(catalogue)
    from symd.store.shared import opening  # noqa: PLC0415 - 96 ms: as above

    return opening.inspected(objects, catalogue, limits, progress)


def check_catalogue(catalogue: str) -> None:
    """Raises ``InvalidInput`` for a URL that names no catalogue, ``FailedPrecondition`` where the package for it is
    missing."""
    if not catalogue.startswith(SCHEMES):
        raise InvalidInput("it is not the URL of a catalogue", hint="write postgresql://USER@HOST:PORT/DATABASE")
    if find_spec("psycopg") is None:
        raise FailedPrecondition(
            "a catalogue in PostgreSQL takes psycopg, which is not installed", hint=extra_hint("shared")
        )
