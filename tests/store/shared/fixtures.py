"""A server for the whole run, and stores over a database of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from symd.config import Limits
from tests.store.shared.postgresql_server import PostgresServer, running

if TYPE_CHECKING:
    from symd.store.shared.store import SharedStore


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def empty_catalogue(postgresql: PostgresServer) -> str:
    """The name of a database that has a catalogue without a module."""
    from symd.store.shared.catalogue import PostgresCatalogue  # noqa: PLC0415 - psycopg is an extra
    from symd.store.shared.postgresql import PostgresDatabase  # noqa: PLC0415 - likewise

    url = postgresql.database()
    PostgresCatalogue(PostgresDatabase(url, Limits())).close()
    return url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def database(postgresql: PostgresServer, empty_catalogue: str) -> str:
    """The URL of a catalogue of the test's own."""
    return postgresql.database(empty_catalogue)


@pytest.fixture
def open_shared(database: str, tmp_path: Path) -> Callable[..., SharedStore]:
    """Opens the test's shared store, as one more daemon would."""
    return partial(shared_store, database, tmp_path)


def shared_store(database: str, folder: Path, limits: Limits | None = None) -> SharedStore:
    """A store over a database; its objects lie in the folder."""
    from symd.store.shared.postgresql import PostgresDatabase  # noqa: PLC0415 - psycopg is an extra
    from symd.store.shared.store import SharedStore  # noqa: PLC0415 - likewise
    from tests.store.shared.plain_files import PlainFiles  # noqa: PLC0415 - likewise

    return SharedStore(
        PostgresDatabase(database, limits or Limits()), PlainFiles(folder / "objects"), folder / "incoming", limits
    )
