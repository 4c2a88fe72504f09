"""Fuzzes a real daemon over gRPC: bytes that no client of ours would send to every RPC. Each call ends in a status of the
contract, the daemon lives, and its modules are as they were."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from symd.model.contexts import Context
from symd.server.config import Config
from symd.server.server import services
from tests.fuzz import frames
from tests.fuzz.messages import Words, request
from tests.fuzz.watchdog import ChildException
from tests.soak.daemon import Daemon

GOOD = sorted((Path(__file__).parents[2] / "samples").glob("*/bin/**/*raycast*/dg2-opt.dbg")) + [
    Path(__file__).parents[2] / "samples" / vendor / "bin" / name
    for vendor, name in (("amdgpu", "v4-gfx900.co"), ("cuda", "raycast.sm_90.debug.cubin"), ("spirv", "waves.g.spv"))
]
CONTRACT = {
    "OK",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "UNIMPLEMENTED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "OUT_OF_RANGE",
}
SECONDS_EACH = 20.0
_LASTING = {"Watch": 0.3}
"""Calls that end only when the caller leaves, and after how many seconds it does."""
_RARE = {"GrabModule": 0.9, "GetListing": 0.7}
"""Calls that start processes: so often another is made instead."""
_FORGETTING = {"DeleteModule"}
"""Calls that would take away what the others talk about."""
_MOST_ANSWERS = 1000
_GRPC_ERROR = re.compile(r"E\d{4} [\d:.]+ +\d+ \w+\.cc:\d+\] ")
"""How gRPC begins a line about a frame that makes no sense."""
_BY_HAND = 0.1
"""The share of connections whose frames no gRPC library would send."""


@dataclass
class WireReport:
    statuses: Counter[str] = field(default_factory=Counter)
    defects: list[ChildException] = field(default_factory=list)


class WireFuzzer:
    """Calls to one daemon. ``prepare`` gives it modules and contexts to talk about."""

    def __init__(self, daemon: Daemon, seed: int, folder: Path) -> None:
        self.daemon, self.seed, self.folder = daemon, seed, folder
        self.report = WireReport()
        self.words = Words(self._prepared())
        self.methods = sorted(
            (method for service in services() for method in service.methods if method.name not in _FORGETTING),
            key=lambda m: m.full_name,
        )
        self.stored = daemon.stored()

    def _prepared(self) -> tuple[str, ...]:
        with self.daemon.client() as client:
            modules = [client.add(path.read_bytes()) for path in GOOD]
            for module in modules:
                list(client.lines(module.sha256))
            context = client.contexts.add(Context())
        names = [f"modules/{module.sha256}" for module in modules]
        kernels = [kernel.name for module in modules for each in module.objects for kernel in each.kernels]
        objects = [each.path for module in modules for each in module.objects]
        digests = [module.sha256 for module in modules]
        return (*names, *names, *digests, context, *kernels, *objects, "raycast.cl", ".text.raycast")

    def run(self, seconds: float) -> WireReport:
        end, number = time.monotonic() + seconds, 0
        with grpc.insecure_channel(self.daemon.address, options=[("grpc.max_receive_message_length", -1)]) as channel:
            while time.monotonic() < end and self.daemon.process.poll() is None:
                self._call(channel, number)
                number += 1
        self._look_after()
        return self.report

    def _call(self, channel: grpc.Channel, number: int) -> None:
        dice = random.Random(f"{self.seed}/wire/{number}")
        if dice.random() < _BY_HAND:
            frames.converse(dice, self.daemon.address, [method.full_name for method in self.methods], self.words)
            self.report.statuses["frames by hand"] += 1
            return
        method = dice.choice(self.methods)
        while dice.random() < _RARE.get(method.name, 0):
            method = dice.choice(self.methods)
        kind = GetMessageClass(method.input_type)
        count = dice.choice((0, 1, 1, 2, 5)) if method.client_streaming else 1
        sent = [request(dice, kind, self.words) for _ in range(count)]
        status, problem = self._status(channel, method, sent)
        self.report.statuses[status] += 1
        if problem:
            self._keep(number, f"{method.full_name}: {problem}", sent)

    def _status(self, channel: grpc.Channel, method: MethodDescriptor, sent: list[bytes]) -> tuple[str, str]:
        """The status, and what is wrong with it, if something is."""
        patience = _LASTING.get(method.name, SECONDS_EACH)
        try:
            _answered(channel, method, sent, patience)
        except grpc.RpcError as error:
            code = error.code().name
            fits = code in CONTRACT or (code == "DEADLINE_EXCEEDED" and method.name in _LASTING)
            if fits:
                return code, ""
            return code, f"{code}: {error.details()}"
        return "OK", ""

    def _look_after(self) -> None:
        if self.daemon.process.poll() is not None:
            self._keep(-1, f"the daemon ended with {self.daemon.process.returncode}", [])
            return
        changed = set(self.stored.items()) ^ set(self.daemon.stored().items())
        if changed:
            self._keep(-1, f"the store changed: {sorted(changed)}", [])
        with self.daemon.client() as client:
            if len(list(client.modules())) != len(GOOD):
                self._keep(-1, "the catalogue changed", [])

    def end(self) -> WireReport:
        """End the daemon: at once, since nobody asks any more, and without a word of a defect in its log."""
        if self.daemon.process.poll() is None:
            began, code = time.monotonic(), self.daemon.end()
            if code or time.monotonic() - began > Config().grace:
                self._keep(-2, f"SIGTERM ended the daemon with {code} after {time.monotonic() - began:.1f} s", [])
        for line in [line for line in self.daemon.said() if not _GRPC_ERROR.match(line)][:10]:
            self._keep(-3, f"the daemon's log says: {line}", [])
        return self.report

    def _keep(self, number: int, what: str, sent: list[bytes]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"wire-{self.seed}-{number}"
        for part, data in enumerate(sent):
            path.with_suffix(f".{part}").write_bytes(data)
        path.with_suffix(".txt").write_text(f"{what}\n")
        self.report.defects.append(ChildException(what, path))


def _answered(channel: grpc.Channel, method: MethodDescriptor, sent: list[bytes], patience: float) -> None:
    """Make the call with the bytes as they are, one in 32 compressed, which is refused, and take the answers."""
    address = f"/{method.containing_service.full_name}/{method.name}"
    many_in, many_out = method.client_streaming, method.server_streaming
    kinds: dict[tuple[bool, bool], Any] = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    made = kinds[many_in, many_out](address, request_serializer=None, response_deserializer=None)
    compression = None if sum(map(len, sent)) % 32 else grpc.Compression.Gzip
    call = made(iter(sent) if many_in else sent[0], timeout=patience, compression=compression)
    if many_out:
        _drain(call)


def _drain(call: Any) -> None:
    for _, _ in zip(range(_MOST_ANSWERS), call, strict=False):
        pass
    call.cancel()
