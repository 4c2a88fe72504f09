"""What a client feels that asks one address after another while somebody else abuses the daemon: the time of its answers, beside
the same without the abuse, and what memory the daemon takes.

`python -m benchmarks.neighbour OBJECT [ABUSE ...]` prints a row for each abuse; OBJECT is a linked AMDGPU code object.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import grpc
import numpy as np

from symd import Client
from symd.model.addresses import ByAddress
from symd.v1 import module_service_pb2 as m
from symd.v1 import query_pb2 as q
from symd.v1 import symbol_service_pb2 as s
from symd.v1.module_service_pb2_grpc import ModuleServiceStub
from symd.v1.symbol_service_pb2_grpc import SymbolServiceStub

SECONDS = 12.0
"""How long what is silent or idle stays so."""
LONGEST = 30.0
"""Seconds after which an abuse that has not ended is ended."""
BATCHES, BATCH_BYTES = 50, 10_000_000
UPLOAD_BYTES = 133 << 20
SILENT_CALLS, IDLE_STREAMS = 300, 40
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def queries(digest: str, addresses: np.ndarray, form: int) -> s.SymbolizeRequest:
    asked = [q.Query(address=address) for address in addresses.tolist()]
    return s.SymbolizeRequest(name=f"modules/{digest}", queries=asked, form=form)


def batches(address: str, request: s.SymbolizeRequest) -> str:
    """Fifty batches at once, each on a connection of its own; how many were answered, and how they ended."""

    def ask(number: int) -> str:
        options = (*OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("symd.number", number))
        with grpc.insecure_channel(address, options) as channel:
            try:
                SymbolServiceStub(channel).Symbolize(request, timeout=120)
            except grpc.RpcError as error:
                return error.code().name
            return "OK"

    with ThreadPoolExecutor(BATCHES) as pool:
        endings = list(pool.map(ask, range(BATCHES)))
    return ", ".join(f"{endings.count(each)} {each}" for each in sorted(set(endings)))


def abuse_rows(address: str, digest: str, addresses: np.ndarray) -> str:
    count = BATCH_BYTES // queries(digest, np.resize(addresses, 1000), s.ANSWER_FORM_ROWS).ByteSize() * 1000
    return batches(address, queries(digest, np.resize(addresses, count), s.ANSWER_FORM_ROWS))


def abuse_queries(address: str, digest: str, addresses: np.ndarray) -> str:
    count = BATCH_BYTES // queries(digest, np.resize(addresses, 1000), s.ANSWER_FORM_COLUMNS).ByteSize() * 1000
    return batches(address, queries(digest, np.resize(addresses, count), s.ANSWER_FORM_COLUMNS))


def abuse_columns(address: str, digest: str, addresses: np.ndarray) -> str:
    values = np.resize(addresses, BATCH_BYTES // 8)
    column = q.QueryColumn(values=values.astype("<u8").tobytes(), count=len(values))
    return batches(address, s.SymbolizeRequest(name=f"modules/{digest}", column=column))


def abuse_upload(address: str, _digest: str, _addresses: np.ndarray) -> str:
    data = np.random.default_rng(1).bytes(UPLOAD_BYTES)

    def parts() -> Iterator[m.UploadModuleRequest]:
        yield m.UploadModuleRequest(
            header=m.UploadHeader(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        )
        for start in range(0, len(data), 1 << 20):
            yield m.UploadModuleRequest(chunk=data[start : start + (1 << 20)])

    with grpc.insecure_channel(address) as channel:
        try:
            ModuleServiceStub(channel).UploadModule(parts(), timeout=120)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


def abuse_silent(address: str, _digest: str, _addresses: np.ndarray) -> str:
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait()
        yield from ()

    calls = []
    with ExitStack() as stack:
        for number in range(4):
            options = (("grpc.use_local_subchannel_pool", 1), ("symd.number", number))
            channel = stack.enter_context(grpc.insecure_channel(address, options))
            method = channel.stream_unary("/symd.v1.SymbolService/Symbolize")
            calls += [method.future(nothing()) for _ in range(SILENT_CALLS // 4)]
        time.sleep(SECONDS)
        over.set()
        for call in calls:
            call.cancel()
    return f"{len(calls)} calls without a message"


def abuse_idle(address: str, digest: str, addresses: np.ndarray) -> str:
    over = threading.Event()
    request = queries(digest, addresses[:1], s.ANSWER_FORM_ROWS)

    def one() -> Iterator[s.SymbolizeStreamRequest]:
        yield s.SymbolizeStreamRequest(id=1, batch=request)
        over.wait()

    with grpc.insecure_channel(address) as channel:
        calls = [SymbolServiceStub(channel).SymbolizeStream(one()) for _ in range(IDLE_STREAMS)]
        opened = 0
        for call in calls:
            with suppress(grpc.RpcError):
                opened += next(call).id
        time.sleep(SECONDS / 2)
        over.set()
    return f"{opened} idle streams, {IDLE_STREAMS - opened} refused"


ABUSES: dict[str, Callable[[str, str, np.ndarray], str]] = {
    "rows": abuse_rows,
    "queries": abuse_queries,
    "columns": abuse_columns,
    "upload": abuse_upload,
    "silent": abuse_silent,
    "idle": abuse_idle,
}


@contextmanager
def daemon(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/symd"
        command = (sys.executable, "-m", "symd", "serve", "--address", address, "--store", f"{folder}/store")
        with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
            try:
                process.stdout.readline()
                yield process, address
            finally:
                process.terminate()


def text_addresses(client: Client, digest: str) -> np.ndarray:
    table = max(client.lines(digest), key=len)
    places = np.array([place.address for place in table.text_sections], np.uint64)
    found: np.ndarray = np.unique(places[table.text_section] + table.offset)
    return found


def memory(process: subprocess.Popen[str], what: str) -> float:
    """MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(what))) / 1024


