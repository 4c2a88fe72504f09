"""Independent tools that tests compare symd with: found under their plain or versioned names, demanded under CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

UNDER_CI = bool(os.environ.get("CI"))


@cache
def find(name: str) -> str | None:
    """The path of a tool: ``name`` itself on PATH, or the highest ``name-<version>``; None when there is neither."""
    plain = shutil.which(name)
    if plain:
        return plain
    versioned = re.compile(re.escape(name) + r"-(\d+)")
    found: dict[int, str] = {}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for path in Path(folder).glob(f"{name}-*") if folder else ():
            hit = versioned.fullmatch(path.name)
            if hit and os.access(path, os.X_OK):
                found.setdefault(int(hit[1]), str(path))
    return found[max(found)] if found else None


def require(*names: str) -> str:
    """The path of the first of these alternatives that is installed. Without any the test is skipped, and under CI it
    fails: there every comparison is made."""
    for name in names:
        path = find(name)
        if path:
            return path
    missing = f"{' or '.join(names)} is not installed"
    if UNDER_CI:
        pytest.fail(missing)
    pytest.skip(missing)


def output(*command: str | Path) -> str:
    """What a tool prints on stdout; the test fails when it exits with an error. What it says on stderr is dropped."""
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, errors="replace"
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout
