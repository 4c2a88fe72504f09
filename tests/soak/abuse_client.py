"""`python -m tests.soak.abuse_client ADDRESSES CLIENTS SEED MALFORMED`: so many clients in one process, each with a connection
of its own, which ask, add and now and then send what nobody can read, until SIGTERM. Every answer is compared with that of
an engine in this process. At the end one line of JSON: what was done, what was wrong, how long one address took."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from symd import Client
from symd.engine.engine import Engine
from symd.errors import DataLoss, DeadlineExceeded, LimitExceeded, ModuleNotFound, SymdError, Unavailable
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.names import Match, NameQuery
from symd.rpc import channel
from symd.store import Store
from symd.v1.symbol_service_pb2 import SymbolizeRequest
from tests.fuzz.mutations import SAMPLES, changed, samples

MODULES = (
    "kernels/bin/raycast/dg2-opt.dbg",
    "kernels/bin/vadd/dg2-opt.dbg",
    "amdgpu/bin/v[45]-gfx90*.co",
    "cuda/bin/saxpy*lines.cubin",
)
IGC_DEBUG_MAGIC = b"CTNI"
PAUSE_SECONDS = 1.0
"""Between two questions of a client, on average: two hundred clients on two processors must not only wait for each other."""
PASSING = (Unavailable, LimitExceeded, DeadlineExceeded, DataLoss, ModuleNotFound)
"""How a question may end while workers are killed, the disk is full and bytes are changed; each names its cause."""
REFUSED = {"INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}


@dataclass(frozen=True)
class Known:
    """A module, and the answers of the engine to what is asked about it."""

    data: bytes
    digest: str
    kernel: str
    offsets: tuple[int, ...]
    answers: tuple[Any, ...]
    names: tuple[Any, ...]
    place: ByKernel
    variables: Any


@dataclass
class Told:
    """What all clients of the process did. Safe to use from several threads by the lock of ``add``."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, what: str, wrong: str = "", seconds: float | None = None) -> None:
        with self._lock:
            self.done[what] += 1
            if wrong and len(self.wrong) < 100:
                self.wrong.append(wrong[:2000])
            if seconds is not None:
                self.seconds.append(seconds)


def known_modules() -> list[Known]:
    with tempfile.TemporaryDirectory() as folder, Engine(Store(Path(folder), durable=False)) as engine:
        return [_known(engine, path.read_bytes()) for pattern in MODULES for path in sorted(SAMPLES.glob(pattern))]


