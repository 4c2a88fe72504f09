"""``symd rm MODULE...``: let a daemon forget modules."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from symd.cli.options import daemon_option, example, json_option
from symd.cli.output import NO, write_json, write_line
from symd.client import Client
from symd.config import DEFAULT_LIMITS
from symd.engine.files.input import read_input
from symd.engine.files.module import chosen_module
from symd.errors import BadQuery, ModuleNotFound, SymdError
from symd.system.messages import complain

if TYPE_CHECKING:
    from symd.client import Client


@click.command("rm", epilog=example("symd daemon rm 9b74c989\nsymd daemon rm --json modules/9b74c989 modules/1f2e3d4c"))
@daemon_option
@json_option
@click.argument("modules", nargs=-1, required=True, metavar="MODULE...")
def command(server: str | None, as_json: bool, modules: tuple[str, ...]) -> int:
    """Remove modules from a daemon, with their indexes and aliases. What is recorded about their loads in contexts is kept.

    MODULE is a SHA-256 as symd daemon modules shows it, with or without modules/ in front, or a beginning that no other module shares; an
    ambiguous beginning removes nothing. Exit code 1: a module does not exist; the others are removed.
    """

    gone = 0
    with Client(server) as client:
        for text in modules:
            try:
                digest = _chosen(client, text)
                client.remove(digest)
            except ModuleNotFound as error:
                complain(str(error))
                continue
            gone += 1
            write_json({"module": f"modules/{digest}", "removed": True}) if as_json else write_line(
                f"removed modules/{digest}"
            )
    return 0 if gone == len(modules) else NO


def _chosen(client: Client, text: str) -> str:
    """The module's digest. Raises what ``chosen_module`` raises; of a file it says which module that is."""
    try:
        return chosen_module(client, text)
    except BadQuery as error:
        if Path(text).is_file():
            with suppress(SymdError):
                digest = hashlib.sha256(read_input(text, DEFAULT_LIMITS)).hexdigest()
                error.hint = f"this is a file; a module is named by its SHA-256: symd rm {digest}"
        raise
