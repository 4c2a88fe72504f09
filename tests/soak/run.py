"""The soak: a daemon under several clients that do everything at once, some of them killed; then one that is killed itself
and started again over the same store."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from symd import Client
from symd.config import MIB
from symd.errors import ModuleNotFound, SymdError
from symd.server.config import Config
from symd.store import Store
from tests.soak.daemon import ROOT, Daemon, Usage, serving

KILL_EVERY = 3.0
"""Seconds between two clients' deaths, about."""
GROWTH = 64 * MIB
"""What the daemon may take more at the end than when it was warm, beside the indexes that it keeps open."""
WARM = 160 * MIB
"""What it takes once each of its threads has done everything, which a short soak does not see at its beginning."""
FILES = 48
"""Files it may hold open more: indexes that are mapped, the catalogue's connections."""
STARTED_SECONDS = 120.0
"""So long a client may take to begin where others want the processor."""
TAKEN_OUT_SECONDS = 20.0
"""So long a daemon may take to look at what was on its way in when the one before was killed."""


@dataclass
class Outcome:
    """What was wrong (nothing, if all went well), what the clients did, and what the daemon took: when it was warm, at
    the end."""

    problems: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    usages: list[Usage] = field(default_factory=list)
    killed: int = 0
    catalogued: int = 0


@dataclass
class Clients:
    """Client processes whose lines go to files, so that none waits for a reader."""

    daemon: Daemon
    folder: Path
    count: int
    seed: int
    running: list[subprocess.Popen[str]] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    started: int = 0

    def start(self) -> None:
        """Up to ``count`` run after this."""
        while len(self.running) < self.count:
            path = self.folder / f"client-{self.daemon.process.pid}-{self.started}.jsonl"
            command = [sys.executable, "-m", "tests.soak.client", self.daemon.address, str(self.seed + self.started)]
            environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
            self.paths.append(path)
            with path.open("w") as out:
                self.running.append(
                    subprocess.Popen(
                        command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, text=True
                    )
                )
            self.started += 1

    def wait_for_work(self) -> None:
        """Until each has done something, however long its process takes to begin; or has ended."""
        end = time.monotonic() + STARTED_SECONDS
        for client, path in zip(self.running, self.paths[-len(self.running) :], strict=True):
            while time.monotonic() < end and client.poll() is None and '"done"' not in path.read_text():
                time.sleep(0.05)

    def kill(self, which: int) -> None:
        victim = self.running.pop(which % len(self.running))
        victim.kill()
        victim.wait()

    def end(self) -> list[str]:
        """SIGTERM to all, which one that has just been started dies of; what went wrong."""
        for client in self.running:
            client.send_signal(signal.SIGTERM)
        codes = [client.wait(timeout=120) for client in self.running]
        self.running = []
        return [f"a client ended with {code}" for code in codes if code not in (0, -signal.SIGTERM)]

    def said(self, outcome: Outcome, *, may_be_gone: bool = False) -> None:
        """Read what they wrote; one that was killed may have a last line cut."""
        for path in sorted(self.folder.glob(f"client-{self.daemon.process.pid}-*.jsonl")):
            for line in path.read_text().splitlines(keepends=True):
                if not line.endswith("\n"):
                    continue
                said = json.loads(line) if line.startswith("{") else {"error": line}
                outcome.done.update(said.get("done", {}))
                if "error" in said or ("gone" in said and not may_be_gone):
                    outcome.problems.append(f"{path.name}: {said.get('error') or said['gone']}")


def soak(folder: Path, seconds: float, seed: int = 1, count: int = 4) -> Outcome:
    """Both parts; the first gets two thirds of the time. ``folder`` keeps the store and all logs."""
    outcome = Outcome()
    _under_load(folder, seconds * 2 / 3, seed, count, outcome)
    _killed(folder, seconds / 3, seed + 10_000, count, outcome)
    return outcome


