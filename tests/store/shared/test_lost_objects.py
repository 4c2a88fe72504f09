"""An object storage that lost objects: what is missing is named, adding it again brings it back, and nothing is said to be there that is not."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from symd.cli import command_line
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import DataLoss, StoreUnavailable
from symd.model.addresses import ByAddress, ObjectAddress
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store.shared import store as shared_store
from symd.store.shared.object_storage import ASKED_AT_A_TIME, LISTED_FROM, FolderStorage, sizes
from symd.store.shared.s3_storage import S3Storage
from symd.store.shared.store import module_object
from tests.object_server import WHOLE, Asked, ExitStatus, Proxy
from tests.store.shared.replicas import OBJECT, variant

COUNT = 6
LONG = 30.0
QUESTION = [ByAddress(ObjectAddress(0x1978))]
Made = Callable[[str], Engine]


@pytest.fixture
def digests(engine_of: Made) -> list[str]:
    """Modules that came by the first daemon, whose indexes it has open."""
    return [engine_of("first").add(variant(number), f"module {number}").sha256 for number in range(COUNT)]


@pytest.fixture
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_store, "SEEN_SECONDS", 0.0)


def put(s3: S3Storage, name: str, data: bytes, folder: Path) -> None:
    path = folder / "to-put"
    path.write_bytes(data)
    s3.put(name, path)


def stored(s3: S3Storage, digest: str, folder: Path) -> bytes | None:
    path = folder / "fetched"
    return path.read_bytes() if s3.fetch(module_object(digest), path, WHOLE) else None


def wipe(s3: S3Storage) -> None:
    for name, _ in list(s3.names("")):
        s3.remove(name)


@pytest.mark.usefixtures("_nothing_is_remembered")
@pytest.mark.parametrize("trouble", ["wiped", "gone", "truncated", "grown", "empty"])
def test_what_is_lost_is_missing_for_every_daemon_until_it_is_added_again(
    engine_of: Made, digests: list[str], s3: S3Storage, tmp_path: Path, trouble: str
) -> None:
    first, second = engine_of("first"), engine_of("second")
    assert first.missing(digests) == second.missing(digests) == []
    lost = digests if trouble == "wiped" else digests[2:4]
    if trouble == "wiped":
        wipe(s3)
    for digest in lost:
        if trouble == "gone":
            s3.remove(module_object(digest))
        elif trouble != "wiped":
            spoiled = {"truncated": OBJECT.read_bytes()[:100], "grown": variant(0) + b"\0", "empty": b""}[trouble]
            put(s3, module_object(digest), spoiled, tmp_path)
    answers = [str(list(first.symbolize(digest, QUESTION))) for digest in digests]
    for engine in (first, second, engine_of("third")):
        assert engine.missing(digests) == lost
    for digest in lost:
        number = digests.index(digest)
        assert second.add(variant(number), "another label").sha256 == digest
        assert stored(s3, digest, tmp_path) == variant(number)
    for engine in (first, second, engine_of("third")):
        assert engine.missing(digests) == []
        assert [str(list(engine.symbolize(digest, QUESTION))) for digest in digests] == answers
    assert first.record(lost[0]).label == f"module {digests.index(lost[0])}"


READS: dict[str, Callable[[Engine, str], object]] = {
    "data": lambda engine, digest: engine.store.data(digest),
    "file": lambda engine, digest: list(engine.module_pieces(digest, 1 << 20)),
    "symbolize": lambda engine, digest: list(engine.symbolize(digest, QUESTION)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_other_bytes_of_the_same_size_are_noted_by_who_reads_them(
    engine_of: Made, digests: list[str], s3: S3Storage, tmp_path: Path, read: Callable[[Engine, str], object]
) -> None:
    first, other = engine_of("first"), engine_of("other")
    assert first.missing(digests) == []
    for digest, number in ((digests[0], 1), (digests[1], 0)):
        put(s3, module_object(digest), variant(number), tmp_path)
    for name, _ in list(s3.names("index/")):
        s3.remove(name)
    with pytest.raises(DataLoss, match="add the module again"):
        read(other, digests[0])
    assert first.missing(digests) == digests[:1], "the other one was not read yet"
    assert first.add(variant(0)).sha256 == digests[0]
    assert (stored(s3, digests[0], tmp_path), first.missing(digests[:1])) == (variant(0), [])


def test_a_module_that_came_back_while_it_was_found_lost_is_not_missing(
    engine_of: Made, digests: list[str], s3: S3Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = engine_of("first"), engine_of("other")
    s3.remove(module_object(digests[0]))
    fetch = S3Storage.fetch

    def fetched_late(storage: S3Storage, name: str, path: Path, most: int) -> bool:
        monkeypatch.undo()
        found = fetch(storage, name, path, most)
        first.add(variant(0))
        return found

    monkeypatch.setattr(S3Storage, "fetch", fetched_late)
    with pytest.raises(DataLoss):
        other.store.data(digests[0])
    assert other.missing(digests) == []
    assert other.store.data(digests[0]) == variant(0)


def test_what_was_there_is_not_asked_for_again_at_once_and_who_adds_it_asks(
    engine_of: Made, digests: list[str], s3: S3Storage, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_store, "SEEN_SECONDS", 1000.0)
    first = engine_of("first")
    proxy.methods()
    assert first.missing(digests) == []
    assert proxy.methods() == ["HEAD"] * COUNT
    assert first.missing(digests) == []
    assert proxy.methods() == []
    s3.remove(module_object(digests[0]))
    assert first.store.put(variant(0)) == digests[0]
    assert stored(s3, digests[0], tmp_path) == variant(0)
    s3.remove(module_object(digests[1]))
    assert first.add(variant(1)).sha256 == digests[1]
    assert stored(s3, digests[1], tmp_path) == variant(1)


class Sizes:
    """A storage that is asked for sizes alone. Nobody is answered before ``together`` ask."""

    def __init__(self, names: set[str], together: int = 1) -> None:
        self._names = names
        self._barrier = threading.Barrier(together)
        self.asked: list[str] = []

    def size(self, name: str) -> int | None:
        self.asked.append(name)
        self._barrier.wait(LONG)
        return len(name) if name in self._names else None

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        self.asked.append(prefix)
        yield from ((name, len(name)) for name in sorted(self._names) if name.startswith(prefix))


def test_many_are_asked_for_at_a_time_and_most_of_a_folder_together() -> None:
    names = [f"modules/{number:02x}/{number:064x}" for number in range(ASKED_AT_A_TIME)]
    storage = Sizes(set(names[1:]), together=ASKED_AT_A_TIME)
    assert sizes(storage, names) == dict.fromkeys(names[1:], len(names[0]))  # type: ignore[arg-type]
    of_one = [f"modules/ff/{number:064x}" for number in range(LISTED_FROM)]
    storage = Sizes(set(of_one[2:]) | {f"modules/ff/{'f' * 64}"})
    assert sizes(storage, of_one) == dict.fromkeys(of_one[2:], len(of_one[0]))  # type: ignore[arg-type]
    assert storage.asked == ["modules/ff/"]
    assert sizes(storage, []) == {}  # type: ignore[arg-type]


def test_a_storage_that_cannot_be_asked_is_not_said_to_have_all(
    engine_of: Made, digests: list[str], proxy: Proxy
) -> None:
    first = engine_of("first")
    answers = [str(list(first.symbolize(digest, QUESTION))) for digest in digests]
    assert all(map(first.is_open, digests))
    proxy.plan = lambda asked: ExitStatus.REFUSE
    with pytest.raises(StoreUnavailable, match="the object storage"):
        first.missing(digests)
    with pytest.raises(StoreUnavailable, match="the object storage"):
        first.add(variant(0))
    assert [str(list(first.symbolize(digest, QUESTION))) for digest in digests] == answers
    proxy.plan = lambda asked: ExitStatus.PASS
    assert first.missing(digests) == []


def test_a_command_with_a_file_is_answered_while_the_storage_is_gone(
    engine_of: Made, digests: list[str], proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the module's index is open; a file that the daemon does not know is not said to be there."""
    file, other = tmp_path / "file.co", tmp_path / "other.co"
    file.write_bytes(variant(0))
    other.write_bytes(variant(COUNT))
    config = Config(limits=Limits(), store=tmp_path, address=f"unix:{tmp_path}/d/s", grace=1.0)
    daemon = build_daemon(engine_of("first"), config)
    with listening(daemon.server, config.address) as address:
        daemon.server.start()
        try:
            ask = ["symbolize", "--server", address, str(file), "0x1978"]
            assert command_line.invoke(ask) == 0
            before = capsys.readouterr().out

            def refused(_: Asked) -> ExitStatus:
                return ExitStatus.REFUSE

            proxy.plan = refused
            assert (command_line.invoke(ask), capsys.readouterr().out) == (0, before)
            assert command_line.invoke(["symbolize", "--server", address, str(other), "0x1978"]) == 3
            assert "object storage refused" in capsys.readouterr().err
        finally:
            daemon.stop(0.2)


def test_a_folder_that_is_not_mounted_any_more_has_lost_nothing(tmp_path: Path) -> None:
    root, path = tmp_path / "mounted", tmp_path / "file"
    storage = FolderStorage(root)
    path.write_bytes(b"bytes")
    name = module_object(hashlib.sha256(b"bytes").hexdigest())
    storage.put(name, path)
    root.rename(tmp_path / "away")
    root.mkdir()
    asked: list[Callable[[], object]] = [
        lambda: storage.size(name),
        lambda: storage.fetch(name, path, WHOLE),
        lambda: list(storage.names("modules/")),
    ]
    for ask in asked:
        with pytest.raises(StoreUnavailable, match="is not what it was"):
            ask()
    root.rmdir()
    (tmp_path / "away").rename(root)
    assert storage.size(name) == 5
