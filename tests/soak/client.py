"""`python -m tests.soak.client ADDRESS SEED`: one client process that does everything a client does, in no order, until
SIGTERM, and compares each answer with the engine's in its own process. Prints a line of JSON for each answer that differs
and each error nobody expects, and what it did. May be killed at any time."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from symd import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import DeadlineExceeded, SymdError, Unavailable
from symd.model.addresses import ByKernel, KernelOffset, Query
from symd.model.columns import U64
from symd.model.line_tables import LineTable
from symd.model.names import Match, NameQuery
from symd.store import Store
from symd.v1.module_service_pb2 import UploadHeader, UploadModuleRequest
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from tests.fuzz.mutations import SAMPLES, changed, samples

MODULES = ("kernels/bin/*/dg2-opt.dbg", "amdgpu/bin/v[456]-*.co", "cuda/bin/*lines.cubin", "spirv/bin/*.spv")
REFUSED = {"INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}


class Worker:
    """What one client knows: its modules, and an engine of its own that answers for comparison."""

    def __init__(self, address: str, seed: int, folder: Path) -> None:
        self.dice, self.seed, self.address = random.Random(seed), seed, address
        self.client = Client(address, timeout=60)
        self.engine = Engine(Store(folder, durable=False), Limits())
        files = sorted(path for pattern in MODULES for path in SAMPLES.glob(pattern))
        self.modules = [path.read_bytes() for path in self.dice.sample(files, 12)]
        self.digests: list[str] = []
        self.done: Counter[str] = Counter()

    def act(self) -> None:
        action = self.dice.choice(ACTIONS) if len(self.digests) >= 3 else Worker.add
        action(self)
        self.done[action.__name__] += 1

    def module(self) -> str:
        return self.dice.choice(self.digests)

    def same(self, ask: Callable[[Any], Any]) -> Any:
        """The daemon's answer. Raises AssertionError when the engine's is another."""
        theirs, ours = ask(self.client), ask(self.engine)
        assert theirs == ours, f"the daemon says {str(theirs)[:300]}, the engine {str(ours)[:300]}"
        return theirs

    def add(self) -> None:
        data = self.dice.choice(self.modules)
        self.same(lambda to: to.add(data))
        self.digests = sorted({*self.digests, hashlib.sha256(data).hexdigest()})

    def add_new(self) -> None:
        """A module that nobody has sent before: what stands behind a container's end is not read."""
        base = (SAMPLES / "kernels/bin/vadd/dg2-opt.dbg").read_bytes()
        data = base + self.dice.randbytes(16)
        self.same(lambda to: to.add(data))
        self.digests.append(hashlib.sha256(data).hexdigest())

    def symbolize_column(self) -> None:
        digest = self.module()
        for kernel, values in self._kernels(digest):
            self.same(partial(column, digest=digest, kernel=kernel, values=values))

    def symbolize_stream(self) -> None:
        """So many addresses that they travel as a stream."""
        digest = self.module()
        for kernel, values in self._kernels(digest)[:1]:
            many = np.resize(values, 70_000)
            theirs = self.client.symbolize_column(digest, many, kernel=kernel)
            ours = self.engine.symbolize_column(digest, many, kernel=kernel)
            assert len(theirs) == len(ours) == 70_000
            for at in (0, 35_000, *range(70_000 - len(values), 70_000)):
                assert theirs[at] == ours[at]

    def symbolize_queries(self) -> None:
        digest = self.module()
        queries: list[Query] = [
            ByKernel(kernel, KernelOffset(value))
            for kernel, values in self._kernels(digest)
            for value in values.tolist()
        ]
        self.same(lambda to: list(to.symbolize(digest, [*queries, ByKernel("nobody", KernelOffset(0))])))
        if queries:
            self.same(lambda to: to.symbolize_one(digest, queries[0]))

    def _kernels(self, digest: str) -> list[tuple[str, U64]]:
        kernels = [kernel for each in self.engine.module(digest).objects for kernel in each.kernels]
        return [(kernel.name, np.linspace(0, kernel.size + 64, 50).astype(np.uint64)) for kernel in kernels[:4]]

    def lines(self) -> None:
        digest = self.module()
        self.same(lambda to: [spelled(table) for table in to.lines(digest)])

    def names(self) -> None:
        digest = self.module()
        self.same(lambda to: list(to.names(digest, NameQuery("*", Match.GLOB))))

    def describe(self) -> None:
        digest = self.module()
        summary = self.same(lambda to: to.module(digest))
        path = self.dice.choice(summary.objects).path
        self.same(lambda to: to.object_data(digest, path))

    def catalogue(self) -> None:
        assert set(self.digests) <= {record.sha256 for record in self.client.modules()}
        assert self.client.missing([*self.digests, "0" * 64]) == ["0" * 64]

    def bad_upload(self) -> None:
        data = changed(self.dice, self.dice.choice(samples()))
        try:
            self.same(lambda to: to.add(data))
        except SymdError as error:
            if error.status not in REFUSED:
                raise

    def cancelled_upload(self) -> None:
        """The caller leaves in the middle."""
        data = self.dice.choice(self.modules)
        header = UploadHeader(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data) + 1)
        with grpc.insecure_channel(self.address) as channel:
            parts = [UploadModuleRequest(header=header), UploadModuleRequest(chunk=data)]
            stub = ModuleServiceStub(channel)  # type: ignore[no-untyped-call] # generated
            call = stub.UploadModule.future(slowly(parts, self.dice.random() / 20))
            if self.dice.random() < 0.5:
                call.cancel()

    def cancelled_lines(self) -> None:
        for table in islice(self.client.lines(self.module()), self.dice.choice((0, 1))):
            assert len(table.line)

    def impatient(self) -> None:
        """A deadline that passes while the daemon works, or does not."""
        digest = self.module()
        hurried = self.client.with_timeout(self.dice.random() / 200)
        try:
            list(hurried.lines(digest))
            hurried.symbolize_column(digest, np.zeros(70_000, np.uint64))
        except DeadlineExceeded:
            self.done["late"] += 1

    def new_channel(self) -> None:
        """Who leaves without a word, and comes again."""
        if self.dice.random() < 0.5:
            self.client.close()
        self.client = Client(self.address, timeout=60)


