"""A program run with its time and its memory measured. This file is also the small program that starts it: what a child
has of its parent's memory before it becomes another program is counted as its own, so that the parent must be small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DEADLINE = 1200
"""Seconds after which a program is taken for hanging."""


@dataclass(frozen=True)
class Usage:
    """``wall`` and ``processor`` in seconds, ``peak`` in bytes of resident memory."""

    wall: float = 0.0
    processor: float = 0.0
    peak: int = 0

    def then(self, other: Usage) -> Usage:
        """Both, one after the other."""
        return Usage(self.wall + other.wall, self.processor + other.processor, max(self.peak, other.peak))


@dataclass(frozen=True)
class Done:
    code: int
    output: bytes
    errors: str
    usage: Usage


def run(
    command: Sequence[str | Path],
    folder: Path,
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    deadline: float = DEADLINE,
) -> Done:
    """Run ``command`` in ``folder``, which must exist; ``subprocess.TimeoutExpired`` when it hangs."""
    read, write = os.pipe()
    words = [sys.executable, "-I", "-S", __file__, str(write), *map(str, command)]
    with (
        subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[write],
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        ) as starter,
        os.fdopen(read, "rb") as pipe,
    ):
        os.close(write)
        try:
            output, errors = starter.communicate(stdin, timeout=deadline)
        except subprocess.TimeoutExpired:
            os.killpg(starter.pid, signal.SIGKILL)
            starter.communicate()
            raise
        told = pipe.read()
    code, wall, processor, peak = json.loads(told)
    return Done(code, output, errors.decode(errors="replace"), Usage(wall, processor, peak))


def main(report: int, command: list[str]) -> int:
    import time  # noqa: PLC0415 - as little as possible is loaded before the program starts

    before = time.monotonic()
    os.set_inheritable(report, False)
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, used = os.wait4(child, 0)
    wall = time.monotonic() - before
    code = os.waitstatus_to_exitcode(status)
    told = json.dumps([code, wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024])
    os.write(report, told.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
