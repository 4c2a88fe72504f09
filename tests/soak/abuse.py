"""A daemon with many clients, half of them behind nginx, under abuse: malformed requests, workers killed, one byte of the store changed, the disk full
once. Nobody gets a wrong answer, no error is without its cause, and memory does not grow.

`python -m tests.soak.abuse [--seconds N] [--clients N] [--calm]`; ``--calm`` is the same traffic without the abuse, to compare
latencies with. Exit code 1, with what was wrong, unless nothing was."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from symd.config import MIB
from symd.server.access_file import new_token, token_line
from symd.server.config import Right
from tests.server.authority import Authority
from tests.server.reverse_proxy import proxied
from tests.small_disk import small_disk
from tests.soak.daemon import ROOT, Daemon, serving

PROCESSES = 4
"""Client processes; each has its share of the clients."""
KILL_EVERY = 5.0
"""Seconds between two deaths of workers."""
FLIP_EVERY = 60.0
"""Seconds between two changed bytes of the store."""
DISK_BYTES = 512 * MIB
"""The store's disk, where this user may make one."""
DISK_FULL_SECONDS = 10.0
OPEN_INDEXES = ("--limit", f"open_indexes={8 * MIB}")
"""Clients add modules all the time; so the indexes that stay open fill their room early, and what still grows is a leak."""
GROWTH = 24 * MIB
"""What the daemon's own process may take more in the last third of the time than in the second."""
MOST_MEMORY = 512 * MIB
_MEASURED = 60
"""So many measurements show whether memory grows; one a second."""
MALFORMED = 0.01
"""The share of malformed requests."""


@dataclass
class Outcome:
    """What was wrong (nothing, if all went well), what clients did, the seconds that each one-address question took, and
    the daemon's own memory in the course of time."""

    problems: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    killed: int = 0
    flipped: int = 0
    filled: bool = False

    def most_memory(self) -> tuple[int, int, int]:
        """The most of each third of the time, bytes."""
        third = max(len(self.memory) // 3, 1)
        parts = self.memory[:third], self.memory[third : 2 * third], self.memory[-third:]
        first, second, last = (max(part, default=0) for part in parts)
        return first, second, last

    def percentile(self, part: float) -> float:
        """Milliseconds within which that part of the one-address questions was answered; 0 when there were none."""
        ordered = sorted(self.seconds)
        return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1e3 if ordered else 0.0


def run(folder: Path, seconds: float, clients: int, seed: int = 1, *, calm: bool = False) -> Outcome:
    """``folder`` keeps the store and the logs."""
    outcome = Outcome()
    token, options = token_options(folder)
    certificate = Authority(folder).issue("localhost")
    with (
        small_disk(folder / "store", DISK_BYTES) as problem,
        serving(folder, further=(*options, *OPEN_INDEXES)) as daemon,
        proxied(folder, daemon.others[0], *certificate) as behind,
    ):
        daemon.others[:] = [behind]
        known = {"SYMD_TOKEN": token, "SYMD_TLS_CA": str(folder / "authority.pem")}
        processes = [_clients(daemon, clients // PROCESSES, seed + number, calm, known) for number in range(PROCESSES)]
        abuse = Abuse(daemon, random.Random(seed), not problem, outcome)
        for process in processes:
            assert process.stdout is not None
            json.loads(process.stdout.readline())
        abuse.during(seconds, calm=calm)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            _heard(process, outcome)
        _ended(daemon, outcome)
    return outcome


class Abuse:
    """What is done to the daemon while it works."""

    def __init__(self, daemon: Daemon, dice: random.Random, own_disk: bool, outcome: Outcome) -> None:
        self.daemon, self.dice, self.own_disk, self.outcome = daemon, dice, own_disk, outcome

    def during(self, seconds: float, *, calm: bool) -> None:
        start = time.monotonic()
        end, kill, flip, fill = (
            start + seconds,
            start + KILL_EVERY,
            start + min(FLIP_EVERY, seconds / 3),
            start + seconds / 2,
        )
        while (now := time.monotonic()) < end and self.daemon.process.poll() is None:
            self.outcome.memory.append(self.daemon.usage().memory)
            if not calm and now > kill:
                self._kill_a_worker()
                kill = now + KILL_EVERY
            if not calm and now > flip:
                self._flip_a_byte()
                flip = now + FLIP_EVERY
            if not calm and self.own_disk and now > fill and not self.outcome.filled:
                self._fill_the_disk(min(DISK_FULL_SECONDS, seconds / 6))
            time.sleep(min(1.0, max(end - time.monotonic(), 0)))

    def _kill_a_worker(self) -> None:
        workers = self.daemon.children()
        if not workers:
            self.outcome.problems.append("there is no worker to kill")
            return
        with suppress(ProcessLookupError):
            os.kill(self.dice.choice(workers), signal.SIGKILL)
            self.outcome.killed += 1

    def _flip_a_byte(self) -> None:
        """Of a module or an index, where it lies, without its time changing."""
        files = [Path(path) for path, size in self.daemon.stored().items() if size and "/incoming/" not in path]
        if not files:
            return
        path = self.dice.choice(files)
        with suppress(FileNotFoundError):
            before = path.stat()
            at = self.dice.randrange(before.st_size)
            path.chmod(0o600)
            with path.open("r+b") as file:
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 1 << self.dice.randrange(8)]))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            self.outcome.flipped += 1

    def _fill_the_disk(self, seconds: float) -> None:
        self.outcome.filled = True
        fat = self.daemon.store / "fills-the-disk"
        with suppress(OSError), fat.open("wb") as file:
            while True:
                file.write(bytes(MIB))
        time.sleep(seconds)
        fat.unlink()


