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
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.store.room import DiskRoom

ROOT = Path(__file__).parents[2]
RAYCAST = (ROOT / "samples" / "kernels" / "bin" / "raycast" / "dg2-opt.dbg").read_bytes()
LONG = 60.0
WRITING = ("symd.v1.ModuleService", "symd.v1.AliasService", "symd.v1.ContextService")
ASKING = ("", "symd.v1.SymbolService", "symd.v1.VariableService", "symd.v1.ServerService")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB of its own; needs the right to mount."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mount.returncode:
        pytest.skip(f"no right to mount here: {mount.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


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
                answer = client.symbolize_one(digest, ByKernel("raycast", KernelOffset(0x368)))
                assert answer.reason is Reason.EXACT
                (small_disk / "filling").unlink()
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
    room = DiskRoom(tmp_path, Limits(free_disk=1 << 60))
    room.listen(told.append)
    room.look()
    room.look()
    assert (told, room.enough) == ([True, False], False)