def column(to: Any, digest: str, kernel: str, values: U64) -> list[Any]:
    return list(to.symbolize_column(digest, values, kernel=kernel))


def slowly(parts: list[UploadModuleRequest], pause: float) -> Any:
    """The parts, and then nothing for a while: the announced size is never reached."""
    for part in parts:
        yield part
        time.sleep(pause)


def spelled(table: LineTable) -> list[tuple[Any, ...]]:
    """Rows with the texts that they mean: the numbers of texts are nobody's business."""
    strings, places = table.strings, table.text_sections
    columns = [column.tolist() for column in (table.offset, table.line, table.column, table.flags)]
    named = [[strings[number] for number in column.tolist()] for column in (table.kernel, table.function, table.file)]
    where = [(places[number].path, places[number].section_index) for number in table.text_section.tolist()]
    return list(zip(where, *columns, *named, strict=True))


ACTIONS: tuple[Callable[[Worker], None], ...] = (
    Worker.add,
    Worker.add_new,
    Worker.symbolize_column,
    Worker.symbolize_column,
    Worker.symbolize_stream,
    Worker.symbolize_queries,
    Worker.symbolize_queries,
    Worker.lines,
    Worker.names,
    Worker.describe,
    Worker.catalogue,
    Worker.bad_upload,
    Worker.cancelled_upload,
    Worker.cancelled_lines,
    Worker.impatient,
    Worker.new_channel,
)


def main(address: str, seed: str) -> int:
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(address, int(seed), Path(folder))
        print(json.dumps({"ready": True}), flush=True)
        while not stopping:
            try:
                worker.act()
                print(json.dumps({"done": worker.done}), flush=True)
                worker.done.clear()
            except Unavailable as error:
                print(json.dumps({"gone": str(error)}), flush=True)
                break
            except Exception:  # noqa: BLE001 - told to who runs the soak
                print(json.dumps({"error": traceback.format_exc()}), flush=True)
        worker.client.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
