"""Damaged files through everything: uploaded to a daemon, asked about by every question over gRPC, and there again after the
daemon was started anew over its store. Every call ends in a status of the contract; the daemon lives, says nothing of a
defect, stays below its memory, and takes no more than 2 s of processor time for a file."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from symd.client import Client
from symd.config import MIB
from symd.model.addresses import Query
from symd.model.answers import Answer
from tests.fuzz.kinds import Inputs, kind
from tests.fuzz.nested import files
from tests.fuzz.trial import SECONDS, State, keep
from tests.fuzz.visit import Visit, visit
from tests.fuzz.watchdog import ChildException
from tests.soak.daemon import Daemon, serving

MEMORY = 512 * MIB
"""What the daemon's own process may have resident at any time."""
A_LIFE = 200
"""Inputs between one start of the daemon and the next, which takes as long as a few dozen of them."""
LINES = 2
"""Daemons at a time, each with a store of its own: while one starts, the other goes on."""
CLIENTS = 2
"""Inputs that are tried at a time with each: one alone leaves the daemon's processes waiting for each other."""
_LIVES_A_STORE = 8
"""Daemons that live one after the other on one store; the next has a new one, so that a long run needs no more room."""
_SHARED_MEMORY = Path("/dev/shm")
"""Where the stores are, if that is there: what a process leaves when it is killed is the same as on a disk, and half of an
upload's time would go into waiting for one."""
SECONDS_EACH = 150.0
"""A call's deadline: past every limit of time that the daemon has."""
_REMEMBERED = 5
"""Modules of a life whose answers the next ones over its store give again."""