def _under_load(folder: Path, seconds: float, seed: int, count: int, outcome: Outcome) -> None:
    dice = random.Random(seed)
    with serving(folder, "load") as daemon:
        clients = Clients(daemon, folder, count, seed)
        clients.start()
        clients.wait_for_work()
        end, warm = time.monotonic() + seconds, time.monotonic() + seconds / 3
        while time.monotonic() < end and daemon.process.poll() is None:
            time.sleep(min(KILL_EVERY * dice.uniform(0.5, 1.5), max(end - time.monotonic(), 0.1)))
            if warm and time.monotonic() > warm:
                outcome.usages.append(daemon.usage())
                warm = 0.0
            if time.monotonic() < end:
                clients.kill(dice.randrange(count))
                outcome.killed += 1
                clients.start()
        outcome.problems += clients.end()
        clients.said(outcome)
        _ended(daemon, count, outcome)


def _ended(daemon: Daemon, count: int, outcome: Outcome) -> None:
    """Nobody asks any more: what the daemon still holds, and how it ends."""
    if daemon.process.poll() is not None:
        outcome.problems.append(f"the daemon ended with {daemon.process.returncode}")
        return
    time.sleep(1)
    outcome.usages.append(daemon.usage())
    outcome.problems += _excess(outcome.usages, daemon, count)
    if any((daemon.store / "incoming").iterdir()):
        outcome.problems.append("uploads that nobody finishes are still there")
    if code := daemon.end():
        outcome.problems.append(f"SIGTERM ended the daemon with {code}")
    outcome.problems += [f"the daemon's log says: {line}" for line in daemon.said()]


def _excess(usages: list[Usage], daemon: Daemon, count: int) -> list[str]:
    first, last, config = usages[0], usages[-1], Config()
    indexes = sum(size for path, size in daemon.stored().items() if path.endswith(".idx"))
    bounds = {
        "threads": (last.threads, config.workers + config.streams + config.watches + 2 * count + 16),
        "files": (last.files, first.files + FILES),
        "bytes of memory": (last.memory, max(first.memory, WARM) + GROWTH + 2 * indexes),
        "children": (last.children, config.builders + 1),
    }
    return [f"the daemon holds {held} {what}, at most {most}" for what, (held, most) in bounds.items() if held > most]


def _killed(folder: Path, seconds: float, seed: int, count: int, outcome: Outcome) -> None:
    """kill -9 in the middle of work, then another daemon over what is left."""
    with serving(folder, "killed") as daemon:
        clients = Clients(daemon, folder, count, seed)
        clients.start()
        clients.wait_for_work()
        time.sleep(seconds)
        daemon.kill()
        outcome.problems += clients.end()
        clients.said(outcome, may_be_gone=True)
    with serving(folder, "again") as daemon:
        outcome.catalogued = check_whole(daemon, outcome)
        if code := daemon.end():
            outcome.problems.append(f"SIGTERM ended the second daemon with {code}")
        outcome.problems += [f"the second daemon's log says: {line}" for line in daemon.said()]


def check_whole(daemon: Daemon, outcome: Outcome) -> int:
    """Every catalogued module has its bytes and answers; the number of them. One without a format was on its way in when the
    daemon was killed: the second daemon looks at it beside its work, and takes it out again where it cannot be read."""
    with daemon.client() as client, Store(daemon.store) as store:
        records = list(client.modules())
        for record in records:
            try:
                if hashlib.sha256(store.data(record.sha256)).hexdigest() != record.sha256:
                    outcome.problems.append(f"{record.sha256} is catalogued and its bytes are others")
                client.module(record.sha256)
                for table in client.lines(record.sha256):
                    assert len(table) == len(table.line)
            except SymdError as error:
                if record.format or not _taken_out(client, record.sha256):
                    outcome.problems.append(f"{record.sha256} is catalogued and not whole: {error}")
    return len(records)


def _taken_out(client: Client, digest: str) -> bool:
    """Whether the catalogue loses a module soon."""
    end = time.monotonic() + TAKEN_OUT_SECONDS
    while time.monotonic() < end:
        try:
            client.record(digest)
        except ModuleNotFound:
            return True
        time.sleep(0.05)
    return False
