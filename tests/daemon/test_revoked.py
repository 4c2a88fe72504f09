"""Watches are silent for days. One whose client is not let in any more ends all the same, soon after the access file says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub

from symd.v1.breakpoint_service_pb2 import WatchRequest
from symd.v1.breakpoint_service_pb2_grpc import BreakpointServiceStub
from tests.daemon.processes import serving

SECONDS = 60
"""Generous: it takes about one."""


@pytest.fixture
def access(tmp_path: Path) -> Path:
    return tmp_path / "access"


@pytest.fixture
def channel(tmp_path: Path, access: Path) -> Iterator[grpc.Channel]:
    """To a daemon with that access file, over TCP."""
    token(access, "other", "--rights", "read")
    with serving(tmp_path, "--address", "127.0.0.1:0", "--access", str(access)) as daemon:
        assert daemon.process.stdout is not None
        with grpc.insecure_channel(daemon.process.stdout.readline().split()[-1]) as channel:
            yield channel


def token(access: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "symd", "token", "--access", str(access), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


WANTED = WatchRequest(start={"breakpoints": [{"id": "1", "breakpoint": {"line": {"file": "a.cl", "line": 1}}}]})
WAYS = {
    "breakpoints": lambda channel, **how: BreakpointServiceStub(channel).Watch(iter([WANTED]), **how),
    "health": lambda channel, **how: HealthStub(channel).Watch(HealthCheckRequest(), **how),
}


def ending(call: grpc.Call) -> grpc.StatusCode:
    """The status with which a call ends, whatever it tells before."""
    with pytest.raises(grpc.RpcError):
        for _ in call:
            pass
    return call.code()


@pytest.mark.parametrize("way", WAYS)
def test_a_silent_watch_ends_when_its_token_is_revoked(access: Path, channel: grpc.Channel, way: str) -> None:
    shown = (("authorization", f"Bearer {token(access, 'ci', '--rights', 'read')}"),)
    call = WAYS[way](channel, metadata=shown, timeout=SECONDS)
    assert next(iter(call))
    token(access, "ci", "--revoke")
    assert ending(call) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("way", WAYS)
def test_a_silent_watch_ends_when_its_right_is_taken_away(access: Path, channel: grpc.Channel, way: str) -> None:
    shown = (("authorization", f"Bearer {token(access, 'ci', '--rights', 'read')}"),)
    call = WAYS[way](channel, metadata=shown, timeout=SECONDS)
    assert next(iter(call))
    other = access.with_name("changed")
    other.touch(0o600)
    other.write_text(access.read_text().replace("ci read", "ci write"))
    other.replace(access)
    assert ending(call) is grpc.StatusCode.PERMISSION_DENIED
    assert "'read'" in call.details()