def ask(client: Client, digest: str, addresses: np.ndarray, going: Callable[[], bool]) -> list[float]:
    """Seconds of each answer."""
    taken: list[float] = []
    while going():
        query = ByAddress(int(addresses[len(taken) % len(addresses)]))
        begun = time.perf_counter()
        client.symbolize_one(digest, query)
        taken.append(time.perf_counter() - begun)
        time.sleep(0.002)
    return taken


def shown(taken: list[float]) -> str:
    p50, p99, most = np.percentile(np.array(taken) * 1e3, (50, 99, 100))
    return f"p50 {p50:.2f} ms, p99 {p99:.1f} ms, longest {most:.0f} ms of {len(taken)}"


def row(name: str, data: bytes, path: Path, arguments: list[str]) -> str:
    with daemon(*arguments) as (process, address), Client(address, timeout=60) as client:
        digest = client.add(data).sha256
        addresses = text_addresses(client, digest)
        until = time.monotonic() + 2
        quiet = ask(client, digest, addresses, lambda: time.monotonic() < until)
        command = [sys.executable, "-m", "benchmarks.neighbour", str(path), "--abuse", name, "--address", address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as abuser:
            abuser.stdout.readline()
            until = time.monotonic() + LONGEST
            taken = ask(client, digest, addresses, lambda: abuser.poll() is None and time.monotonic() < until)
            said = abuser.stdout.read().strip() if abuser.poll() is not None else "it went on longer"
            abuser.kill()
        peak = memory(process, "VmHWM")
    return f"{name}: {shown(taken)}; alone {shown(quiet)}; the daemon's memory at most {peak:.0f} MiB; {said}"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("object", type=Path)
    parser.add_argument("names", nargs="*", metavar="ABUSE")
    parser.add_argument("--abuse", choices=ABUSES, help="be the one who abuses")
    parser.add_argument("--address")
    chosen, rest = parser.parse_known_args(arguments)
    data = chosen.object.read_bytes()
    if chosen.abuse:
        with Client(chosen.address) as client:
            digest = hashlib.sha256(data).hexdigest()
            addresses = text_addresses(client, digest)
        print("begins", flush=True)
        print(ABUSES[chosen.abuse](chosen.address, digest, addresses), flush=True)
        return
    for name in chosen.names or ABUSES:
        print(row(name, data, chosen.object, rest), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
