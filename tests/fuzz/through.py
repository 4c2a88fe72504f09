"""Damaged files through everything: uploaded to a daemon, asked about by every question over gRPC, and there again after the
daemon was started anew over its store. Every call ends in a status of the contract; the daemon lives, says nothing of a
defect, and stays below its memory."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from symd.client import Client
from symd.config import MIB
from symd.errors import DriverFailed, SymdError, ToolFailed
from symd.model.addresses import ByKernel, BySection, KernelOffset, Query, SectionOffset
from symd.model.answers import Answer
from symd.model.breakpoints import SourceLine
from symd.model.line_tables import LineLevel
from symd.model.names import Match, NameQuery
from symd.model.summaries import ModuleSummary
from tests.fuzz.targets import TARGETS
from tests.fuzz.trial import State, keep
from tests.fuzz.watchdog import Defect
from tests.fuzz.wire import CONTRACT
from tests.soak.daemon import Daemon, serving

Found = TypeVar("Found")

MEMORY = 512 * MIB
"""What the daemon's own process may have resident at any time."""
A_LIFE = 200
"""Inputs between one start of the daemon and the next, which takes as long as a few dozen of them."""
CLIENTS = 3
"""Inputs that are tried at a time: one alone leaves the daemon's processes waiting for each other."""
_LIVES_A_STORE = 8
"""Daemons that live one after the other on one store; the next has a new one, so that a long run needs no more room."""
_SHARED_MEMORY = Path("/dev/shm")
"""Where the store is, if that is there: what a process leaves when it is killed is the same as on a disk, and half of an
upload's time would go into waiting for one."""
SECONDS_EACH = 150.0
"""A call's deadline: past every limit of time that the daemon has."""
_REMEMBERED = 5
"""Modules of a life whose answers the next ones over its store give again."""
_SECTION = BySection(1, SectionOffset(16))
"""A place that many an image has, whatever its kernels are called."""


