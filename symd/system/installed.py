"""What is installed: folders that come with symd, and programs of other makers, which may be there in several versions,
in folders that the user names, on PATH, or where their vendors put them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from symd.errors import Unavailable

_PACKAGE = Path(__file__).parents[1]

VARIABLE = "SYMD_TOOLS"
"""Folders to look into first, for programs and for libraries, separated like those of PATH."""


def on_path(name: str) -> str | None:
    """The program that a shell runs for a name; None where there is none."""
    folders = os.environ.get("PATH", os.defpath)
    found = (Path(folder, name) for folder in folders.split(os.pathsep)) if folders else ()
    return next((str(path) for path in found if _runs(path)), None)


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


def shipped(name: str) -> Path:
    """The folder ``name`` of the repository: in the package as a wheel has it, else in the checkout. Raises
    ``Unavailable``."""
    for folder in (_PACKAGE / "shipped" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise Unavailable(
        f"this symd was installed without its {name}", where=str(_PACKAGE), hint="install it from a wheel or a checkout"
    )
