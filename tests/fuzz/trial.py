"""One process that tries inputs of one target: what each came to is counted in a file that whoever started it reads while it
runs, with the input that is being tried, so that one that hangs or kills is known. What is found is written to a
folder."""

from __future__ import annotations

import hashlib
import mmap
import resource
import struct
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.target import Find, Refused, Target

SECONDS = 2.0
"""Processor time that one input may take."""
GROWN = 75
"""Exit code of a guided process whose own memory, of libFuzzer's corpus and coverage, took half of what an input may: another one goes on."""
KEPT_ALIKE = 3
"""Inputs kept of one place."""
_ROOM = 8 << 20
_KIND = "+"
_STATE = struct.Struct("<QQQQddQ")


class State(NamedTuple):
    """What a process says of itself: inputs answered, refused, that were finds; when the one at hand began
    (``time.monotonic``; 0: none is), the slowest in seconds of processor time, and the bytes of the one at hand."""

    answered: int = 0
    refused: int = 0
    found: int = 0
    unused: int = 0
    since: float = 0.0
    slowest: float = 0.0
    size: int = 0

    @property
    def tried(self) -> int:
        return self.answered + self.refused + self.found

    def with_(self, other: State) -> State:
        """What both came to; no input is at hand."""
        answered, refused, found = map(sum, zip(self[:3], other[:3], strict=True))
        return State(answered, refused, found, slowest=max(self.slowest, other.slowest))


class StateFile:
    """A state and an input in a file that two processes map."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("a+b") as file:
            file.truncate(_ROOM)
            self._map = mmap.mmap(file.fileno(), _ROOM)

    def write(self, state: State, data: bytes | None = None) -> None:
        if data is not None:
            self._map[_STATE.size : _STATE.size + len(data)] = data
        self._map[: _STATE.size] = _STATE.pack(*state)

    def read(self) -> State:
        return State(*_STATE.unpack(self._map[: _STATE.size]))

    def of_kind(self, kind: str) -> StateFile:
        """A file beside this one, for the inputs of one kind; also one that another process made."""
        return StateFile(self._path.with_name(f"{self._path.name}{_KIND}{kind}"))

    def by_kind(self) -> dict[str, State]:
        """What ``of_kind`` was told so far; the files are removed."""
        found = {}
        for path in self._path.parent.glob(f"{self._path.name}{_KIND}*"):
            found[path.name.rpartition(_KIND)[2]] = StateFile(path).read()
            path.unlink()
        return found

    def at_hand(self) -> bytes:
        """The input that is being tried, or was when the process ended."""
        return self._map[_STATE.size : _STATE.size + self.read().size]


class Trial:
    """Tries inputs of one target and keeps what it finds in ``folder``."""

    def __init__(self, target: Target, state: StateFile, folder: Path) -> None:
        self._target, self._file, self._folder = target, state, folder
        self._state = state.read()
        self._alike: Counter[str] = Counter()
        self._kinds: dict[str, StateFile] = {}

    @property
    def tried(self) -> int:
        """Inputs of this process, and of those before it."""
        return self._state.tried

    def __call__(self, data: bytes) -> None:
        """Never raises: a find is written down."""
        data = data[: self._target.largest]
        self._state = self._state._replace(since=time.monotonic(), size=len(data))
        self._file.write(self._state, data)
        began = time.process_time()
        answered = refused = 0
        why, to_blame = "", data
        try:
            self._target.run(data)
            answered = 1
        except Refused:
            refused = 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
            why = traceback.format_exc()
            to_blame = error.data if isinstance(error, Find) else data
        took = time.process_time() - began
        if not why and took > SECONDS:
            why = f"Slow: {took:.1f} s of processor time"
        if why:
            answered = refused = 0
            keep(self._folder, to_blame, why, self._alike)
        outcome = State(answered, refused, int(bool(why)), slowest=took)
        if self._target.kind is not None:  # before the whole: who is killed in between leaves no input without a kind
            self._count(self._target.kind(data), outcome)
        self._state = self._state.with_(outcome)
        self._file.write(self._state)

    def _count(self, kind: str, outcome: State) -> None:
        if kind not in self._kinds:
            self._kinds[kind] = self._file.of_kind(kind)
        file = self._kinds[kind]
        file.write(file.read().with_(outcome))


def keep(folder: Path, data: bytes, why: str, alike: Counter[str] | None = None) -> Path | None:
    """Write an input and what became of it, unless there are enough of the same place; the input's path."""
    alike = Counter() if alike is None else alike
    where = place(why)
    alike[where] += 1
    if alike[where] > KEPT_ALIKE:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(where.encode()).hexdigest()[:8]}-{hashlib.sha256(data).hexdigest()[:8]}"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(f"{why}\n")
    return path


def place(why: str) -> str:
    """The last line of symd's own in a trace, and the error's name: finds with one place are likely one."""
    frames = [line.strip() for line in why.splitlines() if "/symd/" in line]
    return f"{frames[-1] if frames else ''} {why.strip().splitlines()[-1].split(':')[0][:80]}"


def bound_memory(most: int) -> None:
    """So many bytes of address space more than the process has."""
    limit = address_space() + most
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def address_space() -> int:
    """Bytes of it that the process has."""
    taken = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
    return int(taken.split()[1]) << 10
