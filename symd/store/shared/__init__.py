"""A store that daemons on several machines share: the catalogue in PostgreSQL, the bytes of modules and indexes in an
object storage with a cache of whole files on each machine. It has the interface of ``symd.store`` and keeps the same
promises.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from symd.config import Limits
from symd.errors import FailedPrecondition, InvalidInput, extra_hint

if TYPE_CHECKING:
    from symd.store.shared.inspection import SharedUrls

SCHEMES: Final = ("postgresql://", "postgres://")


def shared_urls(objects: str, catalogue: str, limits: Limits) -> SharedUrls:
    """The store whose bytes are in the object storage ``objects`` and whose catalogue is in the database ``catalogue``,
    to be opened or looked through. Raises ``InvalidInput`` for a URL that names no catalogue, ``FailedPrecondition``
    where a package is missing."""
    check_catalogue(catalogue)
    from symd.store.shared.inspection import SharedUrls  # noqa: PLC0415 - 96 ms: its packages are extras, and only a shared store needs them

    return SharedUrls(objects, catalogue, limits)


def check_catalogue(catalogue: str) -> None:
    """Raises ``InvalidInput`` for a URL that names no catalogue, ``FailedPrecondition`` where the package for it is
    missing."""
    if not catalogue.startswith(SCHEMES):
        raise InvalidInput("it is not the URL of a catalogue", hint="write postgresql://USER@HOST:PORT/DATABASE")
    if find_spec("psycopg") is None:
        raise FailedPrecondition(
            "a catalogue in PostgreSQL takes psycopg, which is not installed", hint=extra_hint("shared")
        )
