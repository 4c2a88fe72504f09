"""``symd install-shim DIR``: scripts of the names llvm-symbolizer and addr2line, for programs that run those from
PATH."""

from __future__ import annotations

import os
import secrets
import shlex
import stat
import sys
from pathlib import Path

import click

from symd.cli.options import example
from symd.cli.original_tools import SHIM_MARK
from symd.cli.output import write_line
from symd.errors import InvalidInput
from symd.system.atomic_output import output_folder
from symd.system.messages import os_error_text
from symd.system.private_files import new_file
from symd.system.symlinks import resolved

NAMES = ("llvm-symbolizer", "addr2line")
_SHIM_BYTES = 4096
"""Bytes from the beginning of a shim in which the mark stands."""


@click.command(
    "install-shim",
    epilog=example(
        "symd setup install-shim ~/.local/share/symd/shims\nPATH=~/.local/share/symd/shims:$PATH trace_processor bundle …"
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--force", is_flag=True, help="Replace existing programs of these names.")
def command(folder: str, force: bool) -> None:
    """Write scripts named llvm-symbolizer and addr2line into DIR. They answer for GPU modules, and pass everything else
    on to the real tools further down in PATH. Put DIR first in PATH.
    """
    place = output_folder(Path(folder), hint="name another folder")
    try:
        for name in NAMES:
            _write(place / name, name, force)
            write_line(str(Path(folder, name)))
    except OSError as error:
        raise InvalidInput(f"cannot be written: {os_error_text(error)}", where=folder) from error


def _write(path: Path, name: str, force: bool) -> None:
    if os.path.lexists(path) and not force and not _is_shim(path):
        raise InvalidInput("another program lies there", where=str(path), hint="choose another folder, or give --force")
    # -P: nothing is imported from the folder in which the script happens to be called (Python, Command line and
    # environment)
    text = f'#!/bin/sh\n{SHIM_MARK}\nexec {shlex.quote(sys.executable)} -P -m symd {name} "$@"\n'
    incoming = path.with_name(f".{name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(new_file(incoming), "w") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o755)
        incoming.replace(path)
    finally:
        incoming.unlink(missing_ok=True)


def _is_shim(path: Path) -> bool:
    """Whether it is a script of ours, behind no link of another user's. A pipe is none, and is not waited for."""
    with os.fdopen(os.open(resolved(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as stream:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode) and SHIM_MARK.encode() in stream.read(_SHIM_BYTES)
