"""A daemon whose disk is full says so of the services that write, and answers questions."""

from __future__ import annotations

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
from symd.engine.reading import questions
from symd.errors import StoreUnavailable
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.store import Store
from symd.store.folder import StorePaths
from symd.store.housekeeping import FolderWritability
from tests.read_only_mount import read_only_mount
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
                with pytest.raises(StoreUnavailable, match="a folder of this path, or what it names, is not there"):
                    client.add(RAYCAST + b"\0")
                assert becomes(channel, ASKING, "SERVING")
                assert client.symbolize_one(digest, place).reason is Reason.EXACT
                assert list(folder.iterdir()) == []
                folder.rmdir()
                assert becomes(channel, WRITING, "NOT_SERVING")
                away.rename(folder)
                assert becomes(channel, WRITING, "SERVING")
                assert client.add(RAYCAST + b"\0").format
                assert len(list(client.modules())) == 2
        finally:
            daemon.terminate()
        assert daemon.wait(LONG) == 0


def test_a_store_that_may_only_be_read_is_told_by_health_from_the_start_on(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        store.put(RAYCAST)
    address = f"unix:{tmp_path}/symd.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(tmp_path / "read-only")]
    with read_only_mount(tmp_path / "store", tmp_path / "read-only") as problem:
        if problem:
            pytest.skip(f"no right to mount here: {problem}")
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as daemon:
            try:
                assert "serves at" in daemon.stdout.readline()
                with grpc.insecure_channel(address) as channel:
                    assert becomes(channel, WRITING, "NOT_SERVING")
                    assert becomes(channel, ASKING, "SERVING")
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


def test_a_worker_names_what_the_system_said(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught, questions._file(questions.MakeIndex(str(tmp_path / "not there"))):
        pass
    assert caught.value.metadata["errno"] == "ENOENT"
