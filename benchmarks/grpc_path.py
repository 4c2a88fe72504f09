"""What the way over gRPC costs: the daemon in a process of its own on a Unix socket, beside an empty echo and
llvm-symbolizer's stdin, in turns in one run.

`python -m benchmarks.grpc_path OBJECT [SMALL]` prints the rows; `rows` gives them. OBJECT is a linked AMDGPU code
object; SMALL a code object of which many copies stand for many small modules.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import grpc
import numpy as np

from symd import Client
from symd.model.addresses import ByAddress, ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.model.summaries import ModuleSummary

PEER = "llvm-symbolizer-14"
MANY = 1_000_000
SAMPLE = 2_000
"""Addresses at which the peer must say the same before anything is timed."""
PEER_MANY = 200_000
ONES = 400
"""Single addresses in one round."""
FEW = 20
"""Of them one way asks before another has its turn."""
PAIRS = 9
"""Daemons and echoes, each begun anew: two that are alike differ by a tenth, by where the system puts their threads."""
TURNS = 2
"""Rounds with each pair."""
ALIGNMENT = 4
"""Bytes of the smallest instruction of the target."""
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


Ways: TypeAlias = Mapping[str, tuple[Callable[[Any], object], Sequence[object]]]
"""By name, a call that is timed, and what it is called with, one after another."""


class Row(NamedTuple):
    """A line of the table: the median ratio, what is asked for, and the figures that it comes from.

    ``faster`` says that the ratio is how many times faster symd is; otherwise it is symd's time over the other's.
    """

    what: str
    ratio: float
    least: float
    reach: float
    faster: bool
    detail: str


class Work(NamedTuple):
    """A daemon that has the module, and the module's text."""

    client: Client
    module: ModuleSummary
    path: Path
    start: int
    size: int

    def addresses(self, count: int, seed: int) -> np.ndarray:
        """Random instruction addresses in the text."""
        slots = np.random.default_rng(seed).integers(0, self.size // ALIGNMENT, count)
        return (self.start + slots * ALIGNMENT).astype(np.uint64)


def rows(path: Path, small: bytes | None = None, *, rounds: int = 5, modules: int = 2000) -> list[Row]:
    """All rows, medians of ``rounds`` rounds."""
    with running(path) as (work, echo):
        check(work)
        found = list(bulk(work, echo, rounds))
        many = [] if small is None else [among_many(work.client, small, rounds, modules)]
    return [*found, *single(path), *many]


@contextmanager
def running(path: Path) -> Iterator[tuple[Work, Callable[[bytes], bytes]]]:
    """The daemon with the module, and a call of the empty echo."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        listen = ("--address", f"unix:{folder}/symd", "--store", str(folder / "store"))
        served = stack.enter_context(started("-m", "symd", "serve", *listen))
        echoed = stack.enter_context(started("-m", "benchmarks.grpc_path", "--echo", f"unix:{folder}/echo"))
        client = stack.enter_context(Client(served.split()[-1]))
        channel = stack.enter_context(grpc.insecure_channel(echoed, options=OPTIONS))
        module = client.add(path.read_bytes())
        table = max(client.lines(module.sha256), key=len)
        address = (
            np.array([place.address for place in table.text_sections], np.uint64)[table.text_section] + table.offset
        )
        start = int(address.min())
        work = Work(client, module, path, start, int(address.max()) - start)
        yield work, channel.unary_unary("/e.E/E", _registered_method=True)  # type: ignore[call-arg] # as generated stubs have it


@contextmanager
def started(*arguments: str) -> Iterator[str]:
    """A Python program that prints a line when it is ready; gives the line."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def check(work: Work) -> None:
    """The peer's frames are those of the daemon, at a sample of addresses."""
    addresses = work.addresses(SAMPLE, 1)
    answers = work.client.symbolize_column(work.module.sha256, addresses)
    text = subprocess.run(
        [PEER, "--obj", work.path, "--inlines"], input=asked(addresses), capture_output=True, check=True, text=True
    ).stdout
    exact = 0
    for address, block, answer in zip(addresses, text.strip().split("\n\n"), answers, strict=True):
        lines = block.splitlines()
        theirs = list(zip(lines[::2], lines[1::2], strict=True))
        ours = [
            (frame.function or "??", f"{frame.file or '??'}:{frame.line}:{frame.column}") for frame in answer.frames
        ]
        assert ours == theirs or answer.reason is not Reason.EXACT, (hex(address), ours, theirs)
        exact += answer.reason is Reason.EXACT
    assert exact > SAMPLE // 2, f"{exact} of {SAMPLE} addresses have a line"


def asked(addresses: np.ndarray) -> str:
    return "".join(f"{address:#x}\n" for address in addresses.tolist())


def bulk(work: Work, echo: Callable[[bytes], bytes], rounds: int) -> Iterator[Row]:
    """Random addresses a second: the daemon's, decoded, and the peer's."""
    few, many = work.addresses(1, 2), work.addresses(MANY, 3)
    digest, packed = work.module.sha256, many.astype("<u4").tobytes()
    seconds: dict[str, list[float]] = {name: [] for name in ("first", "symd", "ten", "echo", "peer")}
    ten = work.addresses(10 * MANY, 4)
    for number in range(rounds + 1):
        taken = timed(lambda: work.client.symbolize_column(digest, many))
        seconds["symd" if number else "first"].append(taken)
        if not number:
            continue
        seconds["ten"].append(timed(lambda: work.client.symbolize_column(digest, ten)))
        seconds["echo"].append(timed(lambda: echo(packed)))
        seconds["peer"].append(peer_seconds(work, work.addresses(PEER_MANY, 5)) - peer_seconds(work, few))
    peer = [PEER_MANY / taken for taken in seconds["peer"]]
    rate = {"1M": [MANY / taken for taken in seconds["symd"]], "10M": [10 * MANY / taken for taken in seconds["ten"]]}
    told = (
        f"llvm-symbolizer {statistics.median(peer):,.0f}/s; an echo of the packed addresses "
        f"{statistics.median(seconds['echo']) * 1e3:.1f} ms; the first call {seconds['first'][0] * 1e3:.0f} ms"
    )
    for size, rates in rate.items():
        ratio = statistics.median(mine / theirs for mine, theirs in zip(rates, peer, strict=True))
        what = f"{size} random addresses over gRPC, decoded, vs llvm-symbolizer's stdin"
        yield Row(what, ratio, 20, 40, True, f"{statistics.median(rates):,.0f}/s; {told}")


def peer_seconds(work: Work, addresses: np.ndarray) -> float:
    """The peer's whole process; what it writes goes nowhere."""
    with tempfile.TemporaryFile("w+") as text:
        text.write(asked(addresses))
        text.seek(0)
        command = [PEER, "--obj", work.path, "--inlines"]
        return timed(lambda: subprocess.run(command, stdin=text, stdout=subprocess.DEVNULL, check=True))


def single(path: Path) -> Iterator[Row]:
    """One address, p50, in turns with the empty echo, of several pairs."""
    ratios: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for _ in range(PAIRS):
        with running(path) as (work, echo):
            for number in range(TURNS):
                taken = one_turn(work, echo, number)
                for name, seconds in taken.items():
                    times.setdefault(name, []).append(seconds)
                    ratios.setdefault(name, []).append(seconds / taken["echo"])
    for name in ("symbolize_one", "symbolize([query])[0]"):
        mine, theirs = (statistics.median(times[which]) * 1e6 for which in (name, "echo"))
        detail = f"{mine:.0f} us, echo {theirs:.0f} us; {PAIRS} daemons and echoes, {min(ratios[name]):.2f} to {max(ratios[name]):.2f}"
        yield Row(f"one address over gRPC ({name}), p50, vs the empty echo", statistics.median(ratios[name]), 1.2, 1.1,
                  False, detail)  # fmt: skip


def one_turn(work: Work, echo: Callable[[bytes], bytes], number: int) -> dict[str, float]:
    """Seconds of a call by each way; other addresses in each turn, because the daemon keeps answers. The ways take turns every ``FEW`` calls: within
    half a second this machine can be twice as fast as it was."""
    digest, client = work.module.sha256, work.client
    seeds = (100 + 2 * number, 101 + 2 * number)
    first, second = ([ByAddress(address) for address in work.addresses(ONES, seed).tolist()] for seed in seeds)
    ways: Ways = {
        "echo": (lambda _query: echo(b""), first),
        "symbolize_one": (lambda query: client.symbolize_one(digest, query), first),
        "symbolize([query])[0]": (lambda query: client.symbolize(digest, [query])[0], second),
    }
    return in_turns(ways)


def in_turns(ways: Ways) -> dict[str, float]:
    """The median of the seconds of a call by each way."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for start in range(0, ONES, FEW):
        for name, (way, arguments) in ways.items():
            taken[name] += [timed(lambda: way(argument)) for argument in arguments[start : start + FEW]]  # noqa: B023 - called at once
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def among_many(client: Client, small: bytes, rounds: int, modules: int) -> Row:
    """One address of one module asked again and again, and one of a random one of many that are open."""
    digests = []
    for number in range(modules):
        data = small + number.to_bytes(4, "little")
        digests.append(client.add(data).sha256)
    kernel = next(kernel for each in client.module(digests[0]).objects for kernel in each.kernels)
    query = ByKernel(kernel.name, KernelOffset(0))
    order = np.random.default_rng(7).permutation(modules).tolist()
    for number in order:
        client.symbolize_one(digests[number], query)
    turns = [digests[number] for number in order][:ONES]
    ways: Ways = {
        "one": (lambda _digest: client.symbolize_one(digests[0], query), turns),
        "other": (lambda digest: client.symbolize_one(digest, query), turns),
    }
    found = [in_turns(ways) for _ in range(rounds)]
    ones, others = ([taken[name] for taken in found] for name in ("one", "other"))
    ratio = statistics.median(other / one for one, other in zip(ones, others, strict=True))
    detail = f"{statistics.median(others) * 1e6:.0f} us, one module {statistics.median(ones) * 1e6:.0f} us"
    return Row(f"one address over gRPC among {modules:,} open modules, p50, vs one", ratio, 1.2, 1.2, False, detail)


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def serve_echo(address: str) -> None:
    """A server whose one method gives back the bytes that it is given, with the threads that the daemon has."""
    server = grpc.server(ThreadPoolExecutor(8), options=OPTIONS)
    handlers = {"E": grpc.unary_unary_rpc_method_handler(lambda request, _context: request)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("e.E", handlers),))
    server.add_registered_method_handlers("e.E", handlers)
    server.add_insecure_port(address)
    server.start()
    print(address, flush=True)
    server.wait_for_termination()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("object", type=Path, nargs="?")
    parser.add_argument("small", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--echo", metavar="ADDRESS", help="be the echo that is compared with")
    chosen = parser.parse_args(arguments)
    if chosen.echo:
        serve_echo(chosen.echo)
        return
    small = chosen.small.read_bytes() if chosen.small else None
    for row in rows(chosen.object, small, rounds=chosen.rounds):
        aim = (
            f"at least {row.least:g} x, reach {row.reach:g} x"
            if row.faster
            else f"<= {row.least:g}, reach {row.reach:g}"
        )
        print(f"{row.what}: {row.ratio:.2f} ({aim}); {row.detail}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
