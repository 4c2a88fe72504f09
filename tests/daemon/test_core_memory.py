"""Core dumps of deep stacks, asked for by several callers at a time, stay within the daemon's memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from symd.v1.core_service_pb2 import ReadCoreRequest
from symd.v1.core_service_pb2_grpc import CoreServiceStub
from tests.cores.dumps import KERNEL, Dump
from tests.daemon.conftest import Daemon
from tests.daemon.processes import most_memory, serving

MOST = 256 << 20
CALLERS, LANES = 4, 64


def dump(depth: int) -> bytes:
    made = Dump()
    for number in range(LANES // 32):
        warp = made.warp(made.cta, number=number)
        for lane in range(32):
            at = 8 * (lane + 1) + 4 * number
            calls = [(8 * (call % 60), KERNEL + 8 * (call % 60)) for call in range(depth)]
            made.lane(warp, number=lane, pc=KERNEL + at, offset=at, calls=calls, exception=14)
    return made.build()


def read(daemon: Daemon, digest: str, number: int) -> tuple[str, int]:
    """How the call ended, and calls of stacks that came."""
    options = (("grpc.use_local_subchannel_pool", 1), ("symd.number", number))
    with grpc.insecure_channel(daemon.address, options) as channel:
        try:
            parts = CoreServiceStub(channel).ReadCore(ReadCoreRequest(module=f"modules/{digest}"), timeout=300)
            return "OK", sum(len(part.stack.calls) for part in parts)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}", 0


def test_deep_stacks_for_several_callers(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, daemon.client() as client:
        module = client.add(dump(3_000)).sha256
        with ThreadPoolExecutor(CALLERS) as pool:
            found = list(pool.map(lambda number: read(daemon, module, number), range(CALLERS)))
        assert found == [("OK", LANES * 3_001)] * CALLERS
        assert most_memory(daemon.process.pid) < MOST


def test_more_calls_than_the_limit(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon, daemon.client() as client:
        module = client.add(dump(3_200)).sha256
        ending, _ = read(daemon, module, 0)
        assert ending.startswith("RESOURCE_EXHAUSTED")
        assert "more than 200000 calls" in ending
        assert read(daemon, client.add(dump(10)).sha256, 1) == ("OK", LANES * 11)
