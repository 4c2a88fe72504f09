"""Runs children that try inputs, kills one that hangs, and collects what they find: each defect with the input's bytes in
a file."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.mutations import mutated

ROOT = Path(__file__).parents[2]
SECONDS_EACH = 20.0
"""What one input may take; a machine that is shared needs some of it for others."""
MEBIBYTES = 768


@dataclass(frozen=True, slots=True)
class Defect:
    """An input that ended otherwise than in an answer or a refusal. ``path`` holds its bytes."""

    seed: int
    number: int
    what: str
    path: Path

    def __str__(self) -> str:
        return f"input {self.number} of seed {self.seed}, {self.path}:\n{self.what}"

    @property
    def place(self) -> str:
        """The last line of the tree's own code in the trace and the error: defects with one place are likely one."""
        frames = [line.strip() for line in self.what.splitlines() if "/symd/" in line]
        return f"{frames[-1] if frames else ''} {self.what.strip().splitlines()[-1][:80]}"


@dataclass
class Report:
    """What a run saw. ``outcomes`` counts them by name; ``slowest`` is (seconds, number)."""

    outcomes: Counter[str] = field(default_factory=Counter)
    defects: list[Defect] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)

    @property
    def tried(self) -> int:
        return sum(self.outcomes.values())


class Child:
    """A process that tries inputs; its lines are read in a thread, so that silence can be noticed."""

    def __init__(self, seed: int, first: int, step: int) -> None:
        self.current, self.since = first, time.monotonic() + SECONDS_EACH  # the start is free
        command = [sys.executable, "-m", "tests.fuzz.child", *map(str, (seed, first, step, MEBIBYTES))]
        environment = os.environ | {"PYTHONFAULTHANDLER": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


def run(seed: int, seconds: float, folder: Path, children: int = 1) -> Report:
    """Try inputs of ``seed`` for about so long, in so many processes; defects are written below ``folder``."""
    report, end = Report(), time.monotonic() + seconds
    working = [Child(seed, first, children) for first in range(children)]
    try:
        while time.monotonic() < end:
            for slot, child in enumerate(working):
                if not _followed(child, seed, folder, report):
                    child.kill()
                    working[slot] = Child(seed, child.current + children, children)
            time.sleep(0.02)
    finally:
        for child in working:
            child.kill()
    return report


def _followed(child: Child, seed: int, folder: Path, report: Report) -> bool:
    """Take what the child said; False when it has to be replaced."""
    for message in _messages(child):
        if message is None:
            _keep(report, seed, child.current, f"the process ended with {child.process.wait()}", folder, "crash")
            return False
        _count(child, message, seed, folder, report)
    if time.monotonic() - child.since > SECONDS_EACH:
        _keep(report, seed, child.current, f"no answer within {SECONDS_EACH:g} s", folder, "hang")
        return False
    return True


def _count(child: Child, message: dict[str, Any], seed: int, folder: Path, report: Report) -> None:
    now = time.monotonic()
    if "outcome" not in message:
        child.current, child.since = message["number"], now
    elif message["outcome"] == "defect":
        _keep(report, seed, message["number"], message["trace"], folder, "defect")
    else:
        report.outcomes[message["outcome"]] += 1
        report.slowest = max(report.slowest, (now - child.since, message["number"]))


def _messages(child: Child) -> Iterator[dict[str, Any] | None]:
    """What the child said since the last time; None when it ended."""
    while True:
        try:
            line = child.lines.get_nowait()
        except queue.Empty:
            return
        yield json.loads(line) if line else None


def _keep(report: Report, seed: int, number: int, what: str, folder: Path, kind: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind}-{seed}-{number}"
    path.write_bytes(mutated(seed, number))
    path.with_suffix(".txt").write_text(f"{what}\n")
    report.outcomes[kind] += 1
    report.defects.append(Defect(seed, number, what, path))
