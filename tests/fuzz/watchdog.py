"""Runs processes that try inputs, each one target at a time, ends one that hangs, and collects what they found."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import symd
from tests.fuzz.trial import GROWN, State, StateFile, keep, place

ROOT = Path(__file__).parents[2]
PACKAGE = Path(symd.__file__).parents[1]
"""Where symd is: a build of it may be tried that lies elsewhere."""
SECONDS_EACH = 60.0
"""Time on the clock that one input may take while the watchdog runs; a machine that is shared needs most of it for others."""
LONGEST_GAP = 3.0
"""What lies between two looks of the watchdog beyond so many seconds is nobody's: the machine was asleep, or all was stopped."""
START_SECONDS = 120.0
"""What a process may take to its first input."""
_POLL_SECONDS = 0.2
_KEPT_MEMORY = str(64 << 20)
_ENVIRONMENT = {
    "PYTHONFAULTHANDLER": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": f"{PACKAGE}{os.pathsep}{ROOT}",
    "MALLOC_TRIM_THRESHOLD_": _KEPT_MEMORY,
    "MALLOC_MMAP_THRESHOLD_": _KEPT_MEMORY,
}
"""Of a process that tries inputs; memory that one leaves is for the next (glibc's ``mallopt``), which saves a twentieth of the time."""


@dataclass(frozen=True, slots=True)
class ChildException:
    """An input that ended otherwise than in an answer or a refusal. ``path`` holds its bytes, beside ``what`` became of
    it."""

    what: str
    path: Path

    def __str__(self) -> str:
        return f"{self.path}:\n{self.what}"

    @property
    def place(self) -> str:
        """Defects with one place are likely one."""
        return place(self.what)


@dataclass
class Report:
    """What the inputs of each target came to, and the defects."""

    states: dict[str, State] = field(default_factory=dict)
    defects: list[ChildException] = field(default_factory=list)

    def add(self, name: str, state: State) -> None:
        self.states[name] = self.states.get(name, State()).with_(state)


class RetryPolicy:
    """How long an input has been tried, in time in which the watchdog ran too."""

    def __init__(self, now: float) -> None:
        self._looked, self._since, self._waited = now, 0.0, 0.0

    def waited(self, since: float, now: float) -> float:
        """Seconds spent on the input that was begun at ``since`` (0: none is at hand), as of ``now``."""
        passed = min(now - self._looked, LONGEST_GAP)
        before = self._waited if since == self._since else 0.0
        self._waited = before + min(passed, now - since) if since else 0.0
        self._looked, self._since = now, since
        return self._waited


class Child:
    """A process that tries inputs of one target, started again when it died."""

    def __init__(self, name: str, seed: int, folder: Path, seconds: float, *, how: str) -> None:
        self.name, self.folder = name, folder / "finds" / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"state-{os.getpid()}-{name}"
        self._path.unlink(missing_ok=True)
        self.file = StateFile(self._path)
        corpus = [how, str(folder / "corpus" / name)] if how else []
        self._command = [sys.executable, "-m", "tests.fuzz.child", name, str(seed), str(self._path), str(self.folder)]
        self._command += corpus
        self._starts, self._seconds, self._end = 0, seconds, time.monotonic() + seconds + START_SECONDS
        self._began = False
        self._patience = RetryPolicy(time.monotonic())
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        environment = os.environ | _ENVIRONMENT
        self._starts += 1
        command = list(self._command)
        command[4] = f"{command[4]}.{self._starts}"
        with self._log().open("w") as log:
            return subprocess.Popen(command, cwd=PACKAGE, env=environment, stdout=log, stderr=log)

    def _log(self) -> Path:
        return self._path.with_suffix(".log")

    def is_done(self) -> bool:
        """Whether its time is over; a process that died or hangs is started again."""
        state = self.file.read()
        if not self._began and state.tried:
            self._began, self._end = True, min(self._end, time.monotonic() + self._seconds)
        self._watch(state)
        return time.monotonic() > self._end

    def _watch(self, state: State) -> None:
        code = self.process.poll()
        late = self._patience.waited(state.since, time.monotonic()) > SECONDS_EACH
        if code is None and not late:
            return
        if code == GROWN:
            self.process = self._started()
            return
        self.kill()
        said = self._log().read_text(errors="replace")[-4000:]
        why = f"no answer within {SECONDS_EACH:g} s" if late else f"{said}\nthe process ended with {code}"
        keep(self.folder, self.file.at_hand(), why)
        self.file.write(state._replace(found=state.found + 1, since=0.0))
        self.process = self._started()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> dict[str, State]:
        """End it; what it did, by target, or by target and kind of input: "NAME.KIND". Those that it did not survive have no kind."""
        self.kill()
        state, kinds = self.file.read(), self.file.by_kind()
        self._path.unlink()
        self._log().unlink(missing_ok=True)
        if not kinds:
            return {self.name: State().with_(state)}
        name = self.name.partition(".")[0]  # one that counts by kind may have been named with the kind of its seeds
        found = {f"{name}.{kind}": of_kind for kind, of_kind in kinds.items()}
        counted = State()
        for each in kinds.values():
            counted = counted.with_(each)
        rest = State(*(max(0, whole - part) for whole, part in zip(state[:3], counted[:3], strict=True)))
        return found | ({name: rest} if rest.tried else {})


def run(
    names: Sequence[str],
    seed: int,
    seconds: float,
    folder: Path,
    *,
    children: int = 1,
    how: str = "guided",
    done: Callable[[str, State], object] = lambda _name, _state: None,
) -> Report:
    """Try inputs of each target for so many seconds, from its first input on, in so many processes; what is found is written below ``folder``.
    ``how`` is "guided", "grown" or "" (`tests.fuzz.child`). ``done`` is told what each target came to whose time is over; of one that counts by kind, each kind."""
    report, waiting, working = Report(), list(names), list[Child]()
    before = {path: path.stat().st_mtime for path in folder.glob("finds/*/*")}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        while waiting or working:
            while waiting and len(working) < children:
                name = waiting.pop(0)
                working.append(Child(name, seed, folder, seconds, how=how))
            for child in [each for each in working if each.is_done()]:
                working.remove(child)
                for name, state in child.end().items():
                    report.add(name, state)
                    done(name, state)
            time.sleep(_POLL_SECONDS)
    finally:
        for child in working:
            for name, state in child.end().items():
                report.add(name, state)
    for path in sorted(folder.glob("finds/*/*.txt")):
        if before.get(path) != path.stat().st_mtime and path.parent.name in names:
            report.defects.append(ChildException(path.read_text().strip(), path.with_suffix("")))
    return report