@dataclass
class Through:
    """Files through daemons that live one after the other on stores below ``folder``."""

    seed: int
    folder: Path
    out: Path
    number: int = 0
    answered: int = 0
    refused: int = 0
    slowest: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    defects: list[Defect] = field(default_factory=list)
    remembered: dict[str, tuple[Query, Answer]] = field(default_factory=dict)
    alike: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, seconds: float) -> None:
        TARGETS["everything"].seeds()
        end, life = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            store = self.folder / str(life // _LIVES_A_STORE)
            if not store.exists():
                shutil.rmtree(self.folder / str(life // _LIVES_A_STORE - 1), ignore_errors=True)
                store.mkdir(mode=0o700)
                self.remembered.clear()
            with serving(store, f"daemon-{life}") as daemon:
                self._live(daemon, end)
                self._end(daemon, gently=life % 2 == 0)
            life += 1

    def _live(self, daemon: Daemon, end: float) -> None:
        with daemon.client(SECONDS_EACH) as client:
            self._asked_again(client)
        last = self.number + A_LIFE
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda _: self._one_after_another(daemon, end, last), range(CLIENTS)))

    def _one_after_another(self, daemon: Daemon, end: float, last: int) -> None:
        """What one client tries, until the inputs of this life are all taken."""
        with daemon.client(SECONDS_EACH) as client:
            while time.monotonic() < end and daemon.process.poll() is None:
                with self.lock:
                    number = self.number
                    if number == last:
                        return
                    self.number += 1
                self._tried(
                    daemon, client, TARGETS["everything"].mutated(random.Random(f"{self.seed}/through/{number}"))
                )

    def _tried(self, daemon: Daemon, client: Client, data: bytes) -> None:
        before, began = len(daemon.said()), time.monotonic()
        module = self._call(data, "add", partial(client.add, data))
        if module is not None:
            self._ask(client, module, data)
        with self.lock:
            self.answered += module is not None
            self.refused += module is None
            self.slowest = max(self.slowest, time.monotonic() - began)
        said = daemon.said()[before:]
        if said or daemon.process.poll() is not None:
            self._keep(
                data,
                f"the daemon: {daemon.process.poll()}; its log says\n{daemon.log.read_text(errors='backslashreplace')[-6000:]}",
            )

    def _ask(self, client: Client, module: ModuleSummary, data: bytes) -> None:
        digest = module.sha256
        for what, ask in _questions(client, module):
            self._call(data, what, ask)
        query = next(iter(_places(module)), None)
        lives = 1 + self.number // A_LIFE % _LIVES_A_STORE
        if query is not None and len(self.remembered) < _REMEMBERED * lives:
            answer = self._call(data, "symbolize", partial(client.symbolize_one, digest, query))
            if answer is not None:
                with self.lock:
                    self.remembered[digest] = query, answer

    def _call(self, data: bytes, what: str, ask: Callable[[], Found]) -> Found | None:
        """What was answered; None for a refusal. Any other end is kept as a defect."""
        try:
            found = ask()
        except SymdError as error:
            with self.lock:
                self.statuses[error.status] += 1
            outside = isinstance(error, DriverFailed | ToolFailed)
            if error.status not in CONTRACT and not outside:
                self._keep(data, f"{what}: {error.status}, {error.reason}: {error}")
            return None
        with self.lock:
            self.statuses["OK"] += 1
        return found

    def _asked_again(self, client: Client) -> None:
        """What earlier daemons answered about the store's modules."""
        for digest, (query, answer) in self.remembered.items():
            found = self._call(b"", "symbolize", partial(client.symbolize_one, digest, query))
            if found != answer:
                self._keep(digest.encode(), f"after a start {query} is\n{found}\nand was\n{answer}")

    def _end(self, daemon: Daemon, *, gently: bool) -> None:
        if daemon.process.poll() is not None:
            self._keep(b"", f"the daemon ended with {daemon.process.returncode}")
            return
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{daemon.process.pid}/status").read_text().splitlines()
        )
        most = int(status["VmHWM"].split()[0]) << 10
        if most > MEMORY:
            self._keep(b"", f"the daemon had {most // MIB} MiB resident")
        daemon.process.send_signal(signal.SIGTERM if gently else signal.SIGKILL)
        code = daemon.process.wait(60)
        if gently and code:
            self._keep(b"", f"SIGTERM ended the daemon with {code}")

    def _keep(self, data: bytes, why: str) -> None:
        with self.lock:
            path = keep(self.out / "finds" / "through", data, why, self.alike)
            if path is not None:
                self.defects.append(Defect(why, path))


def _places(module: ModuleSummary) -> Iterator[Query]:
    for each in module.objects[:2]:
        for kernel in each.kernels[:2]:
            yield ByKernel(kernel.name, KernelOffset(0))
            yield ByKernel(kernel.name, KernelOffset(kernel.size // 2))


def _questions(client: Client, module: ModuleSummary) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every question about a module, each with its name."""
    digest = module.sha256
    paths = [each.path for each in module.objects[:2]]
    places = [*_places(module), _SECTION]
    yield "module", partial(client.module, digest)
    yield "symbolize", lambda: list(client.symbolize(digest, places))
    for level in LineLevel:
        yield "lines", partial(_all, partial(client.lines, digest, None, level))
    for match in Match:
        yield "names", partial(_all, partial(client.names, digest, NameQuery("*", match)))
    for query in places[:3]:
        yield "variables", partial(client.variables, digest, query)
    files = ["kernel.cl", "raycast.cl"]
    yield "sources", partial(client.sources, digest, files)
    for file in files:
        yield "locate", partial(client.locate, digest, SourceLine(file, 12))
    for path in paths:
        yield "object_data", partial(client.object_data, digest, path)


def _all(ask: Callable[[], object]) -> int:
    found = ask()
    return sum(1 for _ in islice(found, 5000))  # type: ignore[call-overload,misc] # whichever it is, it is iterable


def run(seed: int, seconds: float, out: Path) -> tuple[State, list[Defect]]:
    """What came of it, with the statuses printed."""
    where = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="symd-fuzz-", dir=where) as folder:
        done = Through(seed, Path(folder), out)
        done.run(seconds)
    print("through: " + ", ".join(f"{count} {status}" for status, count in done.statuses.most_common()), flush=True)
    return State(done.answered, done.refused, len(done.defects), slowest=done.slowest), done.defects
