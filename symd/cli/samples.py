"""``symd samples``: modules, sources and clients to try symd with, wherever it was installed from."""

from __future__ import annotations

import filecmp
import os
import shutil
from pathlib import Path

import click

from symd.cli.options import example
from symd.cli.output import write_line
from symd.errors import InvalidInput, Unavailable
from symd.output_file import output_folder

COPIED = ("samples", "protos")
"""The clients among the samples are built with the protos beside them."""
_LEFT_OUT = ("__pycache__", "node_modules")
_PACKAGE = Path(__file__).parents[1]


def shipped(name: str) -> Path:
    """The folder ``name`` of the repository: in the package as a wheel has it, else in the checkout. Raises ``Unavailable``."""
    for folder in (_PACKAGE / "shipped" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise Unavailable(
        f"this symd was installed without its {name}", where=str(_PACKAGE), hint="install it from a wheel or a checkout"
    )


@click.command("samples", epilog=example("symd samples .\nsymd symbolize samples/amdgpu/bin/v4-gfx900.co shade+0x80"))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path) -> None:
    """Copy symd's samples to FOLDER/samples, and its protos to FOLDER/protos.

    Modules of every kind that symd reads with their sources, profiles, core dumps, and clients in several languages. What an earlier call
    copied stays as it is; ends with 2 where FOLDER has something else of these names.
    """
    place = output_folder(folder, hint="name another folder")
    there = [name for name in COPIED if os.path.lexists(place / name)]
    for name in there:
        if not _has_all(place / name, shipped(name)):
            raise InvalidInput("something else is there already", where=str(folder / name), hint="name another folder")
    for name in COPIED:
        try:
            if name not in there:
                shutil.copytree(shipped(name), place / name, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        except (OSError, shutil.Error) as error:
            raise Unavailable(f"cannot copy: {error}", where=str(folder / name)) from error
        write_line(str(folder / name))


def _has_all(folder: Path, original: Path) -> bool:
    """Whether each file of ``original`` is in ``folder`` too, as it is."""
    for above, folders, files in os.walk(original):
        folders[:] = [each for each in folders if each not in _LEFT_OUT]
        copied = folder / Path(above).relative_to(original)
        try:
            if not all(filecmp.cmp(Path(above, each), copied / each) for each in files):
                return False
        except OSError:
            return False
    return True
