"""Whether a folder may be a cache: whatever lies in one may be removed to make room."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from symd.errors import FailedPrecondition

KINDS: Final = ("modules", "index")
"""How names of objects begin: what else lies among the files is not the cache's."""
_OWN: Final = frozenset({"files", "incoming", "incoming-modules", "lost+found"})


def check_no_others(folder: Path) -> None:
    """Raises ``FailedPrecondition`` where there is something that no cache has. Raises OSError."""
    beside, inside = _names(folder), _names(folder / "files")
    others = sorted(f"files/{name}" for name in inside - set(KINDS))
    if not inside:  # nothing says that it is a cache already
        others += sorted(beside - _OWN)
    if others:
        raise FailedPrecondition(
            f"the folder is no cache of symd's, and has something in it: {ascii(others[0])[1:-1]}",
            where=str(folder),
            hint="choose with --cache an empty folder, or one that is not there yet",
        )


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()
