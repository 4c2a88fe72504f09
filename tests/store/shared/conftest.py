"""A real S3 server for the tests of this folder, and one with a proxy in the way."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from symd.config import Limits
from symd.engine.engine import Engine
from symd.store.shared.cached_files import CachedFiles
from symd.store.shared.postgresql import PostgresDatabase
from symd.store.shared.s3_storage import S3Storage
from symd.store.shared.store import SharedStore
from tests.object_server import BUCKET, Proxy, environment, proxy_before, s3_server


@pytest.fixture(scope="session")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with an empty bucket."""
    with s3_server(tmp_path_factory.mktemp("s3") / "data") as url:
        yield url


@pytest.fixture
def proxy(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What stands before that server; clients find it by their environment."""
    with proxy_before(s3_url) as found:
        for name, value in environment(found.url).items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def s3(proxy: Proxy, request: pytest.FixtureRequest) -> S3Storage:
    """A storage behind the proxy, under a prefix of the test's own, that waits 9 s for a call: so long that a busy machine is not
    noticed."""
    return S3Storage(BUCKET, prefix_of(request), Limits(storage_seconds=9.0))


@pytest.fixture
def impatient(proxy: Proxy, request: pytest.FixtureRequest) -> S3Storage:
    """The same that waits 3 s, for who waits for errors."""
    return S3Storage(BUCKET, prefix_of(request), Limits(storage_seconds=3.0))


def prefix_of(request: pytest.FixtureRequest) -> str:
    return f"p{abs(hash(request.node.nodeid)):x}/of-a-test"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A file that is sent in three parts."""
    path = tmp_path / "sample"
    path.write_bytes(bytes(range(251)) * ((12 << 20) // 251))
    return path


@pytest.fixture
def engine_of(database: str, s3: S3Storage, tmp_path: Path) -> Iterator[Callable[[str], Engine]]:
    """Engines of daemons over one store; of each name is the folder of its machine."""
    engines: list[Engine] = []
    stores: list[SharedStore] = []

    def made(machine: str) -> Engine:
        cache = CachedFiles(tmp_path / machine, s3, Limits(free_disk=0))
        stores.append(SharedStore(PostgresDatabase(database, Limits()), cache, tmp_path / f"{machine}-incoming"))
        engines.append(Engine(stores[-1]))
        return engines[-1]

    yield made
    for engine in engines:
        engine.close()
    for store in stores:
        store.close()