class End:
    """When enough was tried: after so many seconds, or as soon as somebody says so."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def has_come(self) -> bool:
        return time.monotonic() >= self._at

    def come(self) -> None:
        self._at = 0.0


@dataclass
class Tally:
    """What all inputs came to, by kind of container; for several threads. What is found is kept below ``out``; ``count`` is
    told what each life added."""

    out: Path
    count: Callable[[Mapping[str, State]], object]
    states: dict[str, State] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    defects: list[ChildException] = field(default_factory=list)
    alike: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, data: bytes, done: Visit, seconds: float, why: str = "") -> None:
        """An input was tried; ``why`` it is a find, if it is one."""
        name = f"through.{kind(data)}"
        with self.lock:
            outcome = State(done.taken and not why, not done.taken and not why, bool(why), slowest=seconds)
            self.states[name] = self.states.get(name, State()).with_(outcome)
            self.statuses += done.statuses
        if why:
            self.keep(data, why)

    def end_life(self) -> None:
        with self.lock:
            self.count(self.states)
            self.states = {}

    def keep(self, data: bytes, why: str, folder: str = "finds") -> None:
        with self.lock:
            path = keep(self.out / folder / "through", data, why, self.alike)
            if path is not None and folder == "finds":
                self.defects.append(ChildException(why, path))


@dataclass
class Line:
    """Daemons that live one after the other on stores below ``folder``."""

    folder: Path
    inputs: Iterator[bytes]
    tally: Tally
    remembered: dict[str, tuple[Query, Answer]] = field(default_factory=dict)
    again: list[tuple[bytes, str]] = field(default_factory=list)
    """Inputs of this life with what became of them, to be tried again alone: another input may have taken the time, another
    program the connection."""

    def run(self, end: End) -> None:
        """Until then, or until there are no inputs."""
        life = 0
        while not end.has_come and (inputs := list(islice(self.inputs, A_LIFE))):
            store = self.folder / str(life // _LIVES_A_STORE)
            if not store.exists():
                shutil.rmtree(self.folder / str(life // _LIVES_A_STORE - 1), ignore_errors=True)
                store.mkdir(mode=0o700, parents=True)
                self.remembered.clear()
            with serving(store, f"daemon-{life}") as daemon:
                self._live(daemon, inputs, end, life)
                self._end(daemon, gently=life % 2 == 0)
            while self.again:
                self._alone(*self.again.pop())
            self.tally.end_life()
            life += 1

    def _live(self, daemon: Daemon, inputs: Sequence[bytes], end: End, life: int) -> None:
        most = _REMEMBERED * (1 + life % _LIVES_A_STORE)
        with daemon.client(SECONDS_EACH) as client, ThreadPoolExecutor(CLIENTS) as pool:
            self._asked_again(client)
            list(pool.map(partial(self._tried, daemon, client, end, most), inputs))

    def _asked_again(self, client: Client) -> None:
        """What earlier daemons answered about the store's modules."""
        for digest, (query, answer) in self.remembered.items():
            done = Visit()
            found = done.call("symbolize", partial(client.symbolize_one, digest, query))
            if found != answer:
                why = f"after a start {query} is\n{found}\n{done.wrong}\nand was\n{answer}"
                self.tally.keep(digest.encode(), why)

    def _tried(self, daemon: Daemon, client: Client, end: End, most: int, data: bytes) -> None:
        if end.has_come or daemon.process.poll() is not None:
            return
        before, began = len(daemon.said()), daemon.processor_seconds()
        done = visit(client, data)
        took = daemon.processor_seconds() - began  # at most: other clients' inputs are in it
        if done.remembered is not None and len(self.remembered) < most:
            digest, query, answer = done.remembered
            self.remembered[digest] = query, answer
        if len(daemon.said()) > before or daemon.process.poll() is not None:
            self.tally.add(data, done, took, _of_daemon(daemon))
        elif done.wrong or took > SECONDS:
            self.again.append((data, "\n".join([*done.wrong, f"{took:.1f} s of processor time at most"])))
        else:
            self.tally.add(data, done, took)

    def _alone(self, data: bytes, before: str) -> None:
        """The same to a daemon that has nothing else to do: what it takes, and whether it ends as wrongly."""
        self.folder.joinpath("alone").mkdir(mode=0o700)
        with serving(self.folder / "alone", "daemon") as daemon, daemon.client(SECONDS_EACH) as client:
            visit(client, files()[0])  # its processes begin
            began = daemon.processor_seconds()
            done = visit(client, data)
            took = daemon.processor_seconds() - began
            why = list(done.wrong)
            if took > SECONDS:
                why.append(f"Slow: {took:.1f} s of processor time")
            if daemon.said() or daemon.process.poll() is not None:
                why.append(_of_daemon(daemon))
            self.tally.keep(data, f"{before}, alone {took:.2f} s", "again")
            self.tally.add(data, done, took, "\n".join(why))
        shutil.rmtree(self.folder / "alone")

    def _end(self, daemon: Daemon, *, gently: bool) -> None:
        if daemon.process.poll() is not None:
            self.tally.keep(b"", f"the daemon ended with {daemon.process.returncode}")
            return
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
        )
        most = int(status["VmHWM"].split()[0]) << 10
        if most > MEMORY:
            self.tally.keep(b"", f"the daemon had {most // MIB} MiB resident")
        daemon.process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
        code = daemon.process.wait(60)
        if gently and code:
            self.tally.keep(b"", f"SIGTERM ended the daemon with {code}")


def _of_daemon(daemon: Daemon) -> str:
    said = daemon.log.read_text(errors="backslashreplace")[-6000:]
    return f"the daemon: {daemon.process.poll()}; its log says\n{said}"


def run(seed: int, seconds: float, out: Path, count: Callable[[Mapping[str, State]], object]) -> list[ChildException]:
    """What was found; ``count`` is told now and then what was tried, by kind of container. Prints the statuses."""
    where = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    tally, inputs, end = Tally(out, count), Inputs(seed), End(seconds)
    with tempfile.TemporaryDirectory(prefix="symd-fuzz-", dir=where) as folder, ThreadPoolExecutor(LINES) as pool:
        lines = [Line(Path(folder) / str(number), inputs, tally) for number in range(LINES)]
        try:
            list(pool.map(lambda line: line.run(end), lines))
        finally:
            end.come()
    print("through: " + ", ".join(f"{count} {status}" for status, count in tally.statuses.most_common()), flush=True)
    return tally.defects