def _known(engine: Engine, data: bytes) -> Known:
    summary = engine.add(data)
    kernel = next(kernel for each in summary.objects for kernel in each.kernels)
    offsets = tuple(range(0, kernel.size + 64, max(kernel.size // 40, 8)))
    column = engine.symbolize_column(summary.sha256, np.array(offsets, np.uint64), kernel=kernel.name)
    names = tuple(engine.names(summary.sha256, NameQuery("*", Match.GLOB)))
    place = ByKernel(kernel.name, KernelOffset(kernel.size // 2 & ~7))
    variables = engine.variables(summary.sha256, place)
    return Known(data, summary.sha256, kernel.name, offsets, tuple(column), names, place, variables)


class AbusiveClient:
    """One client: a thread that asks until it is told to stop."""

    def __init__(self, address: str, seed: int, modules: list[Known], malformed: float, told: Told) -> None:
        self.dice = random.Random(seed)
        self.seed, self.address, self.modules, self.malformed, self.told = seed, address, modules, malformed, told
        self.client = connected(address)

    def run(self, stopping: threading.Event) -> None:
        while not stopping.wait(self.dice.expovariate(1 / PAUSE_SECONDS)):
            self.act()
        self.client.close()

    def act(self) -> None:
        if self.dice.random() < self.malformed:
            self._told("malformed", self._malformed)
            return
        action = self.dice.choices((self._one, self._many, self._names, self._variables, self._add), (12, 3, 2, 1, 2))[
            0
        ]
        self._told(action.__name__.strip("_"), lambda: action(self.dice.choice(self.modules)))

    def _told(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
            self.told.add(what)
        except PASSING as error:
            self.told.add(f"{what}: {error.reason}")
            if isinstance(error, DataLoss | ModuleNotFound):
                self._repair()
        except SymdError as error:
            self.told.add(f"{what}: {error.reason}", f"{what}: {error.status} {error}")
        except Exception as error:  # noqa: BLE001 - told to who runs the soak
            self.told.add(f"{what}: {type(error).__name__}", f"{what}: {type(error).__name__} {error}")

    def _repair(self) -> None:
        """What the daemon lost is sent again, as a client would."""
        for known in self.modules:
            try:
                if self.client.missing([known.digest]):
                    self.client.add(known.data)
                    self.told.add("repaired")
            except PASSING as error:
                self.told.add(f"repair: {error.reason}")

    def _one(self, known: Known) -> None:
        at = self.dice.randrange(len(known.offsets))
        query = ByKernel(known.kernel, KernelOffset(known.offsets[at]))
        began = time.perf_counter()
        answer = self.client.symbolize_one(known.digest, query)
        seconds = time.perf_counter() - began
        self.told.add(
            "answered", "" if answer == known.answers[at] else f"wrong: {answer} for {known.answers[at]}", seconds
        )

    def _many(self, known: Known) -> None:
        asked = np.array(known.offsets, np.uint64)
        answers = tuple(
            self.client.symbolize_column(known.digest, np.resize(asked, 10_000), kernel=known.kernel)[: len(asked)]
        )
        if answers != known.answers:
            self.told.add("wrong", f"wrong: a column of {known.digest}")

    def _names(self, known: Known) -> None:
        if tuple(self.client.names(known.digest, NameQuery("*", Match.GLOB))) != known.names:
            self.told.add("wrong", f"wrong: names of {known.digest}")

    def _variables(self, known: Known) -> None:
        if self.client.variables(known.digest, known.place) != known.variables:
            self.told.add("wrong", f"wrong: variables of {known.digest}")

    def _add(self, known: Known) -> None:
        """A module that nobody has sent before: what stands after a container's end is not read."""
        data = known.data + self.dice.randbytes(16) if known.data.startswith(IGC_DEBUG_MAGIC) else known.data
        if self.client.add(data).sha256 != hashlib.sha256(data).hexdigest():
            self.told.add("wrong", "wrong: another module came back")

    def _malformed(self) -> None:
        if self.dice.random() < 0.5:
            try:
                self.client.add(changed(self.dice, self.dice.choice(samples())))
            except SymdError as error:
                if error.status not in REFUSED and not isinstance(error, PASSING):
                    raise
            return
        connection, _ = channel.connect(self.address, channel.default_credentials())
        with connection:
            call = connection.unary_unary("/symd.v1.SymbolService/Symbolize")
            try:
                call(self.dice.randbytes(40) + SymbolizeRequest(module="modules/x").SerializeToString(), timeout=10)
            except grpc.RpcError as error:
                if error.code().name in ("UNKNOWN", "INTERNAL"):
                    self.told.add("wrong", f"wrong: {error.code()} for bytes that are no message: {error.details()}")


def connected(address: str) -> Client:
    return Client(address, timeout=30)


def main(addresses: str, count: str, seed: str, malformed: str) -> int:
    stopping, told = threading.Event(), Told()
    alone = (("grpc.use_local_subchannel_pool", 1),)  # else all share one connection
    channel.SINGLE_DAEMON_OPTIONS = (*channel.SINGLE_DAEMON_OPTIONS, *alone)  # type: ignore[misc]
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    modules = known_modules()
    first = connected(addresses.partition(",")[0])
    for known in modules:
        first.add(known.data)
    clients = [
        AbusiveClient(address, int(seed) * 1000 + number, modules, float(malformed), told)
        for number, address in zip(range(int(count)), addresses.split(",") * int(count), strict=False)
    ]
    threads = [threading.Thread(target=each.run, args=(stopping,)) for each in clients]
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first.close()
    print(json.dumps({"done": told.done, "wrong": told.wrong, "seconds": told.seconds}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
