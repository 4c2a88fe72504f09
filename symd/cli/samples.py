"""``symd samples``: modules, sources and clients to try symd with, wherever it was installed from."""

from __future__ import annotations

import filecmp
import os
import shutil
from functools import partial
from pathlib import Path

import click

from symd.cli.options import example
from symd.cli.output import write_line
from symd.errors import InvalidInput, Unavailable
from symd.system.atomic_output import output_folder
from symd.system.installed import shipped
from symd.system.messages import os_error_text
from symd.system.private_files import temporary_folder

COPIED = ("samples", "protos")
"""The clients among the samples are built with the protos beside them."""
_LEFT_OUT = ("__pycache__", "node_modules")


@click.command(
    "samples", epilog=example("symd setup samples .\nsymd symbolize samples/amdgpu/bin/v4-gfx900.co shade+0x80")
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path) -> None:
    """Copy symd's samples to FOLDER/samples, and its protos to FOLDER/protos.

    The samples are modules of every kind that symd reads, with their sources, profiles, core dumps, and clients in
    several languages. Copies from an earlier call are left as they are. Exit code 2: FOLDER has something else with
    these names.
    """
    place = output_folder(folder, hint="name another folder")
    there = [name for name in COPIED if os.path.lexists(place / name)]
    for name in there:
        if (other := _first_other(place / name, shipped(name))) is not None:
            raise InvalidInput(
                f"something else is there already: {other} is not there, or not as symd has it",
                where=str(folder / name),
                hint="name another folder, or remove this one",
            )
    for name in COPIED:
        if name not in there:
            _copy(shipped(name), place / name, folder / name)
        write_line(str(folder / name))


def _copy(original: Path, place: Path, named: Path) -> None:
    """Copy a folder, whole or not at all: the next call would take a part of it for something else. Raises
    ``Unavailable``."""
    try:
        with temporary_folder(".symd-samples-", place.parent) as folder:
            made = folder / place.name
            shutil.copytree(
                original, made, ignore=shutil.ignore_patterns(*_LEFT_OUT), copy_function=partial(_copy_file, named)
            )
            made.rename(place)
    except OSError as error:  # shutil.Error is one too
        raise _refused(error, named) from error


def _copy_file(named: Path, source: str, target: str) -> None:
    try:
        shutil.copy2(source, target)
    except OSError as error:  # else copytree goes on with the others, and lists what each said
        raise _refused(error, named) from error


def _refused(error: OSError, named: Path) -> Unavailable:
    return Unavailable(f"cannot copy: {os_error_text(error)}", where=str(named), hint="name another folder")


def _first_other(folder: Path, original: Path) -> Path | None:
    """The first file of ``original`` that ``folder`` does not have as it is, as a path below both; None where it has
    all."""
    for above, folders, files in os.walk(original):
        folders[:] = [each for each in folders if each not in _LEFT_OUT]
        below = Path(above).relative_to(original)
        for each in files:
            try:
                if filecmp.cmp(Path(above, each), folder / below / each):
                    continue
            except OSError:
                pass
            return below / each
    return None
