"""Files that bytes from elsewhere name: what is read here would travel to a daemon, so that for one only those are read that lie
beside whoever names them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from symd.cli.output import printable

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN = 4


def is_below(path: Path, folders: Sequence[Path]) -> bool:
    """Whether a path, as it is written, stays inside one of the folders."""
    from pathlib import Path  # noqa: PLC0415 - slow to load, and few files name others

    whole = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps ".."
    return any(whole.is_relative_to(os.path.abspath(folder)) for folder in folders)  # noqa: PTH100 - likewise


def say_left_out(file: str, paths: Sequence[str], hint: str) -> None:
    """Tell the user, once for all of them, which files of this machine stayed here."""
    if not paths:
        return
    import click  # noqa: PLC0415 - slow to import

    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    names = ", ".join(printable(path) for path in paths[:_SHOWN])
    click.echo(f"symd: {printable(file)} names files that are not sent to the daemon: {names}{more}; {hint}", err=True)
