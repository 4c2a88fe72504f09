"""``symd samples``: modules, sources and clients to try symd with, wherever it was installed from."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from symd.cli.options import example
from symd.cli.output import write_line
from symd.errors import InvalidInput, Unavailable
from symd.output_file import output_folder

COPIED = ("samples", "protos")
"""The clients among the samples are built with the protos beside them."""
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

    Modules of every kind that symd reads with their sources, profiles, core dumps, and clients in several languages. Ends with 2
    where FOLDER has something of these names.
    """
    place = output_folder(folder, hint="name another folder")
    for name in COPIED:
        if (place / name).exists():
            raise InvalidInput("something is there already", where=str(folder / name), hint="name another folder")
    for name in COPIED:
        try:
            shutil.copytree(shipped(name), place / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        except (OSError, shutil.Error) as error:
            raise Unavailable(f"cannot copy: {error}", where=str(folder / name)) from error
        write_line(str(folder / name))
