"""cuda-gdb's reading of a core dump: frames and variables of lanes. ``$SYMD_CUDA_GDB`` is the program."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

SECONDS = 300
"""Against hanging."""


class WorkQueue(NamedTuple):
    sm: int
    warp: int
    lane: int


Frames = list[tuple[str, int]]
"""The last part of the file's path and the line of each frame, innermost first; ("", 0) where cuda-gdb has none."""


def program() -> str:
    """Skips the test where there is no cuda-gdb."""
    found = os.environ.get("SYMD_CUDA_GDB")
    if not found:
        pytest.skip("SYMD_CUDA_GDB does not name a cuda-gdb")
    return found


def frames(dump: Path, lanes: Sequence[WorkQueue]) -> dict[WorkQueue, Frames]:
    """The call stack of each lane."""
    found = _asked(dump, lanes, ["bt"])
    return {lane: [*_frames(text)] for lane, text in zip(lanes, found, strict=True)}


def values(dump: Path, asked: Sequence[tuple[WorkQueue, str]]) -> list[str]:
    """What cuda-gdb prints of each variable in the innermost frame of its lane."""
    texts = _asked(dump, [lane for lane, _ in asked], [f"print {name}" for _, name in asked])
    return [_value(text) for text in texts]


def _asked(dump: Path, lanes: Sequence[WorkQueue], commands: Sequence[str]) -> list[str]:
    """What each command, or the only one, prints with the focus on each lane."""
    each = commands if len(commands) == len(lanes) else [commands[0]] * len(lanes)
    script = ["set pagination off", "set width 0", "set print frame-arguments none", f"target cudacore {dump}"]
    for (sm, warp, lane), command in zip(lanes, each, strict=True):
        script += [f"cuda device 0 sm {sm} warp {warp} lane {lane}", "echo @@\\n", command]
    options = [word for line in script for word in ("-ex", line)]
    done = subprocess.run(
        [program(), "--batch", "-nx", *options], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    parts = done.stdout.split("@@\n")[1:]
    assert len(parts) == len(lanes), done.stdout + done.stderr
    return parts


def _frames(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        found = re.match(r"#\d+\s+.*?(?: at (\S+):(\d+))?$", line)
        if found:
            yield ((found[1] or "").rpartition("/")[2], int(found[2] or 0))


def _value(text: str) -> str:
    """A value without its type, and an address without its symbol."""
    found = re.match(r"\$\d+ = (?:\([^)]*\) )?(\S+)", text)
    return found[1] if found else ""
