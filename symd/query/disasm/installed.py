"""Where disassemblers are installed: folders that the user names, then PATH, then where vendors put them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

VARIABLE = "SYMD_TOOLS"
"""Folders to look into first, for programs and for libraries, separated like those of PATH."""


_LIBRARY_FOLDERS = (
    *(f"{prefix}/lib/{os.uname().machine}-linux-gnu" for prefix in ("", "/usr", "/usr/local")),
    *(f"{prefix}/{lib}" for prefix in ("", "/usr", "/usr/local") for lib in ("lib64", "lib")),
)


def programs(name: str, elsewhere: Sequence[str] = ()) -> list[str]:
    """Every program ``name`` or ``name-VERSION``, the best first: from SYMD_TOOLS, the highest version on PATH, the one
    without a version, then those in the folders ``elsewhere``. A program with several names is listed once."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found: dict[str, str] = {}
    for each in _ordered(name, path, elsewhere):
        found.setdefault(os.path.realpath(each), each)
    return list(found.values())


def _ordered(name: str, path: Sequence[str], elsewhere: Sequence[str]) -> Iterator[str]:
    yield from (each for folder in chosen_folders() for each in _plain(folder, name))
    versioned = [hit for folder in path for hit in _versioned(folder, name)]
    yield from (each for _, each in sorted(versioned, key=lambda hit: -hit[0]))
    yield from (each for folder in (*path, *elsewhere) for each in _plain(folder, name))


def chosen_folders() -> list[str]:
    """The folders of SYMD_TOOLS."""
    return [folder for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]


def has_library(file: str) -> bool:
    """Whether a library with that file name lies in SYMD_TOOLS or where the system keeps libraries."""
    named = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return any(Path(folder, file).exists() for folder in (*chosen_folders(), *filter(None, named), *_LIBRARY_FOLDERS))


def library(name: str) -> str | None:
    """The file name under which the system's loader finds library ``name`` ("iga64" for libiga64.so), or None."""
    from ctypes.util import find_library  # noqa: PLC0415 - it starts compilers' tools, and few ask

    return find_library(name)


def _plain(folder: str, name: str) -> list[str]:
    candidate = Path(folder, name)
    return [str(candidate)] if folder and _runs(candidate) else []


def _versioned(folder: str, name: str) -> Iterator[tuple[int, str]]:
    pattern = re.compile(re.escape(name) + r"-([0-9]{1,4})")
    try:
        entries = [*Path(folder).iterdir()] if folder else []
    except OSError:
        return
    for entry in entries:
        hit = pattern.fullmatch(entry.name)
        if hit and _runs(entry):
            yield int(hit[1]), str(entry)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
