"""Answers in this process and by the command, beside llvm-symbolizer."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from benchmarks import installed, peers
from benchmarks.grpc_path import ALIGNMENT, Row, started, timed
from symd import Client
from symd.config import Limits
from symd.engine.engine import Engine
from symd.formats import containers
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress
from symd.store import Store

MANY = 10_000_000
PEER_MANY = 200_000


STARTED_SECONDS = 2.0
"""After so long the processes that a daemon starts ahead have come up."""


class Text:
    """The text section of a linked code object, and random instruction addresses in it."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            elf = ELFFile(file)
            text = elf.get_section_by_name(".text")
            self.start, self.size = text["sh_addr"], text["sh_size"]
            self.debug_bytes = sum(s["sh_size"] for s in elf.iter_sections() if s.name.startswith(".debug_"))

    def addresses(self, count: int, seed: int) -> np.ndarray:
        slots = np.random.default_rng(seed).integers(0, self.size // ALIGNMENT, count)
        return (self.start + slots * ALIGNMENT).astype(np.uint64)


def rows(path: Path, folder: Path, rounds: int) -> Iterator[Row]:
    """``folder`` is empty, and is filled with stores."""
    text = Text(path)
    yield from _reopened(path, text, folder, rounds)
    yield from _command(path, text, folder, rounds)
    yield from _in_process(path, text, folder, rounds)


def _reopened(path: Path, text: Text, folder: Path, rounds: int) -> Iterator[Row]:
    """Modules whose indexes the daemon has in its store and has not opened since it began: the first question about each. The figures tell
    apart the first of all, for which the daemon's own code is as cold as the index."""
    data = path.read_bytes()
    with Engine(Store(folder / "reopened")) as engine:
        digests = [engine.add(data + number.to_bytes(4, "little")).sha256 for number in range(rounds + 1)]
    address = ByAddress(ObjectAddress(int(text.addresses(1, 10)[0])))
    mine, again, later, theirs = [], [], [], []
    serve = ("-m", "symd", "serve", "--address", f"unix:{folder}/s", "--store", str(folder / "reopened"))
    with started(*serve) as served, Client(served.split()[-1]) as client:
        client.server_info()
        time.sleep(STARTED_SECONDS)
        for digest in digests:
            for seconds in (mine, again, later):
                seconds.append(timed(lambda: client.symbolize_one(digest, address)))  # noqa: B023 - called at once
                theirs.append(timed(lambda: peers.llvm(path, [address.address])))
    faster = statistics.median(their / my for my, their in zip(mine[1:], theirs[3::3], strict=True))
    detail = (
        f"{_ms(mine[1:])}, the first of all {_ms(mine[:1])}; the second question, which opens the index, {_ms(again[1:])}; one about an open "
        f"index, asked as seldom, {_ms(later[1:])}; llvm-symbolizer {_ms(theirs)}"
    )
    yield Row("reopen a stored index and answer the first address, in the daemon, vs llvm-symbolizer on a fresh process",
              faster, 30, 50, True, detail)  # fmt: skip


def _command(path: Path, text: Text, folder: Path, rounds: int) -> Iterator[Row]:
    with Engine(Store(folder / "stored")) as engine:
        engine.add(path.read_bytes())
    address = int(text.addresses(1, 11)[0])
    symd = str(installed.command())
    unseen = [symd, "symbolize", str(path), hex(address)]
    stored = [symd, "symbolize", "--store", str(folder / "stored"), str(path), hex(address)]
    said = {_said(command) for command in (unseen, stored)}  # what they import is on disk for the first time
    if len(said) != 1:
        raise ValueError(f"other answers from the store: {said}")
    seconds: dict[str, list[float]] = {"unseen": [], "stored": [], "peer": []}
    for _ in range(rounds):
        seconds["unseen"].append(timed(lambda: _said(unseen)))
        seconds["stored"].append(timed(lambda: _said(stored)))
        seconds["peer"].append(timed(lambda: peers.llvm(path, [address])))
    idle = timed(lambda: _said([symd, "--version"]))
    tail = f"llvm-symbolizer {_ms(seconds['peer'])}; symd --version {idle * 1e3:.0f} ms"
    for what, whose, least, reach in (
        ("on an unseen file", "unseen", 2.5, 1.5),
        ("on a file whose index the store has", "stored", 1.5, 1.0),
    ):
        ratio = statistics.median(my / their for my, their in zip(seconds[whose], seconds["peer"], strict=True))
        yield Row(f"symd symbolize {what}, whole process, vs llvm-symbolizer", ratio, least, reach, False,
                  f"{_ms(seconds[whose])}, {tail}")  # fmt: skip


def _said(command: list[str]) -> bytes:
    return subprocess.run(command, capture_output=True, check=True).stdout


def _in_process(path: Path, text: Text, folder: Path, rounds: int) -> Iterator[Row]:
    few = text.addresses(1, 12).tolist()
    with Engine(Store(folder / "reopened")) as engine:
        digest = engine.add(path.read_bytes()).sha256
        many, some = text.addresses(MANY, 13), text.addresses(PEER_MANY, 14)
        first = timed(lambda: engine.symbolize_column(digest, many))
        mine, theirs = [], []
        for _ in range(rounds):
            mine.append(MANY / timed(lambda: engine.symbolize_column(digest, many)))
            started_alone = peer_seconds(path, np.array(few))
            theirs.append(PEER_MANY / (peer_seconds(path, some) - started_alone))
        yield Row("random addresses with inlined frames, in-process, columns out, vs llvm-symbolizer's stdin",
                  statistics.median(my / their for my, their in zip(mine, theirs, strict=True)), 50, 100, True,
                  f"{statistics.median(mine):,.0f}/s, llvm-symbolizer {statistics.median(theirs):,.0f}/s; "
                  f"the first call {MANY / first:,.0f}/s")  # fmt: skip


def peer_seconds(path: Path, addresses: np.ndarray) -> float:
    """The peer's whole process; what it writes goes nowhere."""
    with tempfile.TemporaryFile("w+") as asked:
        asked.write("".join(f"{address:#x}\n" for address in addresses.tolist()))
        asked.seek(0)
        command = [peers.LLVM, f"--obj={path}", "--inlines"]
        return timed(lambda: subprocess.run(command, stdin=asked, stdout=subprocess.DEVNULL, check=True))


def among_many(small: bytes, folder: Path, modules: int, rounds: int) -> Row:
    """Addresses of one module, and of each of many that are open. None of them was asked for before, but for each another of its range
    was: what a range answers is known, and no address is answered from memory."""
    chance = np.random.default_rng(7)
    with Engine(Store(folder / "many", durable=False)) as engine:
        digests = [engine.add(small + number.to_bytes(4, "little")).sha256 for number in range(modules)]
        known, fresh = _known_and_fresh(engine, digests[0])
        order = [digests[number] for number in chance.permutation(modules).tolist()]
        for digest in order:
            for query in known:
                engine.symbolize_one(digest, query)
        seconds: dict[int, list[float]] = {1: [], 16: [], 128: [], modules: []}
        for _ in range(rounds):
            asked = [fresh[number] for number in chance.integers(0, len(fresh), modules).tolist()]
            for count, found in seconds.items():
                found.append(_each(engine, (order[:count] * modules)[:modules], asked))
    ratio = statistics.median(other / one for one, other in zip(seconds[1], seconds[modules], strict=True))
    middle = {count: statistics.median(found) * 1e6 for count, found in seconds.items()}
    detail = (
        f"{middle[modules]:.1f} us; one module {middle[1]:.1f} us, 16 {middle[16]:.1f} us, 128 {middle[128]:.1f} us: "
    )
    detail += "the same work; what is added is waiting for memory that the caches do not hold"
    return Row(f"one address among {modules:,} open modules, vs one, in-process", ratio, 1.5, 1.2, False, detail)


def _known_and_fresh(engine: Engine, digest: str) -> tuple[list[ByKernel], list[ByKernel]]:
    """(an instruction of each range of the module's first kernel, all others of these ranges)."""
    kernel = next(kernel for each in engine.module(digest).objects for kernel in each.kernels)
    offsets = np.arange(0, kernel.size, ALIGNMENT)
    location = engine.symbolize_column(digest, offsets, kernel=kernel.name).location
    _, first = np.unique(location, return_index=True)
    queries = [ByKernel(kernel.name, KernelOffset(offset)) for offset in offsets.tolist()]
    return [queries[at] for at in first.tolist()], [queries[at] for at in np.delete(np.arange(len(queries)), first)]


def _each(engine: Engine, digests: list[str], queries: list[ByKernel]) -> float:
    """Seconds a question, of the processor's time: what others take of a busy machine does not count."""
    begun = time.process_time()
    for digest, query in zip(digests, queries, strict=True):
        engine.symbolize_one(digest, query)
    return (time.process_time() - begun) / len(digests)


def first_of_many(container: Path, folder: Path, rounds: int) -> Row:
    """The first answer from a module of many kernels that is in no index yet, and all of it."""
    data = container.read_bytes()
    name = containers.unpack(data, Limits()).objects[7].kernels[0].name
    mine, whole = [], []
    for number in range(rounds):
        with Engine(Store(folder / f"first-{number}", durable=False)) as engine:
            digest = engine.store.put(data)
            mine.append(timed(lambda: engine.symbolize_one(digest, ByKernel(name, KernelOffset(16)))))  # noqa: B023 - called at once
        whole.append(timed(lambda: build_index(data, Limits())))
    ratio = statistics.median(my / all_ for my, all_ in zip(mine, whole, strict=True))
    return Row("first answer from an unseen container of 1,000 kernels, vs its whole index", ratio, 1.0, 0.2, False,
               f"{_ms(mine)}, whole index {_ms(whole)}")  # fmt: skip


def _ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.1f} ms"
