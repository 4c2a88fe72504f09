"""Where the time of a cold index goes, and that of the single questions whose goals are not reached."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.answers import Text
from symd import index
from symd.config import Limits
from symd.debuginfo import reading
from symd.engine.engine import Engine
from symd.engine.files import gc_paused
from symd.formats import containers
from symd.index.builder import DecodedObject
from symd.index.lookup import search_index_file
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ObjectAddress
from symd.model.summaries import ModuleSummary
from symd.rpc.wire.answers import add_answer, from_answers
from symd.rpc.wire.fields import module_name
from symd.rpc.wire.queries import symbolize_request
from symd.store import Store
from symd.v1.symbol_service_pb2 import SymbolizeRequest, SymbolizeResponse

TIMES = 5
MODULES = 24
"""First questions that are taken apart."""
CALLS = 2000
"""Questions about an open index that are."""


@gc_paused()  # as the process does that indexes for the daemon (symd/system/process/worker.py)
def stages(path: Path) -> list[str]:
    """Median milliseconds of each stage, in one process, warm."""
    data = path.read_bytes()
    seconds: dict[str, list[float]] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        result = work()
        seconds.setdefault(name, []).append(time.perf_counter() - begun)
        return result

    for _ in range(TIMES):
        unpacked = stage(
            "containers.unpack: ELF, symbols, metadata of the kernels", lambda: containers.unpack(data, Limits())
        )
        indexed = [
            DecodedObject(
                code,
                stage("reading.read: relocation, line programs, DIE trees", lambda code=code: reading.read(code)),
            )
            for code in unpacked.objects
        ]
        stage(
            "index.build: merging, numbering, packing",
            lambda indexed=indexed: index.build(indexed, ModuleSummary("0" * 64, 0, "")),
        )
        stage("all of it, with digests and the summary", lambda: build_index(data, Limits()))
    return [f"{statistics.median(times) * 1e3:.0f} ms {name}" for name, times in seconds.items()]


@gc_paused()
def whole_index(path: Path) -> str:
    """Seconds and size for one more workload."""
    data = path.read_bytes()
    begun = time.perf_counter()
    built = build_index(data, Limits())
    seconds = time.perf_counter() - begun
    objects = len(index.Index(built).objects)
    return f"{path.name}: {len(data):,} bytes, {objects:,} code objects, indexed in {seconds:.2f} s, index {len(built):,} bytes"


def first_question(path: Path) -> list[str]:
    """Median milliseconds of the first question about a stored index that is not open, and of its parts, in this process; each about
    another module, as the daemon is asked by ``answers``."""
    data, address = path.read_bytes(), _addresses(path, 1)[0]
    with tempfile.TemporaryDirectory() as folder:
        with Engine(Store(Path(folder))) as engine:
            digests = [engine.add(data + number.to_bytes(4, "little")).sha256 for number in range(2 * MODULES)]
        with Engine(Store(Path(folder))) as engine:
            whole = _each(lambda digest: engine.symbolize_one(digest, address), digests[:MODULES])
            files = {}
            opened = _each(
                lambda digest: files.update({digest: engine.store.index(digest, index.VERSION)}), digests[MODULES:]
            )
            known = _each(engine.store.is_catalogued, digests[MODULES:])
            found = _each(lambda digest: search_index_file(files[digest], digest, address), digests[MODULES:])
    size = len(files[digests[-1]])
    return [
        f"{opened * 1e3:.2f} ms store.index: the file found, opened and mapped",
        f"{known * 1e3:.2f} ms store.is_catalogued: one row of SQLite",
        f"{found * 1e3:.2f} ms search_index_file: a search in {size:,} bytes, of which those that it reads are compared with their checksums",
        f"{whole * 1e3:.2f} ms all of it, in this process; the rest of the daemon's answer is the call",
    ]


def single_call(path: Path) -> list[str]:
    """Median microseconds of what symd adds to an empty call of gRPC for one address of an open index, in this process."""
    with tempfile.TemporaryDirectory() as folder, Engine(Store(Path(folder))) as engine:
        digest = engine.add(path.read_bytes()).sha256
        queries = _addresses(path, CALLS)
        asked = [symbolize_request(module_name(digest), (query,), None, as_written=False) for query in queries]
        requests = [each.SerializeToString() for each in asked]
        answers = [engine.symbolize_one(digest, query) for query in queries]
        responses = [_written(answer) for answer in answers]
        asking = _each(
            lambda query: symbolize_request(module_name(digest), (query,), None, as_written=False).SerializeToString(),
            queries,
        )
        reading = _each(SymbolizeRequest.FromString, requests)
        searching = _each(lambda query: engine.answer_from_open_index(digest, query), queries)
        writing = _each(_written, answers)
        understanding = _each(lambda data: from_answers(SymbolizeResponse.FromString(data).answers, 1)[0], responses)
    return [
        f"{asking * 1e6:.1f} us the client writes the request",
        f"{reading * 1e6:.1f} us the daemon reads it",
        f"{searching * 1e6:.1f} us the daemon searches",
        f"{writing * 1e6:.1f} us the daemon writes the answer",
        f"{understanding * 1e6:.1f} us the client reads it",
    ]


def _written(answer: Any) -> bytes:
    response = SymbolizeResponse()
    add_answer(response.answers, answer)
    return response.SerializeToString()


def _addresses(path: Path, count: int) -> list[ByAddress]:
    return [ByAddress(ObjectAddress(address)) for address in Text(path).addresses(count, 21).tolist()]


def _each(work: Callable[[Any], Any], things: Sequence[Any]) -> float:
    """Median seconds of one."""
    seconds = []
    for thing in things:
        begun = time.perf_counter()
        work(thing)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)
