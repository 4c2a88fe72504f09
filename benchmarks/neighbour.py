"""What a client feels that asks one address after another while somebody else abuses the daemon: the time of its answers, beside
the same without the abuse, and what memory the daemon takes; and whether it matters by which RPC others send their batches.

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
from functools import partial
from pathlib import Path

import grpc
import numpy as np

from benchmarks.grpc_path import Row
from symd import Client
from symd.model.addresses import ByAddress
from symd.v1 import line_table_pb2 as t
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
BUSY_CLIENTS, BUSY_ADDRESSES = 40, 10_000
"""Clients that send batch after batch, each on a connection of its own, and what each batch asks for."""
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


def queries(digest: str, addresses: np.ndarray, form: int) -> s.SymbolizeRequest:
    asked = [q.Query(address=address) for address in addresses.tolist()]
    return s.SymbolizeRequest(module=f"modules/{digest}", queries=asked, form=form)


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
    count = BATCH_BYTES // queries(digest, np.resize(addresses, 1000), s.ANSWER_FORM_PACKED).ByteSize() * 1000
    return batches(address, queries(digest, np.resize(addresses, count), s.ANSWER_FORM_PACKED))


def abuse_columns(address: str, digest: str, addresses: np.ndarray) -> str:
    values = np.resize(addresses, BATCH_BYTES // 8)
    column = q.PackedQueries(values=values.astype("<u8").tobytes(), count=len(values))
    return batches(address, s.SymbolizeRequest(module=f"modules/{digest}", packed_queries=column))


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
        yield s.SymbolizeStreamRequest(id=1, request=request)
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


def busy_request(digest: str, addresses: np.ndarray) -> s.SymbolizeRequest:
    values = np.resize(addresses, BUSY_ADDRESSES)
    column = q.PackedQueries(values=values.astype("<u8").tobytes(), count=len(values))
    return s.SymbolizeRequest(module=f"modules/{digest}", packed_queries=column)


def busy(address: str, ask: Callable[[grpc.Channel, threading.Event], int]) -> str:
    """Forty clients of which each does ``ask``, which counts its answers, for as long as it is let. Messages stay bytes: the clients cost as little as
    they can."""
    over = threading.Event()

    def one(number: int) -> int:
        options = (*OPTIONS, ("grpc.use_local_subchannel_pool", 1), ("symd.number", number))
        with grpc.insecure_channel(address, options) as channel:
            return ask(channel, over)

    with ThreadPoolExecutor(BUSY_CLIENTS) as pool:
        counts = [pool.submit(one, number) for number in range(BUSY_CLIENTS)]
        time.sleep(SECONDS)
        over.set()
        return f"{sum(count.result() for count in counts) / SECONDS:.0f} messages a second"


def abuse_unary(address: str, digest: str, addresses: np.ndarray) -> str:
    data = busy_request(digest, addresses).SerializeToString()

    def ask(channel: grpc.Channel, over: threading.Event) -> int:
        method, count = channel.unary_unary("/symd.v1.SymbolService/Symbolize"), 0
        while not over.is_set():
            method(data)
            count += 1
        return count

    return busy(address, ask)


def abuse_stream(address: str, digest: str, addresses: np.ndarray) -> str:
    data = s.SymbolizeStreamRequest(id=1, request=busy_request(digest, addresses)).SerializeToString()

    def ask(channel: grpc.Channel, over: threading.Event) -> int:
        batches = iter(lambda: None if over.is_set() else data, None)
        return sum(1 for _ in channel.stream_stream("/symd.v1.SymbolService/SymbolizeStream")(batches))

    return busy(address, ask)


def abuse_lines(address: str, digest: str, _addresses: np.ndarray) -> str:
    data = s.GetLineTableRequest(module=f"modules/{digest}", level=t.LINE_LEVEL_SOURCE).SerializeToString()

    def ask(channel: grpc.Channel, over: threading.Event) -> int:
        method, count = channel.unary_stream("/symd.v1.SymbolService/GetLineTable"), 0
        while not over.is_set():
            count += sum(1 for _ in method(data))
        return count

    return busy(address, ask)


ABUSES: dict[str, Callable[[str, str, np.ndarray], str]] = {
    "rows": abuse_rows,
    "queries": abuse_queries,
    "columns": abuse_columns,
    "upload": abuse_upload,
    "silent": abuse_silent,
    "idle": abuse_idle,
    "unary": abuse_unary,
    "stream": abuse_stream,
    "lines": abuse_lines,
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


@contextmanager
def abused(name: str, path: Path, address: str) -> Iterator[subprocess.Popen[str]]:
    """A process that abuses the daemon, and has begun."""
    command = [sys.executable, "-m", "benchmarks.neighbour", str(path), "--abuse", name, "--address", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as abuser:
        try:
            abuser.stdout.readline()
            yield abuser
        finally:
            abuser.kill()


def asked_meanwhile(
    name: str, path: Path, address: str, ask_while: Callable[[Callable[[], bool]], list[float]]
) -> tuple[list[float], str]:
    """Seconds of each answer, and what the abuser says."""
    with abused(name, path, address) as abuser:
        until = time.monotonic() + LONGEST
        taken = ask_while(lambda: abuser.poll() is None and time.monotonic() < until)
        return taken, abuser.stdout.read().strip() if abuser.poll() is not None else "it went on longer"


def row(name: str, path: Path, arguments: list[str]) -> str:
    with daemon(*arguments) as (process, address), Client(address, timeout=60) as client:
        digest = client.add(path.read_bytes()).sha256
        asking = partial(ask, client, digest, text_addresses(client, digest))
        until = time.monotonic() + 2
        quiet = asking(lambda: time.monotonic() < until)
        taken, said = asked_meanwhile(name, path, address, asking)
        peak = memory(process, "VmHWM")
    return f"{name}: {shown(taken)}; alone {shown(quiet)}; the daemon's memory at most {peak:.0f} MiB; {said}"


def fairness(path: Path, rounds: int) -> Row:
    """One address beside forty clients that send batch after batch: by SymbolizeStream, and by Symbolize, in turns."""
    taken: dict[str, list[float]] = {"unary": [], "stream": []}
    rates: dict[str, list[str]] = {"unary": [], "stream": []}
    with daemon("--streams", str(BUSY_CLIENTS)) as (_, address), Client(address, timeout=60) as client:
        digest = client.add(path.read_bytes()).sha256
        asking = partial(ask, client, digest, text_addresses(client, digest))
        for _ in range(rounds):
            for name in taken:
                answered, said = asked_meanwhile(name, path, address, asking)
                taken[name] += answered
                rates[name].append(said)
    ratio = float(np.percentile(taken["stream"], 99) / np.percentile(taken["unary"], 99))
    detail = "; ".join(f"{name} {shown(seconds)}, {', '.join(rates[name])}" for name, seconds in taken.items())
    what = f"p99 of one address beside {BUSY_CLIENTS} SymbolizeStream clients, vs beside as many that send the same by Symbolize"
    return Row(what, ratio, 3.0, 1.5, False, detail)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("object", type=Path)
    parser.add_argument("names", nargs="*", metavar="ABUSE")
    parser.add_argument("--abuse", choices=ABUSES, help="be the one who abuses")
    parser.add_argument("--address")
    chosen, rest = parser.parse_known_args(arguments)
    if chosen.abuse:
        with Client(chosen.address) as client:
            digest = hashlib.sha256(chosen.object.read_bytes()).hexdigest()
            addresses = text_addresses(client, digest)
        print("begins", flush=True)
        print(ABUSES[chosen.abuse](chosen.address, digest, addresses), flush=True)
        return
    for name in chosen.names or ABUSES:
        print(row(name, chosen.object, rest), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
