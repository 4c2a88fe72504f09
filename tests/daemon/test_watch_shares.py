"""Watches last for days: one client that opens as many as it may leaves room for others."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest

from symd.server.standard_services import CLIENT_WATCHES
from symd.v1.breakpoint_service_pb2 import WatchRequest, WatchStart
from symd.v1.breakpoint_service_pb2_grpc import BreakpointServiceStub
from symd.v1.server_service_pb2 import GetServerInfoRequest
from symd.v1.server_service_pb2_grpc import ServerServiceStub
from tests.daemon.processes import serving

SECONDS = 60
"""Generous: each takes milliseconds."""
START = WatchRequest(start=WatchStart())


def shown(access: Path, name: str) -> dict[str, object]:
    """How a new client of that name makes its calls."""
    command = [sys.executable, "-m", "symd", "token", "--access", str(access), name, "--rights", "read"]
    token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    return {"metadata": (("authorization", f"Bearer {token}"),), "timeout": SECONDS}


def test_one_client_cannot_take_all_watches(tmp_path: Path) -> None:
    access = tmp_path / "access"
    greedy, other = shown(access, "greedy"), shown(access, "other")
    more = ("--address", "127.0.0.1:0", "--access", str(access))
    with serving(tmp_path, *more) as daemon:
        assert daemon.process.stdout is not None
        with grpc.insecure_channel(daemon.process.stdout.readline().split()[-1]) as channel:
            info = ServerServiceStub(channel).GetServerInfo(GetServerInfoRequest(), **greedy).info
            most = info.max_watches
            assert {each.name: each.amount for each in info.limits}["client_watches"] == most == CLIENT_WATCHES
            watch = BreakpointServiceStub(channel).Watch
            first, *more_of_them = (watch(iter([START]), **greedy) for _ in range(most))
            for each in (first, *more_of_them):
                next(each)
            with pytest.raises(grpc.RpcError) as caught:
                next(watch(iter([START]), **greedy))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert f"greedy has {most} watches open already" in caught.value.details()
            next(watch(iter([START]), **other))
            first.cancel()
            until = time.monotonic() + SECONDS
            while not begins(watch(iter([START]), **greedy)):
                assert time.monotonic() < until


def begins(watch: grpc.Call) -> bool:
    """Whether the watch is let in."""
    try:
        next(watch)
    except grpc.RpcError:
        return False
    return True
