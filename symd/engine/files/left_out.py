"""Files that somebody else than the user names. Bytes from elsewhere: what is read here would travel to a daemon, so that for one only those are
read that lie beside whoever names them. An assistant: only what the user allowed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from symd.errors import PermissionDenied
from symd.model.frame_text import printable
from symd.system.notices import complain

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN = 4


class AllowedFiles:
    """The one check of all files that an assistant has opened, by whatever name it or the bytes of another file call them: those below ``roots``
    and the ``files`` themselves, which are there. Raises OSError where one is not."""

    def __init__(self, roots: Sequence[Path], files: Sequence[str], hint: str) -> None:
        self.roots = tuple(dict.fromkeys(str(root.expanduser().resolve(strict=True)) for root in roots))
        self.files = tuple(files)
        self._real = frozenset(os.path.realpath(file, strict=True) for file in files)
        self._hint = hint

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Whether what a path leads to is allowed, be it there or not; a folder is where it, or one above it, is one of the roots."""
        return self._root_of(_led_to(path)) is not None

    def check(self, path: str) -> None:
        """Raises PermissionDenied for a path that leads to nothing allowed, in the same words whether or not something is there."""
        if not self.holds(path):
            raise self._refusal(path)

    def opened(self, path: str) -> BinaryIO:
        """The regular file at a path. Raises PermissionDenied, and OSError where it cannot be read."""
        from pathlib import Path  # noqa: PLC0415 - slow to load, and few open files so

        from symd.store.source_files import opened_below  # noqa: PLC0415 - likewise

        real = _led_to(path)
        root = self._root_of(real)
        if root is None:
            raise self._refusal(path)
        return os.fdopen(opened_below(Path(root), Path(real)), "rb")

    def _refusal(self, path: str) -> PermissionDenied:
        return PermissionDenied(
            "symd mcp does not open this path: it lies below no --source-root, and is none of the files that it was started with",
            where=printable(path[:200]),
            hint=self._hint,
        )

    def _root_of(self, real: str) -> str | None:
        """The root that a path without links lies below; "/" for one of the files."""
        if real in self._real:
            return "/"
        return next((root for root in self.roots if f"{real}/".startswith(f"{root.rstrip('/')}/")), None)


def _led_to(path: str | os.PathLike[str]) -> str:
    """Where a path leads, without links; nowhere for what is no path."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL
        return ""


def is_below(path: Path, folders: Sequence[Path]) -> bool:
    """Whether a path, as it is written, stays inside one of the folders."""
    from pathlib import Path  # noqa: PLC0415 - slow to load, and few files name others

    whole = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps ".."
    return any(whole.is_relative_to(os.path.abspath(folder)) for folder in folders)  # noqa: PTH100 - likewise


def say_left_out(file: str, paths: Sequence[str], hint: str) -> None:
    """Tell the user, once for all of them, which files of this machine stayed here."""
    if not paths:
        return
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    names = ", ".join(printable(path) for path in paths[:_SHOWN])
    complain(f"{printable(file)} names files that are not sent to the daemon: {names}{more}; {hint}")
