"""What clients send stays within the daemon's memory, in its own process, and a neighbour is answered meanwhile."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import numpy as np
import pytest

from symd import Client
from symd.model.addresses import ByAddress, ObjectAddress
from symd.v1 import breakpoint_service_pb2 as b
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s
from symd.v1.breakpoint_service_pb2_grpc import BreakpointServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub
from tests.daemon.conftest import Daemon
from tests.daemon.processes import most_memory, serving
from tests.server.http2 import Connection, message

MIB = 1 << 20
MOST = 512 * MIB
"""What the daemon's own process may take."""
DATA = (Path(__file__).parents[2] / "samples/amdgpu/bin/v4-gfx900.co").read_bytes()
DIGEST = hashlib.sha256(DATA).hexdigest()
CLIENTS = 50
SYMBOLIZE = "symd.v1.SymbolService.Symbolize"


@contextmanager
def beside_a_neighbour(folder: Path) -> Iterator[tuple[Daemon, Client, int]]:
    """A daemon that knows the module, a client that is answered before and after, and an address of it."""
    with serving(folder) as daemon, daemon.client() as client:
        client.add(DATA)
        table = max(client.lines(DIGEST), key=len)
        address = table.text_sections[int(table.text_section[0])].address + int(table.offset[0])
        expected = client.symbolize_one(DIGEST, ByAddress(ObjectAddress(address)))
        yield daemon, client, address
        assert client.symbolize_one(DIGEST, ByAddress(ObjectAddress(address))) == expected
        assert most_memory(daemon.process.pid) < MOST


def all_at_once(work: Callable[[int], str]) -> list[str]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(work, range(CLIENTS)))


def own_memory(daemon: Daemon) -> int:
    lines = Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) << 10


@pytest.mark.parametrize("outside", [0, 1])
def test_beside_many_large_batches(tmp_path: Path, outside: int) -> None:
    """Ten megabytes each; with an address outside all text the answers take another way."""
    with beside_a_neighbour(tmp_path) as (daemon, _, address):
        values = np.full(1_250_000, address, "<u8")
        values[:outside] = 1
        column = q.PackedQueries(values=values.tobytes(), count=len(values))
        request = s.SymbolizeRequest(module=f"modules/{DIGEST}", packed_queries=column)

        def ask(number: int) -> str:
            options = (("grpc.use_local_subchannel_pool", 1), ("symd.number", number))
            with grpc.insecure_channel(daemon.address, options) as channel:
                try:
                    SymbolServiceStub(channel).Symbolize(request, timeout=120)
                except grpc.RpcError as error:
                    return str(error.code().name)
                return "OK"

        for _ in range(2):
            endings = all_at_once(ask)
            assert set(endings) <= {"OK", "RESOURCE_EXHAUSTED"}
            assert endings.count("OK") >= 2


def test_refused_batches_leave_nothing_behind(tmp_path: Path) -> None:
    with serving(tmp_path, "--limit", "client_bytes_in_flight=1000000") as daemon:
        column = q.PackedQueries(values=bytes(10_000_000), count=1_250_000)
        request = s.SymbolizeRequest(module=f"modules/{DIGEST}", packed_queries=column)
        before = own_memory(daemon)
        for _ in range(30):
            with grpc.insecure_channel(daemon.address) as channel, pytest.raises(grpc.RpcError) as caught:
                SymbolServiceStub(channel).Symbolize(request, timeout=60)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert own_memory(daemon) < before + 100 * MIB


def test_half_sent_messages(tmp_path: Path) -> None:
    """Of 64 MiB each, all but the last byte, as fast as the daemon takes them."""
    body = message(bytes(63 * MIB))[:-1]
    with beside_a_neighbour(tmp_path) as (daemon, _, _):

        def push(_number: int) -> str:
            with Connection(daemon.address) as connection, suppress(ConnectionError):
                connection.push(connection.call(SYMBOLIZE), body)
                kind = connection.ending[3] if connection.ending else b""
                return "daemon_memory" if b"daemon_memory" in kind else "whole"
            return "closed"

        endings = all_at_once(push)
        assert endings.count("daemon_memory") > CLIENTS // 2


def a_watch(breakpoints: int, rules: int, characters: int) -> b.WatchRequest:
    texts = [b.PathRule(prefix="/x" * (characters // 2), replacement=f"/{number}") for number in range(rules)]
    each = b.Breakpoint(line=b.SourceLine(file="a.cl", line=1), path_rules=texts)
    pending = [b.PendingBreakpoint(id=str(number), breakpoint=each) for number in range(breakpoints)]
    return b.WatchRequest(start=b.WatchStart(breakpoints=pending, only_new=True))


def beginning(daemon: Daemon, request: b.WatchRequest, number: int, seconds: float) -> tuple[object, str]:
    """The call, for as long as it is wanted, and how it began."""
    options = (("grpc.use_local_subchannel_pool", 1), ("symd.number", number), ("grpc.max_send_message_length", -1))
    channel = grpc.insecure_channel(daemon.address, options)
    call = BreakpointServiceStub(channel).Watch(iter([request]), timeout=seconds)
    try:
        next(call)
    except grpc.RpcError as error:
        channel.close()
        return None, f"{error.code().name} {'at most 4096' in error.details()}"
    return (channel, call), "OK"


def test_watches_with_large_requests(tmp_path: Path) -> None:
    request = a_watch(10, 1, 6_000_000)
    with beside_a_neighbour(tmp_path) as (daemon, _, _):
        endings = [beginning(daemon, request, number, 120)[1] for number in range(12)]
        assert endings == ["RESOURCE_EXHAUSTED True"] * 12


def test_watches_count_what_they_keep_and_it_goes_back(tmp_path: Path) -> None:
    """Of 7 MB each, of one client; and of a few bytes in which each field is an object."""
    requests = a_watch(18, 100, 4_000), a_watch(500, 100, 0)
    with beside_a_neighbour(tmp_path) as (daemon, _, _):
        before = own_memory(daemon)
        for request in requests:
            begun = [beginning(daemon, request, number, 120) for number in range(40)]
            endings = [ending.split()[0] for _, ending in begun]
            assert set(endings) <= {"OK", "RESOURCE_EXHAUSTED"}
            assert endings.count("RESOURCE_EXHAUSTED") > 20
            for call, _ in begun:
                if call is not None:
                    call[0].close()
        deadline = time.monotonic() + 120
        while own_memory(daemon) > before + 64 * MIB:
            assert time.monotonic() < deadline, own_memory(daemon) // MIB
            time.sleep(0.2)