def token_options(folder: Path) -> tuple[str, list[str]]:
    """A token that may read and write, and the options of a daemon that takes it at a port for nginx, beside its socket."""
    access, token = folder / "access", new_token()
    access.write_text(token_line("soak", frozenset({Right.READ, Right.WRITE}), token) + "\n")
    access.chmod(0o600)
    return token, ["--address", "127.0.0.1:0", "--access", str(access)]


def _clients(daemon: Daemon, count: int, seed: int, calm: bool, known: dict[str, str]) -> subprocess.Popen[str]:
    share = 0.0 if calm else MALFORMED
    addresses = ",".join([daemon.address, *daemon.others])
    command = [sys.executable, "-m", "tests.soak.abuse_client", addresses, str(count), str(seed), str(share)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | known
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def _heard(process: subprocess.Popen[str], outcome: Outcome) -> None:
    text, _ = process.communicate(timeout=120)
    if process.returncode or not text.startswith("{"):
        outcome.problems.append(f"a client process ended with {process.returncode}: {text[-500:]}")
        return
    told = json.loads(text)
    outcome.done.update(told["done"])
    outcome.problems += told["wrong"]
    outcome.seconds += told["seconds"]


def _ended(daemon: Daemon, outcome: Outcome) -> None:
    if daemon.process.poll() is not None:
        outcome.problems.append(f"the daemon ended with {daemon.process.returncode}")
        return
    if max(outcome.memory) > MOST_MEMORY:
        outcome.problems.append(f"the daemon's own process took {max(outcome.memory)} bytes, at most {MOST_MEMORY}")
    _, second, last = outcome.most_memory()
    if len(outcome.memory) > _MEASURED and last > second + GROWTH:
        outcome.problems.append(f"memory grows: {second} bytes, then {last}")
    if code := daemon.end():
        outcome.problems.append(f"SIGTERM ended the daemon with {code}")
    outcome.problems += [f"the daemon's log says: {line}" for line in daemon.said()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.soak.abuse")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calm", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="symd-abuse-") as folder:
        outcome = run(Path(folder), chosen.seconds, chosen.clients, chosen.seed, calm=chosen.calm)
    for what, count in sorted(outcome.done.items()):
        print(f"{count:8} {what}")
    print(
        f"{outcome.killed} workers killed, {outcome.flipped} bytes changed, disk {'full once' if outcome.filled else 'never full'}"
    )
    print(
        "one address: "
        + ", ".join(f"p{part * 100:g} {outcome.percentile(part):.1f} ms" for part in (0.5, 0.9, 0.99, 1))
    )
    most = ", ".join(f"{part >> 20}" for part in outcome.most_memory())
    print(f"memory of the daemon's own process, at most in each third of the time: {most} MiB")
    for problem in dict.fromkeys(outcome.problems):
        print(problem)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
