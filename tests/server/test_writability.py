"""A daemon whose disk is full says so of the services that write, and answers questions."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from symd import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.engine.reading import questions
from symd.engine.reading.questions import InProcessReader
from symd.errors import StoreUnavailable
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.store import Store
from symd.store.folder import StorePaths
from symd.store.housekeeping import FolderWritability
from tests.read_only_mount import make_writable, read_only_mount
from tests.small_disk import small_disk

ROOT = Path(__file__).parents[2]
RAYCAST = (ROOT / "samples" / "kernels" / "bin" / "raycast" / "dg2-opt.dbg").read_bytes()
LONG = 60.0
WRITING = ("symd.v1.ModuleService", "symd.v1.AliasService", "symd.v1.ContextService")
ASKING = ("", "symd.v1.SymbolService", "symd.v1.VariableService", "symd.v1.ServerService")


@pytest.fixture(name="small_disk")
def disk_of_16_mib(tmp_path: Path) -> Iterator[Path]:
    """Needs the right to mount."""
    with small_disk(tmp_path / "disk", 16 << 20) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        yield tmp_path / "disk"


def test_a_full_disk_is_told_by_health_while_questions_are_answered(small_disk: Path, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/symd.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(small_disk / "store")]
    with subprocess.Popen([*command, "--limit", "free_disk=8M"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as daemon:
        try:
            assert "serves at" in daemon.stdout.readline()
            with Client(address) as client, grpc.insecure_channel(address) as channel:
                digest = client.add(RAYCAST).sha256
                assert becomes(channel, WRITING, "SERVING")
                (small_disk / "filling").write_bytes(bytes(12 << 20))
                assert becomes(channel, WRITING, "NOT_SERVING")
                assert becomes(channel, ASKING, "SERVING")
                answer = client.symbolize_one(digest, ByKernel("raycast", KernelOffset(0x610)))
                assert answer.reason is Reason.EXACT
                (small_disk / "filling").unlink()
                assert becomes(channel, WRITING, "SERVING")
                assert client.add(RAYCAST + b"\0").format
        finally:
            daemon.terminate()
        assert daemon.wait(LONG) == 0


def test_a_folder_that_is_moved_away_is_told_by_health_while_questions_are_answered(tmp_path: Path) -> None:
    address, folder, away = f"unix:{tmp_path}/symd.sock", tmp_path / "store", tmp_path / "away"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as daemon:
        try:
            assert "serves at" in daemon.stdout.readline()
            with Client(address) as client, grpc.insecure_channel(address) as channel:
                digest = client.add(RAYCAST).sha256
                place = ByKernel("raycast", KernelOffset(0x610))
                assert client.symbolize_one(digest, place).reason is Reason.EXACT
                folder.rename(away)
                folder.mkdir(mode=0o700)
                with pytest.raises(StoreUnavailable, match="the store's folder was replaced by another"):
                    client.add(RAYCAST + b"\0")
                assert becomes(channel, WRITING, "NOT_SERVING")
                assert becomes(channel, ASKING, "SERVING")
                assert client.symbolize_one(digest, place).reason is Reason.EXACT
                assert list(folder.iterdir()) == []
                folder.rmdir()
                away.rename(folder)
                assert becomes(channel, WRITING, "SERVING")
                assert client.add(RAYCAST + b"\0").format
                assert len(list(client.modules())) == 2
        finally:
            daemon.terminate()
        assert daemon.wait(LONG) == 0


def test_a_daemon_starts_on_a_store_that_may_only_be_read_and_answers(tmp_path: Path) -> None:
    address, place = f"unix:{tmp_path}/symd.sock", tmp_path / "place"
    with Engine(Store(tmp_path / "store")) as engine:
        digest = engine.add(RAYCAST).sha256
        engine.module(digest)
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(place)]
    with read_only_mount(tmp_path / "store", place) as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as daemon:
            try:
                assert "serves at" in daemon.stdout.readline()
                with Client(address) as client, grpc.insecure_channel(address) as channel:
                    answer = client.symbolize_one(digest, ByKernel("raycast", KernelOffset(0x610)))
                    assert answer.reason is Reason.EXACT
                    assert [record.sha256 for record in client.modules()] == [digest]
                    assert becomes(channel, WRITING, "NOT_SERVING")
                    assert becomes(channel, ASKING, "SERVING")
                    with pytest.raises(StoreUnavailable, match="read-only"):
                        client.add(RAYCAST + b"\0")
                    with pytest.raises(StoreUnavailable, match="read-only"):
                        client.remove(digest)
                    make_writable(place)
                    assert becomes(channel, WRITING, "SERVING")
                    assert client.add(RAYCAST + b"\0").format
            finally:
                daemon.terminate()
            assert daemon.wait(LONG) == 0


def becomes(channel: grpc.Channel, names: tuple[str, ...], status: str) -> bool:
    stub = health_pb2_grpc.HealthStub(channel)
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        said = {stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=LONG).status for name in names}
        if said == {health_pb2.HealthCheckResponse.ServingStatus.Value(status)}:
            return True
        time.sleep(0.05)
    return False


def test_a_change_is_told_once(tmp_path: Path) -> None:
    told: list[bool] = []
    writability = FolderWritability(StorePaths(tmp_path), Limits(free_disk=1 << 60))
    writability.listen(told.append)
    writability.check()
    writability.check()
    assert (told, writability.is_writable) == ([True, False], False)


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refusing(number: int) -> OSError:
    return OSError(number, "refused")


@pytest.mark.parametrize("name", ["EDQUOT", "EROFS", "EIO", "ENOSPC"])
def test_a_write_that_the_disk_refused_is_told_until_bytes_can_be_written(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, told = Clock(), []
    with Store(tmp_path / "store", durable=False) as store:
        writability = store.writability = FolderWritability(StorePaths(store.root), Limits(free_disk=4096), clock)
        writability.listen(told.append)
        writability.check()
        assert told == [True]
        number, write = getattr(errno, name), os.write

        def refuse(handle: int, data: bytes) -> int:
            raise refusing(number)

        monkeypatch.setattr(os, "write", refuse)
        with pytest.raises(StoreUnavailable, match="the disk refused: refused"):
            store.put(b"more than there is writability for")
        writability.check()
        clock.now += 3
        writability.check()
        assert told == [True, False]
        monkeypatch.setattr(os, "write", write)
        writability.check()
        assert told == [True, False]  # it is tried now and then
        clock.now += 3
        writability.check()
        assert told == [True, False, True]
        assert not list((store.root / "incoming").iterdir())


def test_the_catalogue_that_is_refused_is_told_too(tmp_path: Path) -> None:
    with Store(tmp_path / "store", durable=False) as store, store._catalogue.reading() as connection:
        connection.execute("PRAGMA max_page_count = 1")
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreUnavailable), store._catalogue.translated():
            connection.execute("CREATE TABLE more AS SELECT zeroblob(100000)")
        store.writability.check()
        assert not store.writability.is_writable


def test_what_is_no_fault_of_the_disk_is_not_told(tmp_path: Path) -> None:
    with Store(tmp_path / "store", durable=False) as store:
        store.writability.note_refusal(
            StoreUnavailable("the catalogue refused: locked", metadata={"sqlite": "SQLITE_BUSY"})
        )
        store.writability.note_refusal(
            StoreUnavailable("the disk refused: permission denied", metadata={"errno": "EACCES"})
        )
        store.writability.check()
        assert store.writability.is_writable


class Refused(InProcessReader):
    """As a worker whose index does not find writability on the disk."""

    def ask(self, module, question):
        raise StoreUnavailable("the disk refused: quota exceeded", metadata={"errno": "EDQUOT"})


def test_what_a_worker_could_not_write_is_told_too(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", durable=False)
    with Engine(store, reader=Refused(Limits())) as engine:
        digest = store.put(RAYCAST)
        with pytest.raises(StoreUnavailable, match="quota exceeded"):
            engine.module(digest)
        store.writability.check()
        assert not store.writability.is_writable


def test_a_worker_names_what_the_system_said(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught, questions._file(questions.MakeIndex(str(tmp_path / "not there"))):
        pass
    assert caught.value.metadata["errno"] == "ENOENT"
